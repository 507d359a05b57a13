"""Words shared by every room: frozen data, standard library only."""
