"""`myserve-ui`, or `python -m myserve_ui`, with the name of a command; without one it lists them."""

from __future__ import annotations

import sys
from typing import NoReturn

from myserve_ui.cli.commands import main
from myserve_ui.server.process import leave
from myserve_ui.settings.environment import keep_docstrings


def run() -> NoReturn:
    """What the installed command calls."""
    keep_docstrings()
    leave(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
