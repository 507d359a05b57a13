"""A question as words of the command line: the options that ask it, read from them and written as them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from myserve_ui.bench.limits import parse_limits, write_limits
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop, Ramp
from myserve_ui.bench.prompt_file import read_prompts
from myserve_ui.bench.question.question import AskedTarget, BenchmarkQuestion
from myserve_ui.bench.workload import Workload, parse_lengths
from myserve_ui.errors import InvalidRequestError

NAMED_URL = re.compile(r"(?:(?P<name>[^=/#]+)=)?(?P<url>[^#]+)(?:#(?P<model>.+))?", re.DOTALL)
DEFAULT_CONCURRENCY = "1,4,16"
REQUESTS = 64
OPTIONS = {
    "prompt_tokens": "--input-len",
    "output_tokens": "--output-len",
    "shared_prefix_tokens": "--shared-prefix",
    "time_limit": "--time-limit",
}
"""A parameter -> its option, where that is called otherwise."""


def add_question(parser: argparse.ArgumentParser) -> None:
    """Add the options. A parser that sets `starts_app` measures the app that it starts beside every --url."""
    parser.set_defaults(starts_app=False)
    _add_whom(parser)
    _add_loads(parser)
    _add_work(parser)


def _add_whom(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("whom")
    group.add_argument(
        "--url",
        action="append",
        default=[],
        metavar="[NAME=]URL[#MODEL]",
        help="any OpenAI-compatible server, with /v1; may be repeated; default: the app is started for the run",
    )
    group.add_argument(
        "--model",
        action="append",
        default=[],
        help="model of the server, or of the app that is started; may be repeated, then --precisions names which "
        "to measure of an app's",
    )
    group.add_argument("--api-key", default="", metavar="KEY", help="sent to every --url")
    group.add_argument(
        "--precisions",
        default="",
        metavar="A,B",
        help="such as full,nf4, or ids of models; default: the server's first",
    )
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


def read_question(options: argparse.Namespace) -> BenchmarkQuestion:
    """What the options ask. Raises InvalidRequestError for what cannot be, which names the option."""
    try:
        return _read_question(options)
    except InvalidRequestError as error:
        name = error.param or ""
        if (option := OPTIONS.get(name)) is None or not error.message.startswith(name):
            raise
        raise InvalidRequestError(f"{option}{error.message.removeprefix(name)}", param=name) from None


def _read_question(options: argparse.Namespace) -> BenchmarkQuestion:
    prompts = Path(options.prompts) if options.prompts else None
    return BenchmarkQuestion(
        targets=tuple(_read_targets(options)),
        loads=_read_loads(options),
        workload=Workload(
            num_requests=options.requests,
            prompt_tokens=parse_lengths(options.input_len),
            output_tokens=parse_lengths(options.output_len),
            prompts=read_prompts(prompts) if prompts else (),
            shared_prefix_tokens=options.shared_prefix,
            turns=options.turns,
            seed=options.seed,
            salt=options.salt,
        ),
        limits=parse_limits(options.limits),
        time_limit=options.time_limit,
        warm_up=options.warm_up,
        prompts_from=prompts.name if prompts else "",
    )


def write_words(question: BenchmarkQuestion, *, own_url: str) -> list[str]:
    """The options that ask `question` of an app at `own_url`, or of one that is started for it where that is empty.

    Keys are left out.
    """
    workload = question.workload
    words = [*_write_targets(question.targets, own_url), *_write_loads(question.loads)]
    words += ["--requests", str(workload.num_requests), "--input-len", str(workload.prompt_tokens)]
    words += ["--output-len", str(workload.output_tokens), "--seed", str(workload.seed)]
    words += ["--limits", write_limits(question.limits), "--time-limit", f"{question.time_limit:g}"]
    if workload.shared_prefix_tokens:
        words += ["--shared-prefix", str(workload.shared_prefix_tokens)]
    if workload.turns > 1:
        words += ["--turns", str(workload.turns)]
    if question.prompts_from:
        words += ["--prompts", question.prompts_from]
    if workload.salt:
        words += ["--salt", workload.salt]
    if workload.salt == "":
        words.append("--no-salt")
    if not question.warm_up:
        words.append("--no-warm-up")
    return words


def _read_targets(options: argparse.Namespace) -> Iterator[AskedTarget]:
    """The app that is started, then every --url; what is said of models is the app's, if there is one."""
    precisions = tuple(dict.fromkeys(word.strip() for word in options.precisions.split(",") if word.strip()))
    starts_app = options.starts_app or not options.url
    if starts_app:
        if not precisions and "," in ",".join(options.model):
            raise InvalidRequestError("Several models: name what is measured of them, such as --precisions A,B:nf4.")
        yield AskedTarget(precisions=precisions)
    for text in options.url:
        if (match := NAMED_URL.fullmatch(text)) is None:
            raise InvalidRequestError(f"--url is [NAME=]URL[#MODEL], got {text[:80]!r}.", param="url")
        yield AskedTarget(
            model=match["model"] or ("" if starts_app else ",".join(options.model)),
            url=match["url"].rstrip("/"),
            precisions=() if starts_app else precisions,
            name=match["name"] or "",
            api_key=options.api_key,
            has_fixed_length=options.ignore_eos,
        )


def _write_targets(targets: Sequence[AskedTarget], own_url: str) -> Iterator[str]:
    own = [asked for asked in targets if not asked.url]
    if own and not own_url:
        models = dict.fromkeys(asked.model.removesuffix(f":{asked.name}") for asked in own)
        yield from ("--model", ",".join(models))
        yield from ("--precisions", ",".join(asked.name if len(models) == 1 else asked.model for asked in own))
    elif len(targets) == 1:
        yield from ("--url", targets[0].url or own_url)
        yield from ("--model", targets[0].model) if targets[0].model else ()
    else:
        for asked in targets:
            name = f"{asked.name}=" if asked.name and "=" not in asked.name else ""
            yield from ("--url", f"{name}{asked.url or own_url}#{asked.model}")


def _read_loads(options: argparse.Namespace) -> tuple[Load, ...]:
    given = (options.rate, options.ramp, options.ramp_rate)
    concurrency = options.concurrency if options.concurrency or any(given) else DEFAULT_CONCURRENCY
    loads: list[Load] = [*_closed(concurrency, "--concurrency"), *_open(options.rate, "--rate", options.burstiness)]
    if options.ramp:
        loads.append(Ramp(_closed(options.ramp, "--ramp")))
    if options.ramp_rate:
        loads.append(Ramp(_open(options.ramp_rate, "--ramp-rate", options.burstiness)))
    return tuple(loads)


def _closed(text: str | None, option: str) -> tuple[ClosedLoop, ...]:
    numbers = _split_numbers(text or "", option)
    if any(not number.is_integer() for number in numbers):
        raise InvalidRequestError(f"{option} takes whole numbers, got {text!r}.", param="concurrency")
    return tuple(ClosedLoop(int(number)) for number in numbers)


def _open(text: str | None, option: str, burstiness: float) -> tuple[OpenLoop, ...]:
    return tuple(OpenLoop(rate, burstiness) for rate in _split_numbers(text or "", option))


def _split_numbers(text: str, option: str) -> tuple[float, ...]:
    """ "1,4,16" as numbers. Raises InvalidRequestError."""
    try:
        return tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise InvalidRequestError(f"{option} takes numbers with commas between, got {text[:40]!r}.") from None


def _write_loads(loads: Sequence[Load]) -> Iterator[str]:
    """One burstiness for all, that of the first rate: the command line has no more."""
    closed = [load for load in loads if isinstance(load, ClosedLoop)]
    opened = [load for load in loads if isinstance(load, OpenLoop)]
    ramps = [load.steps for load in loads if isinstance(load, Ramp)]
    if closed:
        yield from ("--concurrency", _levels(closed))
    if opened:
        yield from ("--rate", _levels(opened))
    for steps in ramps:
        yield from ("--ramp" if isinstance(steps[0], ClosedLoop) else "--ramp-rate", _levels(steps))
    rates = [step for steps in (opened, *ramps) for step in steps if isinstance(step, OpenLoop)]
    if any(rate.burstiness != 1 for rate in rates):
        yield from ("--burstiness", f"{rates[0].burstiness:g}")


def _levels(steps: Sequence[ClosedLoop | OpenLoop]) -> str:
    return ",".join(f"{step.concurrency if isinstance(step, ClosedLoop) else step.rate:g}" for step in steps)
