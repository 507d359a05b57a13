"""Names of a benchmark's rows, and the circumstances that every table and plot of it tells. Pure text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from myserve_ui.bench.documents.row_words import lengths_words, prompt_words
from myserve_ui.bench.loads import ClosedLoop, OpenLoop, Ramp, load_words as words_of_load, read_load
from myserve_ui.core.number_words import PRECISION_WORDS, count

Document = Mapping[str, Any]
Row = Mapping[str, Any]

UNKNOWN = "–"


def load_words(load: Mapping[str, Any]) -> str:
    """4 at once; 2 requests/s; 1 to 16 at once in 3 steps."""
    return words_of_load(read_load(load))


def load_level(load: Mapping[str, Any]) -> float:
    """The number that a load is ordered by: how many at once or a second, at the most."""
    found = read_load(load)
    return max(_level(step) for step in (found.steps if isinstance(found, Ramp) else (found,)))


def _level(load: ClosedLoop | OpenLoop) -> float:
    return float(load.concurrency if isinstance(load, ClosedLoop) else load.rate)


def models_of(document: Document) -> list[str]:
    """The models with results, as named by `model_words`, in the order of the rows."""
    return list(dict.fromkeys(model_words(row) for row in document["rows"]))


def model_words(row: Row) -> str:
    """A model as a name with its precision in words: tiny, 4-bit NF4."""
    name, precision = str(row["model"]), str(row.get("precision") or "")
    if not precision:
        return name
    words = PRECISION_WORDS.get(precision, precision)
    return f"{name.removesuffix(f':{precision}')}, {words}"


def legend_words(document: Document, row: Row) -> str:
    """A model where there is little room: its precision alone, if the run has but one model."""
    names = {model_words(other).partition(", ")[0] for other in document["rows"]}
    _, _, precision = model_words(row).partition(", ")
    return precision if precision and len(names) == 1 else model_words(row)


def row_words(row: Row) -> str:
    """A row as a name: tiny, 4-bit NF4, 4 at once."""
    return f"{model_words(row)}, {load_words(row['load'])}"


def loads_of(document: Document) -> list[Mapping[str, Any]]:
    """The loads with results, each once, in the order of the rows."""
    return list({load_words(row["load"]): row["load"] for row in document["rows"]}.values())


def circumstances(document: Document, rows: Sequence[Row] | None = None) -> str:
    """Model, precision, dtype, device, lengths, load, n and the percentile method of `rows` (all), in one line."""
    settings, rows = document["settings"], document["rows"] if rows is None else rows
    models = dict.fromkeys(model_words(row) for row in rows)
    loads = dict.fromkeys(load_words(row["load"]) for row in rows)
    numbers = sorted({row["completed"] for row in rows})
    return " · ".join(
        [
            "; ".join(models) or "nothing measured",
            _hardware(document["machine"]),
            f"prompts of {prompt_words(settings, rows)}, answers of {lengths_words(settings['output_tokens'])} tokens",
            ", ".join(loads),
            f"n = {' to '.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} a point" if numbers else "n = 0",
            "percentiles by nearest rank",
        ]
    )


def _hardware(machine: Mapping[str, Any]) -> str:
    words = [str(word) for word in (machine.get("dtype"), machine.get("device")) if word]
    return " on ".join(words) or "device unknown"


def environment(document: Document) -> list[tuple[str, str]]:
    """What a run was made on: (name, words)."""
    machine, versions = document["machine"], document["versions"]
    bandwidth, flops = machine.get("bytes_per_s"), machine.get("flops_per_s")
    facts = [
        ("server", str(document["settings"]["url"])),
        ("processor", f"{machine.get('cpu') or UNKNOWN}, {count(int(machine.get('cores') or 0), 'core')}"),
        ("memory", f"{machine['memory'] / 2**30:,.1f} GiB" if machine.get("memory") else UNKNOWN),
        ("device", str(machine.get("device") or UNKNOWN)),
        ("reads", f"{bandwidth / 1e9:,.1f} GB/s measured" if bandwidth else "not measured"),
        ("multiplies", f"{flops / 1e9:,.0f} GFLOP/s measured, {machine.get('dtype')}" if flops else "not measured"),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("started", str(document["started"]).replace("T", " ")[:19] + " UTC"),
    ]
    return [(name, words) for name, words in facts if words]
