"""Calls of tools: how models write them, a module a format, and how they are read out of an answer as it comes."""
