"""Words of `bench`: whom, under which loads, how many, how long, and what becomes of the result."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from myserve_ui.bench.benchmark_request import BenchmarkRequest, NamedTarget
from myserve_ui.bench.client.client import FIXED_LENGTH, NO_KEY, Target
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop, Ramp, refuse_twice
from myserve_ui.bench.prompt_file import read_prompts
from myserve_ui.bench.summary import parse_limits
from myserve_ui.bench.workload import Workload, parse_lengths
from myserve_ui.cli.parsing import make_parser, split_numbers, split_words
from myserve_ui.errors import InvalidRequestError

NAMED_URL = re.compile(r"(?:(?P<name>[^=/#]+)=)?(?P<url>[^#]+)(?:#(?P<model>.+))?", re.DOTALL)
DEFAULT_CONCURRENCY = "1,4,16"
REQUESTS = 64


@dataclass(frozen=True, slots=True)
class NamedServer:
    """One --url: a server, perhaps with a name for the table."""

    target: Target
    name: str = ""


@dataclass(frozen=True, slots=True)
class BenchArguments:
    """A benchmark that is asked for; `make_request` completes it once the targets are known."""

    servers: tuple[NamedServer, ...]
    """Empty: the command starts the app itself."""
    precisions: tuple[str, ...]
    loads: tuple[Load, ...]
    workload: Workload
    options: argparse.Namespace
    settings: tuple[str, ...]
    """Settings of the app that it starts."""

    def make_request(self, targets: Sequence[NamedTarget]) -> BenchmarkRequest:
        """Raises InvalidRequestError."""
        return BenchmarkRequest(
            targets=tuple(targets),
            workload=self.workload,
            loads=self.loads,
            limits=parse_limits(self.options.limits),
            time_limit=self.options.time_limit,
            warm_up=self.options.warm_up,
            prompts_from=Path(self.options.prompts).name if self.options.prompts else "",
        )


def read_bench_arguments(arguments: Sequence[str], parser: argparse.ArgumentParser | None = None) -> BenchArguments:
    """Raises InvalidRequestError for what cannot be understood; --help prints and exits.

    `parser` may know more than `bench_parser`; one that sets `starts_app` starts the app beside every --url.
    """
    options, rest = (parser or bench_parser()).parse_known_args(arguments)
    servers = tuple(_read_server(url, options) for url in options.url)
    starts_app = options.starts_app or not servers
    if rest and not starts_app:
        raise InvalidRequestError(f"{rest[0]} is no option of bench; settings are for the app that it starts itself.")
    settings = (*rest, *(("--model", options.model) if options.model and starts_app else ()))
    parse_limits(options.limits)
    return BenchArguments(
        servers=servers,
        precisions=split_words(options.precisions),
        loads=_read_loads(options),
        workload=_read_workload(options),
        options=options,
        settings=settings,
    )


def bench_parser(
    name: str = "bench", what: str = "How fast, for how many, and how far from the machine's limit; one JSON document."
) -> argparse.ArgumentParser:
    """The options of a benchmark; what else a command takes is added to it."""
    parser = make_parser(name, what)
    parser.set_defaults(starts_app=False)
    _add_whom(parser)
    _add_loads(parser)
    _add_work(parser)
    _add_result(parser)
    return parser


def _add_whom(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("whom")
    group.add_argument(
        "--url",
        action="append",
        default=[],
        metavar="[NAME=]URL[#MODEL]",
        help="any OpenAI-compatible server, with /v1; may be repeated; default: the app is started for the run",
    )
    group.add_argument("--model", default="", help="model of the server, or of the app that is started")
    group.add_argument("--api-key", default="", metavar="KEY", help="sent to every --url")
    group.add_argument("--precisions", default="", metavar="A,B", help="such as full,nf4; default: the server's first")
    group.add_argument(
        "--ignore-eos",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ask for answers of exactly the length; some servers refuse the field",
    )


def _add_loads(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("loads")
    group.add_argument("--concurrency", metavar="1,4,16", help=f"so many at once ({DEFAULT_CONCURRENCY})")
    group.add_argument("--rate", metavar="1,2,4", help="requests a second, whoever is still on the way")
    group.add_argument("--ramp", metavar="1,4,16", help="concurrencies one after the other, as one run")
    group.add_argument("--ramp-rate", metavar="1,2,4", help="rates one after the other, as one run")
    group.add_argument(
        "--burstiness", type=float, default=1.0, metavar="B", help="of rates: 1 is Poisson, larger is steadier"
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("requests")
    group.add_argument("--requests", type=int, default=REQUESTS, metavar="N", help="for each load (%(default)s)")
    group.add_argument("--input-len", default="32", metavar="N|LOW:HIGH", help="tokens of a prompt (%(default)s)")
    group.add_argument("--output-len", default="32", metavar="N|LOW:HIGH", help="tokens of an answer (%(default)s)")
    group.add_argument("--prompts", metavar="FILE", help="prompts, one a line or ShareGPT-like JSON")
    group.add_argument("--shared-prefix", type=int, default=0, metavar="N", help="tokens that all prompts begin with")
    group.add_argument("--turns", type=int, default=1, metavar="N", help="requests of one conversation")
    group.add_argument(
        "--salt",
        metavar="WORD",
        help="makes the first words of prompts; default: others in each run, so that no cache knows them",
    )
    group.add_argument(
        "--no-salt",
        dest="salt",
        action="store_const",
        const="",
        help="prompts exactly as the seed or the file has them",
    )
    group.add_argument("--seed", type=int, default=0, help="equal seeds ask alike (%(default)s)")
    group.add_argument(
        "--limits",
        default="server",
        metavar="interactive|server|TTFT,TPOT,E2E",
        help="what goodput asks for, in ms; - for no limit (%(default)s)",
    )
    group.add_argument(
        "--time-limit", type=float, default=1800.0, metavar="S", help="seconds for everything (%(default)g)"
    )
    group.add_argument("--warm-up", action=argparse.BooleanOptionalAction, default=True, help="not counted requests")


def _add_result(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("result")
    group.add_argument("--json", metavar="FILE", help="also write the document to FILE")
    group.add_argument("--save", action=argparse.BooleanOptionalAction, default=True, help="keep the run for the page")
    group.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="ID|FILE",
        help="one: the new run against it; two: these, without a run",
    )


def _read_server(text: str, options: argparse.Namespace) -> NamedServer:
    match = NAMED_URL.fullmatch(text)
    if match is None:
        raise InvalidRequestError(f"--url is [NAME=]URL[#MODEL], got {text[:80]!r}.", param="url")
    extra = FIXED_LENGTH if options.ignore_eos else {}
    url, model = match["url"].rstrip("/"), match["model"] or ("" if options.starts_app else options.model)
    return NamedServer(Target(url, model, options.api_key or NO_KEY, extra), match["name"] or "")


def _read_loads(options: argparse.Namespace) -> tuple[Load, ...]:
    given = (options.rate, options.ramp, options.ramp_rate)
    concurrency = options.concurrency if options.concurrency or any(given) else DEFAULT_CONCURRENCY
    loads: list[Load] = [*_closed(concurrency, "--concurrency"), *_open(options.rate, "--rate", options.burstiness)]
    if options.ramp:
        loads.append(Ramp(_closed(options.ramp, "--ramp")))
    if options.ramp_rate:
        loads.append(Ramp(_open(options.ramp_rate, "--ramp-rate", options.burstiness)))
    refuse_twice(loads)
    return tuple(loads)


def _closed(text: str | None, option: str) -> tuple[ClosedLoop, ...]:
    numbers = split_numbers(text or "", option)
    if any(not number.is_integer() for number in numbers):
        raise InvalidRequestError(f"{option} takes whole numbers, got {text!r}.", param="concurrency")
    return tuple(ClosedLoop(int(number)) for number in numbers)


def _open(text: str | None, option: str, burstiness: float) -> tuple[OpenLoop, ...]:
    return tuple(OpenLoop(rate, burstiness) for rate in split_numbers(text or "", option))


def _read_workload(options: argparse.Namespace) -> Workload:
    return Workload(
        num_requests=options.requests,
        prompt_tokens=parse_lengths(options.input_len),
        output_tokens=parse_lengths(options.output_len),
        prompts=read_prompts(Path(options.prompts)) if options.prompts else (),
        shared_prefix_tokens=options.shared_prefix,
        turns=options.turns,
        seed=options.seed,
        salt=options.salt,
    )
