"""What a match of the app and its rivals found, as it is written down: medians over rounds."""

from __future__ import annotations

from typing import ClassVar, Literal

from myserve_ui.bench.client.overhead import ClientOverhead
from myserve_ui.bench.machine.facts import Machine
from myserve_ui.documents import Document, Number, Part, Whole


class ContestantResult(Part):
    """One contestant in one scenario: counts of all rounds, medians of the rounds' rates and median latencies."""

    contestant: str
    requests: Whole
    completed: Whole
    failed: Whole
    errors: tuple[str, ...]
    output_throughput: Number
    rounds: tuple[Number, ...]
    """Throughputs, a round each."""
    ttft_ms: Number | None
    tpot_ms: Number | None
    e2e_ms: Number | None
    ttft_p95_ms: Number | None
    roofline_share: Number | None
    ratio: Number | None = None
    """The first contestant's throughput over this one's; None for the first itself, and where nothing came."""


class ScenarioResult(Part):
    """Everybody who took part in one scenario, and how they were asked."""

    name: str
    concurrency: Whole
    prompt_tokens: str
    output_tokens: str
    requests: Whole
    shared_prefix_tokens: Whole
    turns: Whole
    results: tuple[ContestantResult, ...]


class Absent(Part):
    """A contestant that could not be started."""

    contestant: str
    reason: str


class RivalsDocument(Document):
    """A whole match."""

    NAME: ClassVar[str] = "match"

    kind: Literal["rivals"] = "rivals"
    started: str
    rounds: Whole
    salt: str
    seconds_limit: Number
    model: str
    dtype: str
    machine: Machine
    versions: dict[str, str]
    client_overhead_ms: ClientOverhead | None
    scenarios: tuple[ScenarioResult, ...]
    not_run: tuple[Absent, ...]
