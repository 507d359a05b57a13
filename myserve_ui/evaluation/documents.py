"""The JSON documents of reports, fidelity and perplexity, and what comparisons have in common with them.

Shares are in 0..1, divergence and losses in nats, times in seconds, sizes in bytes.
"""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import ClassVar, Generic, Literal, Self, TypedDict, TypeVar

import torch
from pydantic import SerializerFunctionWrapHandler, model_serializer

from myserve_ui.core.machine import describe_versions
from myserve_ui.core.memory_report import MemoryReport
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.documents import Document, Flag, Number, Part, Whole
from myserve_ui.serving.compare_service import Side

PACKAGES = ("torch", "transformers", "bitsandbytes")
T = TypeVar("T")


class Both(Part, Generic[T]):
    """One for each side."""

    base: T
    candidate: T

    def of(self, side: Side) -> T:
        return self.base if side is Side.BASE else self.candidate


class Machine(Part):
    """Where it was measured; no name of the machine and no path on it."""

    system: str
    processor: str
    cores: Whole | None
    threads: Whole
    cpu_capability: str


class Circumstances(TypedDict):
    """What every measurement depends on beside the models."""

    made: str
    versions: dict[str, str]
    machine: Machine


class Memory(Part):
    """What a model's weights and cache take; None for what is not known."""

    precision: str | None = None
    dtype: str | None = None
    device: str | None = None
    weight_bytes: Whole | None = None
    num_parameters: Whole | None = None
    bits_per_parameter: Number | None = None
    kv_bytes_per_token: Whole | None = None
    bits_per_quantized_parameter: Number | None = None
    bytes_by_format: dict[str, Whole] | None = None


class Estimate(Part):
    """A number and how sure it is."""

    value: Number
    se: Number
    """Standard error: the sample's standard deviation over the root of its size; 0 for a single number."""


class Mean(Part):
    """The mean of a number over all tokens."""

    mean: Number
    se: Number


class Spread(Mean):
    """With percentiles by nearest rank."""

    median: Number
    p90: Number
    p95: Number
    p99: Number
    p999: Number
    max: Number


class DeltaP(Spread):
    rms: Number


class Share(Part):
    """Of all tokens."""

    share: Number
    se: Number


class Rate(Part):
    scoring_tokens_per_second: Number


class ScoringSpeed(Part):
    """What scoring took; one rate for a model that was compared with itself."""

    seconds: Number
    base: Rate | None = None
    candidate: Rate | None = None

    @model_serializer(mode="wrap")
    def _without_what_did_not_run(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {name: value for name, value in dump(self).items() if value is not None}


class ScoredToken(Part):
    """What both models said of a token of the text."""

    id: Whole
    text: str
    nll_base: Number
    """-ln p of the token."""
    nll_candidate: Number
    kld: Number
    delta_p: Number
    base_rank: Whole
    same_top: Flag


class TokenLoss(Part):
    """What one model said of a token of the text."""

    id: Whole
    text: str
    nll: Number


class Measurement(Document):
    """A document with the circumstances it was measured under."""

    WAY_OUT: ClassVar[str] = "Choose a JSON file that this page or the command line saved."
    MAX_BYTES: ClassVar[int] = 32 * 2**20

    made: str
    versions: dict[str, str]
    machine: Machine


class TextScores(Measurement):
    """A text that was scored token by token."""

    model: str
    text_sha256: str
    tokens_scored: Whole
    window: Whole
    stride: Whole
    bos: Flag
    """Whether the first token is the one that begins texts."""
    speed: ScoringSpeed
    tokens: tuple[ScoredToken, ...] | tuple[TokenLoss, ...]

    def without_tokens(self) -> Self:
        """The same without each token's own numbers: a hundredth of the size."""
        return self.model_copy(update={"tokens": ()})


class FidelityReport(TextScores):
    """What a candidate costs against a base on a text."""

    NAME: ClassVar[str] = "fidelity report"

    kind: Literal["fidelity"] = "fidelity"
    base: str
    candidate: str
    percentile_method: str
    perplexity: Both[Estimate]
    ln_ratio: Mean
    """ln of both perplexities' ratio, paired: the mean difference of losses."""
    kld: Spread
    delta_p: DeltaP
    same_top: Share
    top_overlap: Mean
    memory: Both[Memory]
    notes: tuple[str, ...]
    tokens: tuple[ScoredToken, ...]


class PerplexityReport(TextScores):
    """How well one model predicts a text."""

    NAME: ClassVar[str] = "perplexity"

    kind: Literal["perplexity"] = "perplexity"
    perplexity: Estimate
    memory: Memory
    tokens: tuple[TokenLoss, ...]


def circumstances() -> Circumstances:
    """Those of this moment."""
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": describe_versions(PACKAGES),
        "machine": Machine(
            system=platform.system(),
            processor=platform.machine(),
            cores=os.cpu_count(),
            threads=torch.get_num_threads(),
            cpu_capability=torch.backends.cpu.get_cpu_capability(),
        ),
    }


def memory_of(info: ModelInfo, weights: MemoryReport | None = None) -> Memory:
    """What a model takes; `weights` adds what is in how many bits."""
    return Memory(
        precision=info.precision,
        dtype=info.dtype,
        device=info.device,
        weight_bytes=info.weight_bytes,
        num_parameters=info.num_parameters,
        bits_per_parameter=info.bits_per_parameter,
        kv_bytes_per_token=info.kv_bytes_per_token,
        bits_per_quantized_parameter=weights.bits_per_quantized_parameter if weights else None,
        bytes_by_format=weights.bytes_by_format() if weights else None,
    )
