"""The composition root, and how the whole is run: the only place that knows all rooms."""
