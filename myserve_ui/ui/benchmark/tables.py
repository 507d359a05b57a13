"""A benchmark's rows as pandas tables, on screen and as CSV. Milliseconds; a dash where nothing was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import pandas as pd

from myserve_ui.ui.benchmark.words import UNKNOWN, Document, Row, load_words

Tell = Callable[[Row], Any]
LATENCIES = {"TTFT": "ttft_ms", "TPOT": "tpot_ms", "ITL": "itl_ms", "E2E": "e2e_ms"}
SHOWN_PERCENTILES = {
    "TTFT": ("p50", "p95", "p99"),
    "TPOT": ("p50", "p95"),
    "ITL": ("p95",),
    "E2E": ("p50", "p95", "p99"),
}
SERVER_PARTS = ("queue", "prefill", "decode")
FORMULA_SIGNS = ("=", "+", "-", "@")
EXPLAINED = (
    "TTFT: time to the first token. TPOT: time for each further token. ITL: gaps between tokens. E2E: whole answer. "
    "Milliseconds, percentiles by nearest rank; * marks a p99 of fewer than 100. Failed, rejected and cancelled "
    "requests are counted and in no latency. Cached: prompt tokens that the server found computed, as it says. "
    "Queue, prefill, decode: the server's own account, means."
)


def results_table(document: Document) -> pd.DataFrame:
    """What is shown: a line for each model and load, numbers as text."""
    columns = _columns()
    lines = [[tell(row) for tell in columns.values()] for row in document["rows"]]
    return pd.DataFrame(lines, columns=list(columns))


def results_csv(document: Document) -> str:
    """Every number of every row, nested ones under joined names such as ttft_ms_p50."""
    return pd.DataFrame([_flat(row) for row in document["rows"]]).to_csv(index=False)


def requests_csv(document: Document) -> str:
    """Every request's raw times."""
    return pd.DataFrame([_flat(record) for record in document["requests"]]).to_csv(index=False)


def failures_view(document: Document) -> str:
    """HTML of what went wrong, how often; empty if nothing did."""
    lines = [
        f"<li>{escape(row['model'])}, {escape(load_words(row['load']))}: {number} × {escape(str(error))}</li>"
        for row in document["rows"]
        for error, number in (row.get("errors") or {}).items()
    ]
    return (
        f'<div class="failures" role="alert"><p>Some requests failed:</p><ul>{"".join(lines)}</ul></div>'
        if lines
        else ""
    )


def _columns() -> dict[str, Tell]:
    """Heading -> how to tell it from a row."""
    columns: dict[str, Tell] = {
        "model": lambda row: row["model"],
        "precision": lambda row: row.get("precision") or UNKNOWN,
        "load": lambda row: load_words(row["load"]),
        "done": lambda row: f"{row['completed']} of {row['requests']}",
        "failed": lambda row: _failed(row),
        "tok/s": lambda row: decimal(row["output_throughput"]),
        "req/s": lambda row: decimal(row["request_throughput"]),
        "good/s": lambda row: decimal(row["goodput"]),
        "cached": lambda row: share(row.get("cached_share")),
    }
    for name, key in LATENCIES.items():
        for percentile in SHOWN_PERCENTILES[name]:
            columns[f"{name} {percentile}"] = _latency(key, percentile)
    for part in SERVER_PARTS:
        columns[part] = _server_part(part)
    columns["of roofline"] = lambda row: share(row.get("roofline_share"))
    return columns


def _latency(key: str, percentile: str) -> Tell:
    def tell(row: Row) -> str:
        numbers = row.get(key)
        if not numbers:
            return UNKNOWN
        mark = "*" if percentile == "p99" and numbers.get("p99_is_rough") else ""
        return f"{decimal(numbers[percentile])}{mark}"

    return tell


def _server_part(part: str) -> Tell:
    return lambda row: decimal((row.get("server_ms") or {}).get(part))


def server_words(row: Row) -> str:
    """The server's own account of a row: queue 1.20, prefill 30.5, decode 812 ms on average; empty if it has none."""
    split = row.get("server_ms") or {}
    words = ", ".join(f"{part} {decimal(split[part])}" for part in SERVER_PARTS if part in split)
    return f"by the server's own account {words} ms on average" if words else ""


def _failed(row: Row) -> str:
    """Each kind apart: 2 failed, 1 rejected."""
    kinds = [f"{row[kind]} {kind}" for kind in ("failed", "rejected", "cancelled") if row.get(kind)]
    return ", ".join(kinds) or "0"


def decimal(value: float | None) -> str:
    """Three digits that matter: 0.123, 12.3, 1,234."""
    if value is None:
        return UNKNOWN
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}" if value else "0"


def share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}".replace("%", " %")


def _flat(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in entry.items():
        if name == "errors":
            flat[name] = _cell("; ".join(f"{number} × {error}" for error, number in value.items()))
        elif isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}_")
        else:
            flat[f"{prefix}{name}"] = " ".join(map(str, value)) if isinstance(value, list | tuple) else _cell(value)
    return flat


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula is kept a text: a server under test may have written it."""
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA_SIGNS else value
