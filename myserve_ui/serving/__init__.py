"""The narrow waist: the only room with threads. Every door comes through here."""
