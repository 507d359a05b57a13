"""What the numbers mean, in sentences that claim nothing that was not measured."""

from __future__ import annotations

from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.number_words import mib
from myserve_ui.evaluation.documents import Both, Memory

CPU = "cpu"
FUSED_DTYPE = "bfloat16"
"""For this one bitsandbytes may have a kernel that leaves the weights packed."""
FASTER_OR_SLOWER = 1.05
"""Speeds within so much of each other are called the same."""


def caveats(base: ModelInfo, candidate: ModelInfo) -> list[str]:
    """What somebody who compares these two must know before reading a number."""
    words = []
    if "nf4" in (base.precision, candidate.precision):
        words += _nf4_words(next(info for info in (candidate, base) if info.precision == "nf4"))
    words += _notes(base.note or "", candidate.note or "")
    if base.name != candidate.name:
        words.append("These are two different models: what differs between them is more than precision.")
    return words


def speed_words(base: float | None, candidate: float | None, *, alone: bool) -> str | None:
    """How much faster or slower the candidate wrote, from tokens a second of this very run; None without both."""
    if not base or not candidate:
        return None
    ratio = candidate / base
    if ratio >= FASTER_OR_SLOWER:
        verdict = f"{ratio:.2f} × as fast as the base"
    elif ratio <= 1 / FASTER_OR_SLOWER:
        verdict = f"{1 / ratio:.2f} × slower than the base"
    else:
        verdict = "as fast as the base"
    shared = "" if alone else " Both ran at once and shared the machine; choose one after the other for clean numbers."
    return f"Measured in this run: {candidate:.1f} against {base:.1f} tokens/s, the candidate is {verdict}.{shared}"


def memory_words(memory: Both[Memory]) -> str | None:
    """How much smaller the candidate's weights are; None while a size is unknown."""
    base, candidate = memory.base.weight_bytes, memory.candidate.weight_bytes
    if not base or not candidate:
        return None
    return f"Weights: {mib(candidate)} against {mib(base)}, {candidate / base:.0%} of the base."


def _notes(first: str, second: str) -> list[str]:
    """Both notes; what they begin with in common is said once."""
    if first.startswith(second):
        return [first] if first else []
    return [note for note in (first, second.removeprefix(first).strip()) if note]


def _nf4_words(nf4: ModelInfo) -> list[str]:
    words = []
    if nf4.device in (None, CPU) and nf4.dtype != FUSED_DTYPE:
        words.append(
            "On a CPU, NF4 saves memory and not time: the 4-bit weights are expanded again before every product, so "
            "expect it to be slower than full precision."
        )
    if bits := nf4.bits_per_parameter:
        words.append(
            f"NF4 comes to {bits:.1f} bits per parameter here, not 4: embedding, output head and norms are not "
            "quantised, and in a small model they are much of it."
        )
    return words
