"""What two models take, as tables of HTML. Pure text: no Gradio, no service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from myserve_ui.bench.roofline.roofline import DecodeBound
from myserve_ui.core.memory_report import MemoryReport
from myserve_ui.core.model_info import EngineStatus, ModelInfo
from myserve_ui.core.number_words import MIB, UNKNOWN, kib, mib
from myserve_ui.ui.shared.templates import render
from myserve_ui.ui.shared.words import model_label

CONTEXT = 512
"""Tokens of the sequence whose decode step is predicted."""
LENGTHS = (256, 1024, 4096)
"""Lengths of the sequences that are told how many of fit."""

MEASURED_HOW = (
    "The bound is what the weights and the cache weigh, over the bandwidth measured on this machine just now; weights "
    "that are expanded first are counted with what is written and read again. Real steps take longer."
)


@dataclass(frozen=True, slots=True)
class MemorySide:
    """What is known of one model's memory."""

    info: ModelInfo
    weights: MemoryReport | None
    engine: EngineStatus | None
    bound: DecodeBound | None = None
    """The least time of a decode step of one sequence, from what the machine was measured to read and multiply."""
    peak_bytes: int | None = None
    """The most that was taken so far where this model is, everything together."""


def memory_view(sides: Sequence[MemorySide]) -> Markup:
    """HTML: a table of totals with a column for each model, then what the weights of each are made of."""
    return render(
        "compare/memory",
        models=[(model_label(side.info), side.weights) for side in sides],
        rows=[(name, [tell(side) for side in sides]) for name, tell in _totals()],
        measured_how=MEASURED_HOW,
        bits=_decimal,
    )


def _totals() -> list[tuple[str, Callable[[MemorySide], str]]]:
    return [
        ("Weights, tied tensors once", lambda side: mib(side.info.weight_bytes or None)),
        ("Parameters", lambda side: f"{side.info.num_parameters:,}" if side.info.num_parameters else UNKNOWN),
        ("Bits per parameter", lambda side: _decimal(side.info.bits_per_parameter)),
        ("Bits per quantised parameter", lambda side: _decimal(_quantised_bits(side.weights))),
        ("Computes in", lambda side: f"{side.info.dtype or UNKNOWN} on {side.info.device or UNKNOWN}"),
        ("Keys and values per token", lambda side: kib(side.info.kv_bytes_per_token or None)),
        ("Keys and values in use", lambda side: _kv_in_use(side)),
        ("Peak so far, everything together", lambda side: mib(side.peak_bytes)),
        (f"Decode step at {CONTEXT} tokens, lower bound", _bound),
        ("Tokens per second at most, one sequence", _ceiling),
        *((f"Sequences of {length:,} tokens that fit", _fitting(length)) for length in LENGTHS),
    ]


def _quantised_bits(weights: MemoryReport | None) -> float | None:
    return weights.bits_per_quantized_parameter if weights else None


def _kv_in_use(side: MemorySide) -> str:
    if side.engine is None or not side.info.kv_bytes_per_token:
        return UNKNOWN
    used, total = (tokens * side.info.kv_bytes_per_token for tokens in _kv_tokens(side.engine))
    return f"{used / MIB:,.1f} of {total / MIB:,.0f} MiB"


def _kv_tokens(engine: EngineStatus) -> tuple[int, int]:
    return engine.kv_tokens_used, engine.kv_tokens_total


def _bound(side: MemorySide) -> str:
    if side.bound is None:
        return UNKNOWN
    reason = "memory" if side.bound.is_bound_by_memory else "arithmetic"
    return f"{1000 * side.bound.seconds:.1f} ms ({reason})"


def _ceiling(side: MemorySide) -> str:
    return f"{side.bound.tokens_per_second:.0f}" if side.bound else UNKNOWN


def _fitting(length: int) -> Callable[[MemorySide], str]:
    return lambda side: f"{side.engine.kv_tokens_total // length:,}" if side.engine else UNKNOWN


def _decimal(value: float | None) -> str:
    return f"{value:.2f}" if value else UNKNOWN
