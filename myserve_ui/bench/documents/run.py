"""The document of a benchmark: what was asked, on what, every request's raw times, and the rows that follow."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from myserve_ui.bench.client.overhead import ClientOverhead
from myserve_ui.bench.client.records import RequestRecord
from myserve_ui.bench.documents.differences import RowDifference
from myserve_ui.bench.documents.rows import KeptLoad, RequestEntry, Row
from myserve_ui.bench.limits import Limits
from myserve_ui.bench.machine.facts import Machine
from myserve_ui.bench.question.question import BenchmarkRequest
from myserve_ui.bench.roofline.documents import Roofline
from myserve_ui.bench.workload import Lengths, parse_lengths
from myserve_ui.documents import Document, Flag, Number, Part, Whole
from myserve_ui.errors import InvalidRequestError

WAY_OUT = "Choose a JSON file that the benchmark saved."

KeptLengths = Annotated[Lengths, PlainValidator(parse_lengths), PlainSerializer(str)]


class MeasuredTarget(Part):
    """Whom a run measured; of a key only that there was one."""

    url: str
    model: str
    precision: str
    is_ours: Flag
    has_key: Flag


class PromptSource(Part):
    """The file that prompts came from; its texts are not kept."""

    source: str = Field(validation_alias="from", serialization_alias="from")
    count: Whole
    sha256: str


class RunSettings(Part):
    """What was asked."""

    url: str
    models: tuple[str, ...]
    precisions: tuple[str, ...]
    targets: tuple[MeasuredTarget, ...]
    prompt_tokens: KeptLengths
    output_tokens: KeptLengths
    requests: Whole
    """Of each row."""
    loads: tuple[KeptLoad, ...]
    seed: Whole
    salt: str | None = None
    """None of a run that is older than salts."""
    limits: Limits
    time_limit: Number
    warm_up: Flag
    shared_prefix_tokens: Whole
    turns: Whole
    prompts: PromptSource | None = None
    example: dict[str, object] | None = None
    """Body of the first request, as it can be sent again by hand."""
    starts_app: Flag = False
    """Whether the app was started for this run alone."""

    @classmethod
    def of(cls, request: BenchmarkRequest) -> Self:
        """`request` as it is kept."""
        question, workload, first = request.question, request.question.workload, request.targets[0]
        return cls(
            url=first.target.url,
            models=tuple(named.target.model for named in request.targets),
            precisions=tuple(named.precision for named in request.targets),
            targets=tuple(
                MeasuredTarget(
                    url=named.target.url,
                    model=named.target.model,
                    precision=named.precision,
                    is_ours=named.is_ours,
                    has_key=named.target.has_key,
                )
                for named in request.targets
            ),
            prompt_tokens=workload.prompt_tokens,
            output_tokens=workload.output_tokens,
            requests=workload.num_requests,
            loads=question.loads,
            seed=workload.seed,
            salt=workload.salt,
            limits=question.limits,
            time_limit=question.time_limit,
            warm_up=question.warm_up,
            shared_prefix_tokens=workload.shared_prefix_tokens,
            turns=workload.turns,
            prompts=_describe_prompts(workload.prompts, question.prompts_from),
            example=first.target.body(workload.plan(question.loads[0])[0]),
        )


def _describe_prompts(prompts: Sequence[str], source: str) -> PromptSource | None:
    if not prompts:
        return None
    digest = hashlib.sha256("\n".join(prompts).encode("utf-8", "surrogatepass")).hexdigest()
    return PromptSource(source=source, count=len(prompts), sha256=digest)


class BenchmarkRun(Document):
    """A whole run. Rows follow from the requests, differences and rooflines stand beside them."""

    NAME: ClassVar[str] = "benchmark"
    WAY_OUT: ClassVar[str] = WAY_OUT
    MAX_BYTES: ClassVar[int] = 256 * 2**20

    kind: Literal["bench"] = "bench"
    id: str
    started: str
    """ISO 8601, UTC."""
    stopped: Flag
    """Whether there should be more than was measured."""
    settings: RunSettings
    machine: Machine
    versions: dict[str, str]
    client_overhead_ms: ClientOverhead | None = None
    rows: tuple[Row, ...]
    requests: tuple[RequestEntry, ...]
    rooflines: dict[str, Roofline]
    """By model, of those that are known."""
    differences: tuple[RowDifference, ...] = ()
    """Of every further model against the first one, load by load."""

    @model_validator(mode="after")
    def _has_a_row_for_each_request(self) -> Self:
        rows = range(len(self.rows))
        if not all(request.row in rows for request in self.requests):
            raise InvalidRequestError(f"A request of the benchmark belongs to no row. {WAY_OUT}")
        return self

    def records_of(self, row: int) -> list[RequestRecord]:
        """The raw records of one row."""
        return [request.record() for request in self.requests if request.row == row]


def new_run_id(started: datetime) -> str:
    """An id that begins with its time, so that ids sort as runs were made."""
    return f"{started.astimezone(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
