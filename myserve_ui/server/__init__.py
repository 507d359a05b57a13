"""The composition root, and how the whole is run: the only place that knows all rooms."""

from myserve_ui.server.composition import create_app

__all__ = ["create_app"]
