"""The launcher of a checkout and of the image: `serve` with the settings that follow."""

from __future__ import annotations

import sys

from myserve_ui.cli.commands import main
from myserve_ui.server.process import leave
from myserve_ui.settings.environment import keep_docstrings

if __name__ == "__main__":
    keep_docstrings()
    leave(main(["serve", *sys.argv[1:]]))
