"""One row of results, a model under a load, and its raw requests in the time of the row's own start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator

from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.client.server_split import ServerSplit
from myserve_ui.bench.limits import Limits
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop, read_load, write_load
from myserve_ui.bench.question.question import NamedTarget
from myserve_ui.bench.roofline.roofline import ModelRoofline
from myserve_ui.bench.summary import Summary, summarise
from myserve_ui.documents import Number, Part, Whole
from myserve_ui.errors import InvalidRequestError

DIGITS = 6
"""Times are kept to the microsecond."""
OUTCOMES = frozenset(Outcome)


def _known_outcome(value: object) -> object:
    if isinstance(value, str) and value in OUTCOMES:
        return value
    raise InvalidRequestError("A request of the benchmark ended in no known way. Choose another file.")


def _is_none(value: object) -> bool:
    return value is None


KeptLoad = Annotated[Load, PlainValidator(read_load), PlainSerializer(write_load)]


class RowName(Part):
    """Whose row it is."""

    precision: str
    """What the model is called beside its name: a precision, or as the user said; "" for neither."""
    model: str


class Row(Summary, RowName):
    """The numbers of one model under one load."""

    load: KeptLoad
    concurrency: Whole | None = Field(None, exclude_if=_is_none)
    """The load's own number once more, for whoever reads the document as a table; so is `rate`."""
    rate: Number | None = Field(None, exclude_if=_is_none)
    roofline_share: Number | None
    """How near a token's time came to its bound, 1 at the bound; None where that is not known."""
    server_ms: ServerSplit | None = None


class RequestEntry(Part):
    """A request of a run as it is kept: `RequestRecord` without the answer's text, and the row that it belongs to."""

    row: Whole
    index: Whole
    outcome: Annotated[Outcome, BeforeValidator(_known_outcome)]
    arrival: Number
    sent: Number
    first_token: Number | None
    last_token: Number | None
    end: Number
    prompt_tokens: Whole
    cached_tokens: Whole | None = None
    output_tokens: Whole
    chunk_times: tuple[Number, ...]
    error: str | None

    @classmethod
    def of(cls, record: RequestRecord, row: int) -> RequestEntry:
        """`record` as it is kept."""
        return cls(row=row, **{name: getattr(record, name) for name in cls.model_fields if name != "row"})

    def record(self) -> RequestRecord:
        """The record again."""
        return RequestRecord(**{name: value for name, value in self if name != "row"})


def relative_records(records: Sequence[RequestRecord]) -> tuple[RequestRecord, ...]:
    """`records` with seconds since the first of them was due."""
    start = min((min(record.arrival, record.sent) for record in records), default=0.0)

    def moved(time: float) -> float:
        return round(time - start, DIGITS)

    return tuple(
        replace(
            record,
            arrival=moved(record.arrival),
            sent=moved(record.sent),
            end=moved(record.end),
            first_token=None if record.first_token is None else moved(record.first_token),
            last_token=None if record.last_token is None else moved(record.last_token),
            chunk_times=tuple(map(moved, record.chunk_times)),
            text="",
        )
        for record in records
    )


def make_row(
    named: NamedTarget,
    load: Load,
    records: Sequence[RequestRecord],
    limits: Limits,
    *,
    roofline: ModelRoofline | None = None,
) -> Row:
    """The row of relative `records`, and how near it came to the roofline."""
    summary = summarise(records, limits)
    return Row(
        precision=named.precision,
        model=named.target.model,
        load=load,
        concurrency=load.concurrency if isinstance(load, ClosedLoop) else None,
        rate=load.rate if isinstance(load, OpenLoop) else None,
        roofline_share=roofline.share_reached(summary) if roofline else None,
        **dict(summary),
    )
