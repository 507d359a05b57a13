"""Words of `bench`: the question, and what becomes of the result; everything else is a setting of the app it starts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from myserve_ui.bench.question.command_line import add_question, read_question
from myserve_ui.bench.question.question import AskedTarget, BenchmarkQuestion
from myserve_ui.cli.parsing import make_parser
from myserve_ui.errors import InvalidRequestError

MOST_COMPARED = 2


@dataclass(frozen=True, slots=True)
class BenchArguments:
    """A benchmark that is asked for."""

    question: BenchmarkQuestion
    options: argparse.Namespace
    settings: tuple[str, ...]
    """Settings of the app that it starts; --data beside a --url, too."""

    @property
    def servers(self) -> tuple[AskedTarget, ...]:
        """Those that are asked by URL."""
        return tuple(asked for asked in self.question.targets if asked.url)

    @property
    def own(self) -> AskedTarget | None:
        """The models of the app that is started; None where every server has a URL."""
        return next((asked for asked in self.question.targets if not asked.url), None)


def read_bench_arguments(arguments: Sequence[str], parser: argparse.ArgumentParser | None = None) -> BenchArguments:
    """Raises InvalidRequestError for what cannot be understood; --help prints and exits.

    `parser` may know more than `bench_parser`; one that sets `starts_app` starts the app beside every --url.
    """
    options, rest = (parser or bench_parser()).parse_known_args(arguments)
    starts_app = options.starts_app or not options.url
    if rest and not starts_app:
        raise InvalidRequestError(f"{rest[0]} is no option of bench; settings are for the app that it starts itself.")
    if len(options.compare) > MOST_COMPARED:
        raise InvalidRequestError(f"--compare takes one or two runs, got {len(options.compare)}.", param="compare")
    rest += [] if options.data is None else ["--data", options.data]
    settings = (*rest, *(word for model in options.model if starts_app for word in ("--model", model)))
    return BenchArguments(read_question(options), options, settings)


def bench_parser(
    name: str = "bench", what: str = "How fast, for how many, and how far from the machine's limit; one JSON document."
) -> argparse.ArgumentParser:
    """The options of a benchmark; what else a command takes is added to it."""
    parser = make_parser(name, what)
    add_question(parser)
    group = parser.add_argument_group("result")
    group.add_argument("--json", metavar="FILE", help="also write the document to FILE")
    group.add_argument(
        "--data", metavar="DIR", help="folder of runs, as of the app; default: in the user's data folder"
    )
    group.add_argument("--save", action=argparse.BooleanOptionalAction, default=True, help="keep the run for the page")
    group.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="ID|FILE",
        help="one: the new run against it; two: these, without a run",
    )
    return parser
