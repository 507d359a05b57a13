"""Rounds in turn: the app, what people run without an engine, and other servers."""
