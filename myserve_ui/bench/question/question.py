"""What a benchmark is asked: whom, under which loads, with which prompts, within which limits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from myserve_ui.bench.client.client import FIXED_LENGTH, NO_KEY, Target
from myserve_ui.bench.limits import Limits, server_limits
from myserve_ui.bench.loads import Load, refuse_twice
from myserve_ui.bench.salt import fresh_salt
from myserve_ui.bench.workload import Workload
from myserve_ui.errors import InvalidRequestError

MAX_ROWS, MAX_SECONDS = 256, 24 * 3600.0


@dataclass(frozen=True, slots=True)
class AskedTarget:
    """Models of one server by the names that people use."""

    model: str = ""
    """An id, several with commas between, or a precision of this app's default model; the server's first for ""."""
    url: str = ""
    """Base URL with /v1; this app, or one that is started for the run, for ""."""
    precisions: tuple[str, ...] = ()
    """Those of the server's models that are meant, in place of `model`."""
    name: str = ""
    """What the results call it; its precision for ""."""
    api_key: str = field(default="", repr=False)
    has_fixed_length: bool = True
    """Whether answers of exactly the length are asked for; some servers refuse the field."""

    def __post_init__(self) -> None:
        if self.url:
            self.at(self.url)

    def at(self, url: str) -> Target:
        """The server at `url`, of which the model is yet to be found. Raises InvalidRequestError for what is no URL."""
        extra = FIXED_LENGTH if self.has_fixed_length else {}
        return Target(url.rstrip("/"), self.model, self.api_key or NO_KEY, extra)


@dataclass(frozen=True, slots=True)
class BenchmarkQuestion:
    """Every target under every load, with the same arrivals, prompts and lengths."""

    targets: tuple[AskedTarget, ...]
    loads: tuple[Load, ...]
    workload: Workload = field(default_factory=Workload)
    limits: Limits = field(default_factory=server_limits)
    time_limit: float = 1800.0
    """Seconds for everything, warm-ups too."""
    warm_up: bool = True
    prompts_from: str = ""
    """Name of the file that the prompts come from."""

    def __post_init__(self) -> None:
        if not self.targets:
            raise InvalidRequestError("A benchmark needs a model to measure.", param="precisions")
        if not self.loads:
            raise InvalidRequestError("A benchmark needs a load: a concurrency, a rate or a ramp.", param="concurrency")
        _check_size(len(self.targets), len(self.loads))
        refuse_twice(self.loads)
        if not 0 < self.time_limit <= MAX_SECONDS:
            raise InvalidRequestError(
                f"time_limit must be in (0, {MAX_SECONDS:g}] seconds, got {self.time_limit}.", param="time_limit"
            )


def _check_size(num_targets: int, num_loads: int) -> None:
    if num_targets * num_loads > MAX_ROWS:
        raise InvalidRequestError(
            f"{num_targets} models under {num_loads} loads are over {MAX_ROWS} rows; ask for fewer."
        )


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """A server's model that was found, and how it is named in the results."""

    target: Target
    precision: str = ""
    """"full", "nf4", …; for a server that does not say, what the user calls it."""
    is_ours: bool = False
    """Whether it is the very app that measures."""

    @property
    def name(self) -> str:
        return self.precision or self.target.model or "default model"


@dataclass(frozen=True, slots=True)
class BenchmarkRequest:
    """A question whose targets were found."""

    targets: tuple[NamedTarget, ...]
    question: BenchmarkQuestion

    def __post_init__(self) -> None:
        _check_size(len(self.targets), len(self.question.loads))

    def with_salt(self) -> BenchmarkRequest:
        """The same with a salt that no other benchmark has, unless one is given, or none is wanted."""
        workload = self.question.workload
        if workload.salt is not None:
            return self
        return replace(self, question=replace(self.question, workload=replace(workload, salt=fresh_salt())))

    def name_of(self, named: NamedTarget) -> str:
        """What one of the targets is called beside the others: its model where another has the same name."""
        is_shared = any(each.name == named.name and each.target.model != named.target.model for each in self.targets)
        return named.target.model if is_shared else named.name

    def workload_of(self, place: int) -> Workload:
        """What the target at `place` is asked: the same as any other, but for a server's model that is named twice.

        That would find in its cache what it was asked under its first name.
        """
        workload = self.question.workload
        names = [(named.target.url, named.target.model) for named in self.targets]
        again = names[:place].count(names[place])
        return replace(workload, salt=f"{workload.salt[:40]}/{again}") if again and workload.salt else workload

    @property
    def num_requests(self) -> int:
        """Of all rows together, without warm-ups."""
        return self.question.workload.num_requests * len(self.targets) * len(self.question.loads)
