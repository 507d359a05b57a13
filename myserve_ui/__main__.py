"""`python -m myserve_ui fidelity | perplexity | selftest`: reports and the self-test, without a server."""

from __future__ import annotations

import sys

from myserve_ui.cli.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
