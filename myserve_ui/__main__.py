"""`python -m myserve_ui` with the name of a command; without one it lists them."""

from __future__ import annotations

import sys

from myserve_ui.cli.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
