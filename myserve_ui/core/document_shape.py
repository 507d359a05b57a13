"""Reads JSON that people hand in, and compares it with the shape that a room expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from myserve_ui.core import strict_json
from myserve_ui.errors import InvalidRequestError

LARGEST = 1e300
"""No number of a document is larger, and whole numbers that are cannot be reckoned with."""

NUMBER, TEXT, FLAG = "number", "text", "flag"
SCALARS = {TEXT: str, FLAG: bool}


@dataclass(frozen=True, slots=True)
class Maybe:
    """A shape, or null."""

    shape: Any


@dataclass(frozen=True, slots=True)
class MayLack:
    """A shape, or null, or no such key: documents of earlier versions have none."""

    shape: Any


def read_json(data: bytes | str, *, max_bytes: int, way_out: str) -> Any:
    """What `data` says. Raises InvalidRequestError, which ends with `way_out`, for what is too large or no JSON."""
    if len(data) > max_bytes:
        raise InvalidRequestError(f"The file has {len(data)} bytes and may have {max_bytes}. {way_out}")
    try:
        return strict_json.read_json(data)
    except (ValueError, RecursionError):
        raise InvalidRequestError(f"The file is not JSON. {way_out}") from None


def check_shape(document: Any, shape: Any, *, name: str, way_out: str) -> None:
    """Compare `document`, a `name`, with `shape`: a kind of scalar, Maybe, a list of one example, or keys with shapes.

    Raises InvalidRequestError that names what differs by its place, such as kld.mean, and ends with `way_out`.
    """
    if (complaint := _find_fault(document, shape, "")) is not None:
        raise InvalidRequestError(f"The {name}{complaint} {way_out}")


def _find_fault(value: Any, shape: Any, place: str) -> str | None:
    if isinstance(shape, Maybe | MayLack):
        return None if value is None else _find_fault(value, shape.shape, place)
    if isinstance(shape, str):
        return None if _is_scalar(value, shape) else f"'s {place} should be a {shape}."
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"'s {place} should be a list."
        faults = (_find_fault(item, shape[0], f"{place}[{index}]") for index, item in enumerate(value))
        return next(filter(None, faults), None)
    return _find_fault_in_keys(value, shape, place)


def _find_fault_in_keys(value: Any, shape: Mapping[str, Any], place: str) -> str | None:
    if not isinstance(value, dict):
        return f"'s {place} should be an object." if place else " should be an object."
    for key, inner in shape.items():
        path = f"{place}.{key}" if place else key
        if key not in value and isinstance(inner, MayLack):
            continue
        if key not in value:
            return f" has no {path}."
        if (fault := _find_fault(value[key], inner, path)) is not None:
            return fault
    return None


def _is_scalar(value: Any, kind: str) -> bool:
    if kind != NUMBER:
        return isinstance(value, SCALARS[kind])
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
