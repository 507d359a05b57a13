"""Reads JSON as its standard has it. Python's own reader takes NaN and Infinity, and makes infinity of 1e999."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


class NoJsonNumberError(ValueError):
    """A name that is no number of JSON, such as NaN."""


class NumberTooLargeError(ValueError):
    """A number beyond what a float holds."""


def read_json(text: bytes | str) -> Any:
    """What `text` says.

    Raises ValueError if it is not JSON or has whole numbers of thousands of digits, NoJsonNumberError and
    NumberTooLargeError among them, UnicodeDecodeError too; and RecursionError if it is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_read_float)


def _refuse_constant(name: str) -> NoReturn:
    raise NoJsonNumberError(name)


def _read_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise NumberTooLargeError(digits)
    return value
