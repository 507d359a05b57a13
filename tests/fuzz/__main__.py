"""Tries inputs that nobody wrote, kind by kind, for a bounded time: `python -m tests.fuzz [KIND ...]`."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import traceback

import tests.conftest  # noqa: F401  the environment is made quiet before the libraries read it
from tests.fuzz.kinds import kinds, run_trial


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(kinds())}; all if none is named")
    parser.add_argument("--seed", type=int, default=0, help="number of the first trial (default 0)")
    parser.add_argument("--trials", type=int, help="how many of each kind at most")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each kind may take (default 60)")
    options = parser.parse_args()
    if unknown := sorted(set(options.kinds) - set(kinds())):
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(kinds())}")
    failed = [kind for kind in options.kinds or kinds() if not _holds(kind, options)]
    return 1 if failed else 0


def _holds(kind: str, options: argparse.Namespace) -> bool:
    """Whether no trial of `kind` failed before its time was over; the first that does ends it."""
    start, done = time.monotonic(), 0
    for seed in itertools.count(options.seed):
        if done == options.trials or time.monotonic() - start > options.seconds:
            break
        try:
            run_trial(kind, seed)
        except Exception:  # the border: say which, and go on with the next kind
            traceback.print_exc()
            print(f"{kind}: failed; again by: python -m tests.fuzz {kind} --seed {seed} --trials 1", flush=True)
            return False
        done += 1
    print(f"{kind}: {done} trials from {options.seed} on held, {time.monotonic() - start:.0f} s", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
