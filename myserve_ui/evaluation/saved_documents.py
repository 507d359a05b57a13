"""Reads back the JSON documents of this room, and refuses in a sentence what is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from myserve_ui.errors import InvalidRequestError

WAY_OUT = "Choose a JSON file that this page or the command line saved."
MAX_BYTES = 32 * 2**20
LARGEST = 1e300
"""No number of a report is larger, and whole numbers that are cannot be reckoned with."""

NUMBER, TEXT, FLAG = "number", "text", "flag"
SCALARS = {TEXT: str, FLAG: bool}

ESTIMATE = {"value": NUMBER, "se": NUMBER}
MEAN = {"mean": NUMBER, "se": NUMBER}
PERCENTILES = {"median": NUMBER, "p90": NUMBER, "p95": NUMBER, "p99": NUMBER, "p999": NUMBER, "max": NUMBER}
FIDELITY: dict[str, Any] = {
    "base": TEXT,
    "candidate": TEXT,
    "text_sha256": TEXT,
    "tokens_scored": NUMBER,
    "window": NUMBER,
    "stride": NUMBER,
    "perplexity": {"base": ESTIMATE, "candidate": ESTIMATE},
    "ln_ratio": MEAN,
    "kld": {**MEAN, **PERCENTILES},
    "delta_p": {**MEAN, **PERCENTILES, "rms": NUMBER},
    "same_top": {"share": NUMBER, "se": NUMBER},
    "top_overlap": MEAN,
    "memory": {"base": {}, "candidate": {}},
    "speed": {"seconds": NUMBER},
    "notes": [TEXT],
    "tokens": [
        {
            "text": TEXT,
            "nll_base": NUMBER,
            "nll_candidate": NUMBER,
            "kld": NUMBER,
            "delta_p": NUMBER,
            "base_rank": NUMBER,
            "same_top": FLAG,
        }
    ],
}
"""The keys that a report is shown from; a list has entries like its one example."""


def read_fidelity(data: bytes | str) -> dict[str, Any]:
    """A saved fidelity report. Raises InvalidRequestError that says what is wrong and names the place."""
    document = _read_json(data)
    if not isinstance(document, dict) or document.get("kind") != "fidelity":
        raise InvalidRequestError(f"The file is JSON, but no fidelity report. {WAY_OUT}")
    _check(document, FIDELITY, "")
    return document


def _read_json(data: bytes | str) -> Any:
    if len(data) > MAX_BYTES:
        raise InvalidRequestError(f"The file has {len(data)} bytes and may have {MAX_BYTES}. {WAY_OUT}")
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidRequestError(f"The file is not JSON. {WAY_OUT}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _check(value: Any, shape: Any, place: str) -> None:
    """Compare `value` with `shape`; anything that differs is named by its place, such as kld.mean."""
    if isinstance(shape, str):
        if not _is_scalar(value, shape):
            raise InvalidRequestError(f"The report's {place} should be a {shape}. {WAY_OUT}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise InvalidRequestError(f"The report's {place} should be a list. {WAY_OUT}")
        for index, item in enumerate(value):
            _check(item, shape[0], f"{place}[{index}]")
    else:
        _check_keys(value, shape, place)


def _check_keys(value: Any, shape: Mapping[str, Any], place: str) -> None:
    if not isinstance(value, dict):
        raise InvalidRequestError(f"The report's {place} should be an object. {WAY_OUT}")
    for key, inner in shape.items():
        path = f"{place}.{key}" if place else key
        if key not in value:
            raise InvalidRequestError(f"The report has no {path}. {WAY_OUT}")
        _check(value[key], inner, path)


def _is_scalar(value: Any, kind: str) -> bool:
    if kind != NUMBER:
        return isinstance(value, SCALARS[kind])
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
