"""The command line: the server, and reports without one."""
