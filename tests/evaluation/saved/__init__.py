"""Documents as the version before typed ones saved them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAMES = (
    *("fidelity", "fidelity_of_one_model", "perplexity"),
    *("comparison", "comparison_with_a_failed_side", "comparison_without_evidence"),
)


def saved_text(name: str) -> str:
    return (Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8")


def saved(name: str) -> dict[str, Any]:
    return json.loads(saved_text(name))  # type: ignore[no-any-return]
