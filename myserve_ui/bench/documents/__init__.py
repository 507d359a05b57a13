"""What a run leaves: rows, the document, its store, comparisons of two."""
