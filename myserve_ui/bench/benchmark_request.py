"""What a benchmark is asked to do: whom it measures, under which loads, within which limits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.loads import Load, refuse_twice
from myserve_ui.bench.salt import fresh_salt
from myserve_ui.bench.summary import Limits, server_limits
from myserve_ui.bench.workload import Workload
from myserve_ui.errors import InvalidRequestError

MAX_ROWS, MAX_SECONDS = 256, 24 * 3600.0


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """A server's model, and how it is named in the results."""

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
    """Every target under every load, with the same arrivals, prompts and lengths."""

    targets: tuple[NamedTarget, ...]
    workload: Workload
    loads: tuple[Load, ...]
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
        if len(self.targets) * len(self.loads) > MAX_ROWS:
            raise InvalidRequestError(
                f"{len(self.targets)} models under {len(self.loads)} loads are over {MAX_ROWS} rows; ask for fewer."
            )
        refuse_twice(self.loads)
        if not 0 < self.time_limit <= MAX_SECONDS:
            raise InvalidRequestError(
                f"time_limit must be in (0, {MAX_SECONDS:g}] seconds, got {self.time_limit}.", param="time_limit"
            )

    def with_salt(self) -> BenchmarkRequest:
        """The same with a salt that no other benchmark has, unless one is given, or none is wanted."""
        if self.workload.salt is not None:
            return self
        return replace(self, workload=replace(self.workload, salt=fresh_salt()))

    def workload_of(self, place: int) -> Workload:
        """What the target at `place` is asked: the same as any other, but for a server's model that is named twice.

        That would find in its cache what it was asked under its first name.
        """
        names, salt = [(named.target.url, named.target.model) for named in self.targets], self.workload.salt
        again = names[:place].count(names[place])
        return replace(self.workload, salt=f"{salt[:40]}/{again}") if again and salt else self.workload

    @property
    def num_requests(self) -> int:
        """Of all rows together, without warm-ups."""
        return self.workload.num_requests * len(self.targets) * len(self.loads)
