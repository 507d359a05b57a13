"""The runner whose cache is a row for each sequence: every CPU."""
