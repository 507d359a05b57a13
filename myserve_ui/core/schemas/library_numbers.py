"""How the grammar library reads a number that is written in a schema, and how to write one that it reads as meant.

llguidance 1.9 reads decimals with one rounding too many (serde_json without `float_roundtrip`), so that one float in
seven of many digits comes out as its neighbour; and it takes multipleOf apart by multiplying with ten until nothing is
left, which makes 0.07 a number of 16 digits. A neighbour of the float is often read as the one that was meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction

NEIGHBOURS = 4
"""Steps of the last digit to look at, up and down; one or two are enough where any is."""
MAX_PRODUCTS = 400
LARGEST_POWER = 308
LARGEST_COEFFICIENT = 2**32 - 1


def exact(number: float) -> Fraction:
    """What `number` says in decimal: 1/10 for 0.1."""
    return Fraction(str(number))


def write_float(number: float) -> float | None:
    """The float that the library reads as `number` when it is written in JSON, or None."""
    return _find(number, lambda other: read_float(other) == number)


def write_divisor(divisor: Fraction) -> float | None:
    """The number that the library takes for the multipleOf `divisor` when it is written in JSON, or None."""
    if divisor.denominator == 1:
        return divisor.numerator if divisor <= LARGEST_COEFFICIENT else None
    return _find(float(divisor), lambda other: read_divisor(read_float(other)) == divisor)


def read_float(number: float) -> float:
    """What the library makes of the JSON text of `number`."""
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    value = float(int("".join(map(str, digits))))
    while abs(exponent) > LARGEST_POWER and value:
        value, exponent = value / 1e308, exponent + LARGEST_POWER
    power = float(f"1e{abs(exponent)}")
    value = value * power if exponent >= 0 else value / power
    return -value if sign else value


def read_divisor(number: float) -> Fraction | None:
    """The multiple that the library enforces for a multipleOf of this value."""
    for places in range(MAX_PRODUCTS):
        if number.is_integer():
            return Fraction(int(number), 10**places) if number <= LARGEST_COEFFICIENT else None
        number *= 10.0
    return None


def finds_multiple(lowest: tuple[float, bool], highest: tuple[float, bool], divisor: Fraction) -> bool:
    """Whether the library sees a multiple between two bounds, each with whether it is exclusive.

    It computes in float64 and says, for instance, that there is no multiple of 0.1 from 0.3 to 0.3.
    """
    places = 0
    while (divisor * 10**places).denominator != 1:
        places += 1
    step = int(divisor * 10**places) / 10.0**places
    first = math.ceil(lowest[0] / step) * step
    last = math.floor(highest[0] / step) * step
    first += step if lowest == (first, True) else 0.0
    last -= step if highest == (last, True) else 0.0
    return first <= last


def _find(number: float, is_right: Callable[[float], bool]) -> float | None:
    return next(filter(is_right, _neighbours(number)), None)


def _neighbours(number: float) -> Iterator[float]:
    """`number`, then the floats beside it, the nearest first."""
    yield number
    above = below = number
    for _ in range(NEIGHBOURS):
        above, below = math.nextafter(above, math.inf), math.nextafter(below, -math.inf)
        yield from (value for value in (above, below) if math.isfinite(value))
