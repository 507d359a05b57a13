"""Every setting of the app, from where it is written to what it means: fields, reading, and what a process is given."""

from __future__ import annotations

from myserve_ui.settings.fields import Settings
from myserve_ui.settings.model_tables import ModelTable
from myserve_ui.settings.reading import read_settings

__all__ = ["ModelTable", "Settings", "read_settings"]
