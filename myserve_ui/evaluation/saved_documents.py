"""Reads back the JSON documents of this room, and refuses in a sentence what is none."""

from __future__ import annotations

from typing import Any

from myserve_ui.core.document_shape import FLAG, NUMBER, TEXT, check_shape, read_json
from myserve_ui.errors import InvalidRequestError

WAY_OUT = "Choose a JSON file that this page or the command line saved."
MAX_BYTES = 32 * 2**20

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
    document = read_json(data, max_bytes=MAX_BYTES, way_out=WAY_OUT)
    if not isinstance(document, dict) or document.get("kind") != "fidelity":
        raise InvalidRequestError(f"The file is JSON, but no fidelity report. {WAY_OUT}")
    check_shape(document, FIDELITY, name="report", way_out=WAY_OUT)
    return document
