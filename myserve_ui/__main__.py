"""`python -m myserve_ui` with the name of a command; without one it lists them."""

from __future__ import annotations

import sys

from myserve_ui.cli.commands import main
from myserve_ui.settings import keep_docstrings

if __name__ == "__main__":
    keep_docstrings()
    sys.exit(main(sys.argv[1:]))
