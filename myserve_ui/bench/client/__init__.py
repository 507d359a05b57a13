"""The client that measures: one request, its bytes, what a foreign server says."""
