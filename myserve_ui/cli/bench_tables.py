"""Results of benchmarks as tables for a terminal. Milliseconds, percentiles by nearest rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from myserve_ui.bench.documents.row_words import cached_words, lengths_words, prompt_words, salt_words, tpot_words
from myserve_ui.bench.loads import load_words, read_load

NOTHING = "–"
METHOD = "times in ms, percentiles by nearest rank (* of fewer than 100 requests)"
BUSY = "more than 100 % of a roofline: the machine was busy while its bandwidth was measured, so run it again"
Document = Mapping[str, Any]


def results_table(document: Document) -> Table:
    """A row for each model and load."""
    table = plain_table(
        "model", "load", "done", "not", "tok/s", "req/s", "good/s", "cached", "TTFT p50", "p99", "TPOT p50", "p99"
    )
    table.add_column("E2E p50", justify="right")
    table.add_column("p99", justify="right")
    table.add_column("roofline", justify="right")
    for row in document["rows"]:
        times = [cell for name in ("ttft_ms", "tpot_ms", "e2e_ms") for cell in _percentiles(row[name])]
        rates = [number(row[name]) for name in ("output_throughput", "request_throughput", "goodput")]
        table.add_row(
            model_words(row),
            load_words(read_load(row["load"])),
            str(row["completed"]),
            str(row["requests"] - row["completed"]),
            *rates,
            share(row.get("cached_share")),
            *times,
            share(row["roofline_share"]),
        )
    return table


def circumstances(document: Document) -> Iterator[str]:
    """What the numbers depend on, a line each."""
    settings, machine = document["settings"], document["machine"]
    yield (
        f"{settings['requests']} requests a row, prompts of {prompt_words(settings, document['rows'])}, answers of "
        f"{lengths_words(settings['output_tokens'])} tokens, seed {settings['seed']}; {METHOD}"
    )
    if words := salt_words(settings):
        yield f"{words}; cached: share of the prompt tokens that the server found computed"
    if machine.get("bytes_per_s"):
        yield (
            f"{machine['device']} ({machine['cpu']}, {machine['cores']} cores), {machine['dtype']}: reads "
            f"{machine['bytes_per_s'] / 1e9:.1f} GB/s, multiplies {machine['flops_per_s'] / 1e9:.0f} GFLOP/s"
        )
    if overhead := document.get("client_overhead_ms"):
        yield f"the client itself takes {overhead['request']:.2f} ms a request and {overhead['token']:.3f} ms a token"
    for row in document["rows"]:
        if split := row.get("server_ms"):
            words = ", ".join(f"{part} {number(split[part])}" for part in ("queue", "prefill", "decode"))
            yield f"{model_words(row)}, {load_words(read_load(row['load']))}: on the server {words} ms on average"
        if few := tpot_words(row):
            yield f"{model_words(row)}, {load_words(read_load(row['load']))}: {few}"
        for error, count in row["errors"].items():
            yield f"{row['precision'] or row['model']}, {load_words(read_load(row['load']))}: {count} x {error}"
    if any((row["roofline_share"] or 0) > 1 for row in document["rows"]):
        yield BUSY
        yield from _cached_above(document)
    if document["stopped"]:
        yield "stopped before the end: what is shown was measured until then"


def _cached_above(document: Document) -> Iterator[str]:
    """How much the rows above the roof had in a cache, beside what else puts a row there."""
    for row in document["rows"]:
        if (row["roofline_share"] or 0) > 1:
            name = f"{model_words(row)}, {load_words(read_load(row['load']))}"
            yield f"{name}: {cached_words(row.get('cached_share'))}"


def comparison_table(comparison: Document) -> Table:
    """Differences b - a with their 95 % intervals."""
    table = plain_table("a", "b", "load", "TTFT b - a", "TPOT b - a", "E2E b - a", "tok/s b / a", "n")
    for row in comparison["rows"]:
        latencies = row["latencies"]
        found = next((latency for latency in latencies.values() if latency), None)
        table.add_row(
            row["a"]["precision"] or row["a"]["model"],
            row["b"]["precision"] or row["b"]["model"],
            load_words(read_load(row["load"])),
            *(_difference(latencies[name]) for name in ("ttft_ms", "tpot_ms", "e2e_ms")),
            number(row["rates"]["output_throughput"]["ratio"]),
            f"{found['n']} {'pairs' if found['is_paired'] else 'unpaired'}" if found else NOTHING,
        )
    return table


def comparison_words(comparison: Document) -> Iterator[str]:
    """What stands against taking differences for those of the servers."""
    for row in comparison["rows"]:
        if caution := row.get("caution"):
            yield f"{load_words(read_load(row['load']))}: {caution}"


def rivals_table(scenario: Document) -> Table:
    """Medians of one scenario, and how many times as fast the first contestant is."""
    table = plain_table(scenario["name"], "done", "not", "tok/s", "TTFT", "TPOT", "E2E", "ratio", "roofline")
    for result in scenario["results"]:
        table.add_row(
            result["contestant"],
            str(result["completed"]),
            str(result["failed"]),
            *(number(result[name]) for name in ("output_throughput", "ttft_ms", "tpot_ms", "e2e_ms")),
            f"x {result['ratio']:.2f}" if result["ratio"] else NOTHING,
            share(result["roofline_share"]),
        )
    return table


def roofline_table(document: Document) -> Table:
    """The bound of a decode step for each batch and context."""
    table = plain_table("batch", "context", "step at least, ms", "tokens/s at most", "bound by")
    for row in document["rows"]:
        numbers = (number(row["bound_ms"]), number(row["tokens_per_s"]))
        table.add_row(str(row["batch"]), f"{row['context']:,}", *numbers, row["bound_by"])
    return table


def roofline_lines(document: Document) -> Iterator[str]:
    """The facts beside the table."""
    rate = document["flops_per_s"]
    multiplies = f"multiplies {rate / 1e9:,.0f} GFLOP/s" if rate else "matrix rate not stated"
    reads = f"reads {document['bandwidth_bytes_per_s'] / 1e9:,.1f} GB/s"
    yield f"{document['device']}, {document['dtype']}: {reads}, {multiplies}"
    weights, moved = (document[name] / 2**20 for name in ("weight_bytes", "bytes_per_step"))
    yield (
        f"weights {weights:,.0f} MiB, moved in a step {moved:,.0f} MiB, "
        f"keys and values of a token {document['kv_bytes_per_token'] / 1024:,.1f} KiB"
    )
    if crossing := document["crossing_batch"]:
        yield f"arithmetic is the limit from a batch of {crossing:,} on"
    if document.get("weights_fit") is False:
        yield "the weights do not fit this device"
    elif fits := document.get("fits"):
        yield "room for " + ", ".join(f"{fit['sequences']:,} sequences of {fit['length']:,} tokens" for fit in fits)
    if source := document.get("source"):
        yield f"source: {source}"


def model_words(row: Document) -> str:
    """A model and what it is called beside: SmolLM2-135M-Instruct nf4."""
    model, precision = row["model"], row["precision"]
    return model if precision in ("", model) else f"{model.removesuffix(f':{precision}')} {precision}"


def number(value: float | None) -> str:
    """Three digits that matter."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.0f} %"


def _percentiles(found: Mapping[str, Any] | None) -> Sequence[str]:
    if found is None:
        return NOTHING, NOTHING
    return number(found["p50"]), number(found["p99"]) + ("*" if found["p99_is_rough"] else "")


def _difference(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return NOTHING
    if found["low"] is None:
        return f"{found['mean']:+.3g} ms"
    return f"{found['mean']:+.3g} ms [{found['low']:+.3g}, {found['high']:+.3g}]"


def plain_table(*columns: str) -> Table:
    """Names to the left, numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in ("model", "load", "a", "b", columns[0]) else "right")
    return table
