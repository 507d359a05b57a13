"""Finds the kinds of inputs: every module `fuzz_*` of this folder has one, as a function `trial`."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from pathlib import Path

PREFIX = "fuzz_"

Trial = Callable[[random.Random], None]
"""Makes one input from the generator, tries it, and raises AssertionError if a promise of its module is broken."""


def kinds() -> list[str]:
    """Names of all kinds, in the order of the alphabet."""
    return sorted(path.stem.removeprefix(PREFIX) for path in Path(__file__).parent.glob(f"{PREFIX}*.py"))


def trial_of(kind: str) -> Trial:
    """The trial of one kind. Raises ModuleNotFoundError for a name that is none."""
    trial: Trial = importlib.import_module(f"tests.fuzz.{PREFIX}{kind}").trial
    return trial


def run_trial(kind: str, seed: int) -> None:
    """One trial, the same for the same seed."""
    trial_of(kind)(random.Random(f"{kind}-{seed}"))
