"""Grammars are tried in a process of their own before the app compiles them."""
