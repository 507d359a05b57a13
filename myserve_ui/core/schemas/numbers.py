"""Writes the numbers of a schema so that the grammar library keeps them exactly, and refuses those that it cannot.

The library computes in float64 and in 64-bit integers without a check: a number beyond them ends the process, or stands
for another one. What is refused here never reaches it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from myserve_ui.core.schemas.keywords import BOUNDS, COUNTS, SchemaRefused, shown
from myserve_ui.core.schemas.library_numbers import exact, finds_multiple, write_divisor, write_float

Number = int | float

MAX_BOUND = 2**53 - 1
"""Of minimum and its kin: up to here float64 has every whole number, and the next one."""
MAX_LITERAL = 2**63 - 2
"""Of whole numbers in const and enum, where they must be float64 as well; one more wraps around."""
MAX_COUNT = 2**31 - 1
"""Of lengths and numbers of items; no answer is that long."""
SMALLEST_BOUND = 1e-60
"""A bound's decimals are nested groups of a regular expression, which may be some 80 deep."""
MAX_MULTIPLES = 10**9
"""How many multiples may lie between 0 and a bound: so many have few enough digits."""
MAX_DIVISOR_PLACES = 9
"""The library's powers of ten are 32 bits wide."""


def hold_numbers(place: str, part: dict[str, object]) -> dict[str, object]:
    """`part` of a schema, its own numbers rewritten: those of const and enum, bounds, multipleOf and counts.

    Raises SchemaRefused for a number that the library could not keep.
    """
    held = {keyword: value for keyword, value in part.items() if keyword not in BOUNDS | {"multipleOf"}}
    for keyword in COUNTS & held.keys():
        held[keyword] = _count(f"{place}/{keyword}", part[keyword])
    divisor = divisor_of(place, part)
    if divisor is not None and held.keys() & {"const", "enum"}:
        _keep_multiples(place, held, divisor)
        divisor = None
    for keyword in {"const", "enum"} & held.keys():
        held[keyword] = hold_data(f"{place}/{keyword}", held[keyword])
    held |= _range(place, part, divisor)
    return held if divisor is None else held | {"multipleOf": _written_divisor(place, divisor)}


def divisor_of(place: str, part: dict[str, object]) -> Fraction | None:
    """What numbers must be a multiple of: the multipleOf of `part`; of whole numbers, those of 3/2 are those of 3."""
    if "multipleOf" not in part:
        return None
    number = part["multipleOf"]
    if not isinstance(number, int | float) or isinstance(number, bool) or number <= 0:
        raise SchemaRefused(f"multipleOf at {shown(place)} must be a number above 0.")
    divisor = exact(number)
    return Fraction(divisor.numerator) if _numeric_types(part) == {"integer"} else divisor


def hold_data(place: str, data: object) -> object:
    """`data` of a const or enum, its numbers rewritten."""
    if isinstance(data, list):
        return [hold_data(place, item) for item in data]
    if isinstance(data, dict):
        return {key: hold_data(place, value) for key, value in data.items()}
    return _literal(place, data) if _is_number(data) else data


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(place: str, value: object) -> Number:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SchemaRefused(f"{shown(place)} must be a number.")
    return value


def _literal(place: str, value: object) -> Number:
    """A number that must be written as it is."""
    number = _number(place, value)
    if abs(number) > MAX_LITERAL:
        raise SchemaRefused(f"{_told(number)} at {shown(place)} is beyond ±{MAX_LITERAL}; write it as a string.")
    if number == int(number):
        if float(number) != int(number) or Decimal(repr(number)) != int(number):
            raise SchemaRefused(
                f"{_told(number)} at {shown(place)} is no number of 64-bit floating point, so another one would be "
                "written for it; write it as a string."
            )
        return int(number)
    return _float(place, float(number))


def _float(place: str, number: float) -> float:
    if (written := write_float(number)) is None:
        raise SchemaRefused(f"{_told(number)} at {shown(place)} has more digits than can be kept; write fewer.")
    return written


def _count(place: str, value: object) -> int:
    number = _number(place, value)
    if number != int(number) or number < 0:
        raise SchemaRefused(f"{shown(place)} must be a whole number, 0 or more, not {_told(number)}.")
    if number > MAX_COUNT:
        raise SchemaRefused(f"{shown(place)} is {_told(number)} and can be {MAX_COUNT} at most; leave it out.")
    return int(number)


def _numeric_types(part: dict[str, object]) -> set[str]:
    """Which kinds of numbers `part` allows; untyped, all of them."""
    named = part.get("type", "number")
    return {"number", "integer"} & set(named if isinstance(named, list) else [named])


def _range(place: str, part: dict[str, object], divisor: Fraction | None) -> dict[str, object]:
    """Bounds that say what the four of `part` do."""
    lowest, highest = _tightest(place, part, "minimum"), _tightest(place, part, "maximum")
    if _is_empty(lowest, highest):
        return _nothing(place, part)
    if divisor is not None:
        return _between_multiples(place, part, (lowest, highest), divisor)
    return {
        bound.keyword: _written_bound(f"{place}/{bound.keyword}", bound.value)
        for bound in (lowest, highest)
        if bound is not None
    }


@dataclass(frozen=True, slots=True)
class _Bound:
    keyword: str
    """minimum, maximum, or the exclusive form of one that is farther from 0 than the numbers it allows."""
    value: float

    @property
    def is_exclusive(self) -> bool:
        return self.keyword.startswith("exclusive")

    @property
    def as_pair(self) -> tuple[float, bool]:
        return self.value, self.is_exclusive


def _is_empty(lowest: _Bound | None, highest: _Bound | None) -> bool:
    if lowest is None or highest is None:
        return False
    is_open = lowest.is_exclusive or highest.is_exclusive
    return lowest.value > highest.value or (is_open and lowest.value == highest.value)


def _nothing(place: str, part: dict[str, object]) -> dict[str, object]:
    """Bounds that allow no number, where something else may stand instead."""
    if part.get("type") in ("number", "integer"):
        raise SchemaRefused(f"no number fits what {shown(place)} asks of it.")
    return {"minimum": 1, "maximum": 0}


def _tightest(place: str, part: dict[str, object], keyword: str) -> _Bound | None:
    """What `keyword` and its exclusive sibling allow together."""
    sibling = f"exclusive{keyword.capitalize()}"
    exclusive, bounds = part.get(sibling, False), []
    if keyword in part:
        value = _bound(f"{place}/{keyword}", part[keyword])
        bounds.append(_beyond(value, keyword) if exclusive is True else _Bound(keyword, value))  # as draft 4 has it
    if not isinstance(exclusive, bool):
        bounds.append(_beyond(_bound(f"{place}/{sibling}", exclusive), keyword))
    sign = 1 if keyword == "minimum" else -1
    return max(bounds, key=lambda bound: (sign * bound.value, bound.is_exclusive), default=None)


def _beyond(value: float, keyword: str) -> _Bound:
    """What lies beyond `value`: from it on away from 0, the next number that can be written is the first.

    The library lets a whole number through as its own exclusive bound, where the other bound is less than one away.
    """
    direction = 1 if keyword == "minimum" else -1
    if direction * value < 0:
        return _Bound(f"exclusive{keyword.capitalize()}", value)
    if value == 0:
        return _Bound(keyword, direction * SMALLEST_BOUND)
    value = math.nextafter(value, direction * math.inf)
    while write_float(value) is None:
        value = math.nextafter(value, direction * math.inf)
    return _Bound(keyword, value)


def _bound(place: str, value: object) -> float:
    number = _number(place, value)
    if abs(number) > MAX_BOUND:
        raise SchemaRefused(f"{shown(place)} is {_told(number)}, and bounds are kept up to ±{MAX_BOUND}; leave it out.")
    if 0 < abs(number) < SMALLEST_BOUND:
        raise SchemaRefused(f"{shown(place)} is {_told(number)}, and bounds are kept down to ±{SMALLEST_BOUND}; use 0.")
    return float(number)


def _written_bound(place: str, bound: float) -> Number:
    return int(bound) if bound.is_integer() else _float(place, bound)


def _written_divisor(place: str, divisor: Fraction) -> Number:
    written = write_divisor(divisor)
    if written is None or (divisor * 10**MAX_DIVISOR_PLACES).denominator != 1:
        raise SchemaRefused(f"multipleOf at {shown(place)} has more digits than can be kept; write fewer.")
    return written


def _between_multiples(
    place: str, part: dict[str, object], bounds: tuple[_Bound | None, _Bound | None], divisor: Fraction
) -> dict[str, object]:
    """The outermost multiples within the bounds, or what lies beyond them where the library's rounding misses them."""
    first, last = (None if bound is None else _outermost(place, bound, divisor) for bound in bounds)
    if first is not None and last is not None and first > last:
        return _nothing(place, part)
    lows = [None] if first is None else _ends("minimum", first, divisor)
    highs = [None] if last is None else _ends("maximum", last, divisor)
    for low, high in itertools.product(lows, highs):
        if low is None or high is None or finds_multiple(low.as_pair, high.as_pair, divisor):
            return {bound.keyword: _short(bound.value) for bound in (low, high) if bound is not None}
    raise SchemaRefused(f"the bounds and multipleOf at {shown(place)} are too close for floating point; use an enum.")


def _ends(keyword: str, multiple: int, divisor: Fraction) -> list[_Bound | None]:
    """Bounds that `multiple` times `divisor` is the last one within, and that ask for no more digits than it has."""
    direction = 1 if keyword == "minimum" else -1
    itself = _Bound(keyword, float(multiple * divisor))
    if direction * multiple >= 0:
        return [itself, _Bound(keyword, float((multiple - Fraction(direction, 2)) * divisor))]
    return [itself, _Bound(f"exclusive{keyword.capitalize()}", float((multiple - direction) * divisor))]


def _outermost(place: str, bound: _Bound, divisor: Fraction) -> int:
    """How many times `divisor` the last multiple within `bound` is."""
    steps = exact(bound.value) / divisor
    multiple = math.ceil(steps) if "inimum" in bound.keyword else math.floor(steps)
    if bound.is_exclusive and multiple == steps:
        multiple += 1 if "inimum" in bound.keyword else -1
    if abs(multiple) > MAX_MULTIPLES:
        raise SchemaRefused(f"the bounds at {shown(place)} are too far off for its multipleOf; leave one of them out.")
    return multiple


def _short(bound: float) -> Number:
    """`bound`, a multiple of few digits, as the library reads it."""
    return int(bound) if bound.is_integer() else float(f"{bound:.15g}")


def _keep_multiples(place: str, held: dict[str, object], divisor: Fraction) -> None:
    """Leave no number in const and enum that is no multiple, so that multipleOf has nothing more to say."""
    if "const" in held and not _is_multiple(held["const"], divisor):
        raise SchemaRefused(f"const at {shown(place)} is no multiple of its multipleOf.")
    if isinstance(values := held.get("enum"), Sequence) and not isinstance(values, str):
        held["enum"] = [value for value in values if _is_multiple(value, divisor)]


def _is_multiple(value: object, divisor: Fraction) -> bool:
    return not isinstance(value, int | float) or isinstance(value, bool) or exact(value) % divisor == 0


def _told(number: Number) -> str:
    """A number for a sentence, however long it is."""
    return repr(number) if abs(number) < 10**40 else f"{'-' if number < 0 else ''}1e40 or more"
