"""Makes the benchmark that is asked for on the page or by a script; whatever cannot be done is told in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from myserve_ui.bench.benchmark_request import BenchmarkRequest, NamedTarget
from myserve_ui.bench.benchmark_service import BenchmarkService
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop, Ramp
from myserve_ui.bench.summary import parse_limits
from myserve_ui.bench.workload import Workload, parse_lengths
from myserve_ui.errors import InvalidRequestError

LOAD_KINDS = [
    ("closed loop: so many at once", "closed"),
    ("open loop: so many a second", "open"),
    ("ramp of so many at once", "ramp"),
    ("ramp of so many a second", "ramp-rate"),
]
ARRIVALS = [("Poisson", "poisson"), ("constant", "constant"), ("gamma", "gamma")]
LIMITS = [("server: 2 s, 100 ms a token", "server"), ("interactive: 500 ms, 30 ms", "interactive")]
CONSTANT = 1e6
"""A shape of gamma whose gaps are equal to a thousandth."""
MOST_LEVELS = 64
LARGEST = 1e300
"""Whole numbers above it have no float."""


@dataclass(frozen=True, slots=True)
class BenchQuestion:
    """A benchmark in a user's words."""

    models: tuple[str, ...] = ()
    load: str = "closed"
    levels: tuple[float, ...] = (1, 4, 16)
    requests: int = 16
    prompt_tokens: str = "32"
    output_tokens: str = "32"
    time_limit: float = 600.0
    arrivals: str = "poisson"
    burstiness: float = 1.0
    limits: str = "server"
    seed: int = 0
    salted: bool = True
    warm_up: bool = True
    shared_prefix_tokens: int = 0
    turns: int = 1
    prompts: tuple[str, ...] = ()
    prompts_from: str = ""
    url: str = ""
    url_model: str = ""
    api_key: str = ""


async def make_request(question: BenchQuestion, service: BenchmarkService, *, own_url: str) -> BenchmarkRequest:
    """The benchmark; `own_url` is where this app reaches itself, and another server is asked for its models.

    Raises InvalidRequestError, ModelNotFoundError.
    """
    own = [service.own_target(name) for name in dict.fromkeys(question.models)]
    targets = [replace(named, target=replace(named.target, url=own_url)) for named in own]
    if question.url.strip():
        targets += await _other_targets(question, service)
    if not targets:
        raise InvalidRequestError("Nothing to measure: choose a model, or give the URL of a server.", param="models")
    return BenchmarkRequest(
        targets=tuple(targets),
        workload=Workload(
            num_requests=_integer("requests", question.requests),
            prompt_tokens=parse_lengths(str(question.prompt_tokens)),
            output_tokens=parse_lengths(str(question.output_tokens)),
            prompts=question.prompts,
            shared_prefix_tokens=_integer("shared_prefix_tokens", question.shared_prefix_tokens),
            turns=_integer("turns", question.turns),
            seed=_integer("seed", question.seed),
            salt=None if question.salted else "",
        ),
        loads=make_loads(question),
        limits=parse_limits(str(question.limits)),
        time_limit=_number("time_limit", question.time_limit),
        warm_up=question.warm_up,
        prompts_from=question.prompts_from,
    )


def make_loads(question: BenchQuestion) -> tuple[Load, ...]:
    """One load for each level, or a ramp over all of them."""
    levels = question.levels
    if not levels:
        raise InvalidRequestError("Give at least one load, such as 1, 4, 16.", param="levels")
    if len(levels) > MOST_LEVELS:
        raise InvalidRequestError(f"At most {MOST_LEVELS} loads, got {len(levels)}.", param="levels")
    shape = _shape(question)
    opened = tuple(OpenLoop(rate, shape) for rate in levels) if question.load in ("open", "ramp-rate") else ()
    closed = () if opened else tuple(ClosedLoop(_integer("levels", level)) for level in levels)
    if question.load in ("closed", "open"):
        return closed or opened
    if question.load in ("ramp", "ramp-rate"):
        return (Ramp(closed or opened),)
    raise InvalidRequestError(_one_of("load", LOAD_KINDS, question.load), param="load")


def split_levels(text: str) -> tuple[float, ...]:
    """ "1, 4 16" as numbers. Raises InvalidRequestError."""
    try:
        return tuple(float(word) for word in str(text or "").replace(",", " ").replace(";", " ").split())
    except ValueError:
        raise InvalidRequestError(f"Loads are numbers, such as 1, 4, 16; got {text[:40]!r}.", param="levels") from None


async def _other_targets(question: BenchQuestion, service: BenchmarkService) -> tuple[NamedTarget, ...]:
    """A peer, called by its address. Its key goes to its URL alone."""
    url = question.url.strip().rstrip("/")
    if (address := _address(url)) is None:
        raise InvalidRequestError(f"{url[:60]!r} is no URL; it begins with http:// or https://.", param="url")
    return await service.other_targets(url, question.url_model.strip(), api_key=question.api_key.strip(), name=address)


def _address(url: str) -> str | None:
    """Host and port, by which a peer is called; None if it is no URL that can be asked."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:
        return None
    return parts.netloc if is_usable else None


def _shape(question: BenchQuestion) -> float:
    """Burstiness of the chosen arrivals."""
    if question.arrivals not in {value for _, value in ARRIVALS}:
        raise InvalidRequestError(_one_of("arrivals", ARRIVALS, question.arrivals), param="arrivals")
    return {"poisson": 1.0, "constant": CONSTANT}.get(question.arrivals) or _number("burstiness", question.burstiness)


def _integer(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = _number(name, value)
    if not number.is_integer():
        raise InvalidRequestError(f"{name} must be a whole number, got {number:g}.", param=name)
    return int(number)


def _number(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST:
        return float(value)
    raise InvalidRequestError(f"{name} must be a number, got {str(value)[:40]!r}.", param=name)


def _one_of(name: str, choices: Sequence[tuple[str, str]], value: object) -> str:
    return f"{name} must be one of {', '.join(choice for _, choice in choices)}, got {str(value)[:40]!r}."
