"""A benchmark's rows as pandas tables, on screen and as CSV. Milliseconds; a dash where nothing was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from markupsafe import Markup

from myserve_ui.bench.documents.rows import Row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.loads import load_words
from myserve_ui.bench.summary import Percentiles
from myserve_ui.core.number_words import UNKNOWN, decimal, percent
from myserve_ui.ui.shared.templates import render

Tell = Callable[[Row], str]
FORMULA_SIGNS = ("=", "+", "-", "@")
EXPLAINED = (
    "TTFT: time to the first token. TPOT: time for each further token. ITL: gaps between tokens. E2E: whole answer. "
    "Milliseconds, percentiles by nearest rank; * marks a p99 of fewer than 100. Failed, rejected and cancelled "
    "requests are counted and in no latency. Cached: prompt tokens that the server found computed, as it says. "
    "Queue, prefill, decode: the server's own account, means."
)


def results_table(rows: Sequence[Row]) -> pd.DataFrame:
    """What is shown: a line for each model and load, numbers as text."""
    columns = _columns()
    lines = [[tell(row) for tell in columns.values()] for row in rows]
    return pd.DataFrame(lines, columns=list(columns))


def results_csv(run: BenchmarkRun) -> str:
    """Every number of every row, nested ones under joined names such as ttft_ms_p50."""
    return pd.DataFrame([_flat(row.model_dump(mode="json")) for row in run.rows]).to_csv(index=False)


def requests_csv(run: BenchmarkRun) -> str:
    """Every request's raw times."""
    return pd.DataFrame([_flat(request.model_dump(mode="json")) for request in run.requests]).to_csv(index=False)


def failures_view(rows: Sequence[Row]) -> Markup:
    """HTML of what went wrong, how often; empty if nothing did."""
    failures = [
        (row.model, load_words(row.load), number, error) for row in rows for error, number in row.errors.items()
    ]
    return render("benchmark/failures", failures=failures) if failures else Markup()


def _columns() -> dict[str, Tell]:
    """Heading -> how to tell it from a row."""
    return {
        "model": lambda row: row.model,
        "precision": lambda row: row.precision or UNKNOWN,
        "load": lambda row: load_words(row.load),
        "done": lambda row: f"{row.completed} of {row.requests}",
        "failed": _failed,
        "tok/s": lambda row: decimal(row.output_throughput),
        "req/s": lambda row: decimal(row.request_throughput),
        "good/s": lambda row: decimal(row.goodput),
        "cached": lambda row: percent(row.cached_share),
        "TTFT p50": lambda row: _median(row.ttft_ms),
        "TTFT p95": lambda row: _p95(row.ttft_ms),
        "TTFT p99": lambda row: _p99(row.ttft_ms),
        "TPOT p50": lambda row: _median(row.tpot_ms),
        "TPOT p95": lambda row: _p95(row.tpot_ms),
        "ITL p95": lambda row: _p95(row.itl_ms),
        "E2E p50": lambda row: _median(row.e2e_ms),
        "E2E p95": lambda row: _p95(row.e2e_ms),
        "E2E p99": lambda row: _p99(row.e2e_ms),
        "queue": lambda row: decimal(row.server_ms.queue if row.server_ms else None),
        "prefill": lambda row: decimal(row.server_ms.prefill if row.server_ms else None),
        "decode": lambda row: decimal(row.server_ms.decode if row.server_ms else None),
        "of roofline": lambda row: percent(row.roofline_share),
    }


def _median(found: Percentiles | None) -> str:
    return decimal(found.p50 if found else None)


def _p95(found: Percentiles | None) -> str:
    return decimal(found.p95 if found else None)


def _p99(found: Percentiles | None) -> str:
    return f"{decimal(found.p99)}{'*' if found.p99_is_rough else ''}" if found else UNKNOWN


def server_words(row: Row) -> str:
    """The server's own account of a row: queue 1.20, prefill 30.5, decode 812 ms on average; empty if it has none."""
    parts = dict(row.server_ms) if row.server_ms else {}
    words = ", ".join(f"{part} {decimal(value)}" for part, value in parts.items() if value is not None)
    return f"by the server's own account {words} ms on average" if words else ""


def _failed(row: Row) -> str:
    """Each kind apart: 2 failed, 1 rejected."""
    kinds = {"failed": row.failed, "rejected": row.rejected, "cancelled": row.cancelled}
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number) or "0"


def _flat(entry: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in entry.items():
        if name == "errors" and isinstance(value, dict):
            flat[name] = _cell("; ".join(f"{number} × {error}" for error, number in value.items()))
        elif isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}_")
        else:
            flat[f"{prefix}{name}"] = " ".join(map(str, value)) if isinstance(value, list) else _cell(value)
    return flat


def _cell(value: object) -> object:
    """A text that a spreadsheet would run as a formula is kept a text: a server under test may have written it."""
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA_SIGNS else value
