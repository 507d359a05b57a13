"""The command line: reports without a server."""
