"""Words of `fidelity` and `perplexity`: of which models, on which text; everything else is a setting of the app."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from myserve_ui.cli.parsing import make_parser
from myserve_ui.errors import InvalidRequestError
from myserve_ui.evaluation.windows import DEFAULT_STRIDE, DEFAULT_WINDOW


@dataclass(frozen=True, slots=True)
class ReportArguments:
    """A report that is asked for."""

    text: str | None
    """Path of the text; None for the held-out text."""
    base: str
    candidate: str
    window: int | None
    stride: int | None
    json: str | None
    """Path that the document is written to, beside standard output."""
    settings: tuple[str, ...]


def read_fidelity_arguments(arguments: Sequence[str]) -> ReportArguments:
    """Raises InvalidRequestError for what cannot be understood; --help prints and exits."""
    parser = _report_parser("fidelity", "What a cheaper precision costs on a text, as one JSON document.")
    parser.add_argument("--base", default="", help="model or precision that is compared with; default: full")
    parser.add_argument("--candidate", default="", help="model or precision that is judged; default: nf4")
    return _read(parser, arguments)


def read_perplexity_arguments(arguments: Sequence[str]) -> ReportArguments:
    """The same for the app's own model; --model and --precision choose it."""
    parser = _report_parser("perplexity", "Perplexity of one model on a text, as one JSON document.")
    return _read(parser, arguments)


def _report_parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = make_parser(name, description)
    parser.add_argument("--text", metavar="FILE", help="UTF-8 text; default: the held-out text of this project")
    parser.add_argument("--window", type=int, help=f"tokens in a window ({DEFAULT_WINDOW}, or what fits)")
    parser.add_argument("--stride", type=int, help=f"new tokens in each window ({DEFAULT_STRIDE}, or half)")
    parser.add_argument("--json", metavar="FILE", help="also write the document to FILE")
    return parser


def _read(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> ReportArguments:
    known, rest = parser.parse_known_args(arguments)
    return ReportArguments(
        text=known.text,
        base=getattr(known, "base", ""),
        candidate=getattr(known, "candidate", ""),
        window=known.window,
        stride=known.stride,
        json=known.json,
        settings=tuple(rest),
    )


def read_text(path: str | None, default: Path) -> str:
    """The text of a file. Raises InvalidRequestError for one that cannot be read, or is not UTF-8."""
    source = Path(path) if path is not None else default
    try:
        return source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{source} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    except OSError as error:
        raise InvalidRequestError(f"{source} cannot be read: {error.strerror}.") from None
