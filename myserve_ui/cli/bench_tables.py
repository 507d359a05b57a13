"""Results of benchmarks as tables for a terminal. Milliseconds, percentiles by nearest rank."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.table import Table

from myserve_ui.bench.documents.differences import LatencyDifference, RunComparison
from myserve_ui.bench.documents.row_words import cached_words, lengths_words, prompt_words, salt_words, tpot_words
from myserve_ui.bench.documents.rows import Row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.loads import load_words
from myserve_ui.bench.roofline.documents import CalculatedRoofline, Roofline, SizedRoofline
from myserve_ui.bench.summary import Percentiles
from myserve_ui.core.number_words import UNKNOWN, kib, mib, percent, short_number

METHOD = "times in ms, percentiles by nearest rank (* of fewer than 100 requests)"
BUSY = "more than 100 % of a roofline: the machine was busy while its bandwidth was measured, so run it again"


def results_table(run: BenchmarkRun) -> Table:
    """A row for each model and load."""
    table = plain_table(
        "model", "load", "done", "not", "tok/s", "req/s", "good/s", "cached", "TTFT p50", "p99", "TPOT p50", "p99"
    )
    table.add_column("E2E p50", justify="right")
    table.add_column("p99", justify="right")
    table.add_column("roofline", justify="right")
    for row in run.rows:
        table.add_row(
            model_words(row),
            load_words(row.load),
            str(row.completed),
            str(row.requests - row.completed),
            *map(short_number, (row.output_throughput, row.request_throughput, row.goodput)),
            percent(row.cached_share),
            *(cell for found in (row.ttft_ms, row.tpot_ms, row.e2e_ms) for cell in _percentiles(found)),
            percent(row.roofline_share),
        )
    return table


def circumstances(run: BenchmarkRun) -> Iterator[str]:
    """What the numbers depend on, a line each."""
    settings, machine = run.settings, run.machine
    yield (
        f"{settings.requests} requests a row, prompts of {prompt_words(settings, run.rows)}, answers of "
        f"{lengths_words(settings.output_tokens)} tokens, seed {settings.seed}; {METHOD}"
    )
    if words := salt_words(settings):
        yield f"{words}; cached: share of the prompt tokens that the server found computed"
    if machine.bytes_per_s and machine.flops_per_s:
        yield (
            f"{machine.device or UNKNOWN} ({machine.cpu or UNKNOWN}, {machine.cores or UNKNOWN} cores), "
            f"{machine.dtype or UNKNOWN}: reads "
            f"{machine.bytes_per_s / 1e9:.1f} GB/s, multiplies {machine.flops_per_s / 1e9:.0f} GFLOP/s"
        )
    if overhead := run.client_overhead_ms:
        yield f"the client itself takes {overhead.request:.2f} ms a request and {overhead.token:.3f} ms a token"
    for row in run.rows:
        yield from _remarks(row)
    if above := [row for row in run.rows if (row.roofline_share or 0) > 1]:
        yield BUSY
        yield from (f"{_name(row)}: {cached_words(row.cached_share)}" for row in above)
    if run.stopped:
        yield "stopped before the end: what is shown was measured until then"


def _remarks(row: Row) -> Iterator[str]:
    """What else is known of a row: the server's own account, how few TPOTs there are, what failed."""
    if split := row.server_ms:
        parts = {"queue": split.queue, "prefill": split.prefill, "decode": split.decode}
        words = ", ".join(f"{part} {short_number(value)}" for part, value in parts.items())
        yield f"{_name(row)}: on the server {words} ms on average"
    if few := tpot_words(row):
        yield f"{_name(row)}: {few}"
    for error, count in row.errors.items():
        yield f"{row.precision or row.model}, {load_words(row.load)}: {count} x {error}"


def comparison_table(comparison: RunComparison) -> Table:
    """Differences b - a with their 95 % intervals."""
    table = plain_table("a", "b", "load", "TTFT b - a", "TPOT b - a", "E2E b - a", "tok/s b / a", "n")
    named = [side for row in comparison.rows for side in (row.a, row.b)]
    is_told_apart = len({(side.model, side.precision) for side in named}) == len({side.precision for side in named})
    for row in comparison.rows:
        latencies = (row.latencies.ttft_ms, row.latencies.tpot_ms, row.latencies.e2e_ms)
        found = next(filter(None, latencies), None)
        table.add_row(
            *((side.precision or side.model) if is_told_apart else side.model for side in (row.a, row.b)),
            load_words(row.load),
            *map(_difference, latencies),
            short_number(row.rates.output_throughput.ratio),
            f"{found.n} {'pairs' if found.is_paired else 'unpaired'}" if found else UNKNOWN,
        )
    return table


def comparison_words(comparison: RunComparison) -> Iterator[str]:
    """What stands against taking differences for those of the servers."""
    return (f"{load_words(row.load)}: {row.caution}" for row in comparison.rows if row.caution)


def roofline_table(roofline: Roofline) -> Table:
    """The bound of a decode step for each batch and context."""
    table = plain_table("batch", "context", "step at least, ms", "tokens/s at most", "bound by")
    for row in roofline.rows:
        numbers = map(short_number, (row.bound_ms, row.tokens_per_s))
        table.add_row(str(row.batch), f"{row.context:,}", *numbers, row.bound_by)
    return table


def roofline_lines(roofline: SizedRoofline) -> Iterator[str]:
    """The facts beside the table."""
    rate = roofline.flops_per_s
    multiplies = f"multiplies {rate / 1e9:,.0f} GFLOP/s" if rate else "matrix rate not stated"
    reads = f"reads {roofline.bandwidth_bytes_per_s / 1e9:,.1f} GB/s"
    yield f"{roofline.device}, {roofline.dtype}: {reads}, {multiplies}"
    yield (
        f"weights {mib(roofline.weight_bytes)}, moved in a step {mib(roofline.bytes_per_step)}, "
        f"keys and values of a token {kib(roofline.kv_bytes_per_token)}"
    )
    if roofline.crossing_batch:
        yield f"arithmetic is the limit from a batch of {roofline.crossing_batch:,} on"
    if isinstance(roofline, CalculatedRoofline) and not roofline.weights_fit:
        yield "the weights do not fit this device"
    elif roofline.fits:
        rooms = (f"{room.sequences:,} sequences of {room.length:,} tokens" for room in roofline.fits)
        yield f"room for {', '.join(rooms)}"
    if isinstance(roofline, CalculatedRoofline):
        yield f"source: {roofline.source}"


def model_words(row: Row) -> str:
    """A model and what it is called beside: SmolLM2-135M-Instruct nf4."""
    model, precision = row.model, row.precision
    return model if precision in ("", model) else f"{model.removesuffix(f':{precision}')} {precision}"


def _name(row: Row) -> str:
    return f"{model_words(row)}, {load_words(row.load)}"


def _percentiles(found: Percentiles | None) -> tuple[str, str]:
    if found is None:
        return UNKNOWN, UNKNOWN
    return short_number(found.p50), short_number(found.p99) + ("*" if found.p99_is_rough else "")


def _difference(found: LatencyDifference | None) -> str:
    if found is None:
        return UNKNOWN
    interval = "" if found.low is None else f" [{found.low:+.3g}, {found.high:+.3g}]"
    return f"{found.mean:+.3g} ms{interval}"


def plain_table(*columns: str) -> Table:
    """Names to the left, numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in ("model", "load", "a", "b", columns[0]) else "right")
    return table
