"""Names of a benchmark's rows, and the circumstances that every table and plot of it tells. Pure text."""

from __future__ import annotations

from collections.abc import Sequence

from myserve_ui.bench.documents.row_words import lengths_words, prompt_words
from myserve_ui.bench.documents.rows import Row, RowName
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop, Ramp, load_words
from myserve_ui.bench.machine.facts import Machine
from myserve_ui.core.number_words import UNKNOWN, count, gib, model_words


def load_level(load: Load) -> float:
    """The number that a load is ordered by: how many at once or a second, at the most."""
    return max(map(_level, load.steps if isinstance(load, Ramp) else (load,)))


def _level(load: ClosedLoop | OpenLoop) -> float:
    return float(load.concurrency if isinstance(load, ClosedLoop) else load.rate)


def short_load(load: Load) -> str:
    """A load where there is little room: ×4, 2/s, ramp."""
    if isinstance(load, Ramp):
        return "ramp"
    return f"×{load.concurrency}" if isinstance(load, ClosedLoop) else f"{load.rate:g}/s"


def name_words(row: RowName) -> str:
    """A row's model as a name: tiny, 4-bit NF4."""
    return model_words(row.model, row.precision)


def models_of(rows: Sequence[RowName]) -> list[str]:
    """The models with results, as named by `name_words`, in the order of the rows."""
    return list(dict.fromkeys(map(name_words, rows)))


def legend_words(rows: Sequence[RowName], row: RowName) -> str:
    """A model where there is little room: its precision alone, if `rows` have but one model."""
    names = {name_words(other).partition(", ")[0] for other in rows}
    _, _, precision = name_words(row).partition(", ")
    return precision if precision and len(names) == 1 else name_words(row)


def row_words(row: Row) -> str:
    """A row as a name: tiny, 4-bit NF4, 4 at once."""
    return f"{name_words(row)}, {load_words(row.load)}"


def circumstances(run: BenchmarkRun, rows: Sequence[Row] | None = None) -> str:
    """Model, precision, dtype, device, lengths, load, n and the percentile method of `rows` (all), in one line."""
    rows = run.rows if rows is None else rows
    loads = dict.fromkeys(load_words(row.load) for row in rows)
    numbers = sorted({row.completed for row in rows})
    return " · ".join(
        [
            "; ".join(models_of(rows)) or "nothing measured",
            _hardware(run.machine),
            f"prompts of {prompt_words(run.settings, rows)}, "
            f"answers of {lengths_words(run.settings.output_tokens)} tokens",
            ", ".join(loads),
            f"n = {' to '.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} a point" if numbers else "n = 0",
            "percentiles by nearest rank",
        ]
    )


def _hardware(machine: Machine) -> str:
    return " on ".join(filter(None, (machine.dtype, machine.device))) or "device unknown"


def environment(run: BenchmarkRun) -> list[tuple[str, str]]:
    """What a run was made on: (name, words)."""
    machine = run.machine
    reads, multiplies = machine.bytes_per_s, machine.flops_per_s
    facts = [
        ("server", run.settings.url),
        ("processor", f"{machine.cpu or UNKNOWN}, {count(machine.cores or 0, 'core')}"),
        ("memory", gib(machine.memory or None)),
        ("device", machine.device or UNKNOWN),
        ("reads", f"{reads / 1e9:,.1f} GB/s measured" if reads else "not measured"),
        ("multiplies", f"{multiplies / 1e9:,.0f} GFLOP/s measured, {machine.dtype}" if multiplies else "not measured"),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        ("started", f"{moment(run.started)} UTC"),
    ]
    return [(name, words) for name, words in facts if words]


def moment(started: str) -> str:
    """2026-11-29 12:00:00, from ISO 8601."""
    return started.replace("T", " ")[:19]
