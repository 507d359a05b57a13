"""Tool calls read out of what a model writes."""
