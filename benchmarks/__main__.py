"""`python -m benchmarks COMMAND`: how fast the engine is on this machine, and beside whom."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from myserve_ui.cli.commands import run_command
from myserve_ui.cli.output import check_json_file, deliver
from myserve_ui.errors import InvalidRequestError
from myserve_ui.settings import read_settings
from myserve_ui.settings.environment import prepare_environment

USAGE = (
    "python -m benchmarks COMMAND\n"
    "  goals   what should be reached on a CPU, and what was, beside the rivals\n"
    "  rivals  the app beside plain generate and other servers, in rounds\n"
    "  rival   serves a baseline for rivals\n"
    "  gpu     is the CUDA path right, and how fast?\n"
    "Each but rival lists its options with --help."
)


def main(arguments: Sequence[str]) -> int:
    """Run a command; see run_command."""
    return run_command(_run, arguments)


def _run(name: str, arguments: list[str]) -> int:
    if name in ("--help", "-h"):
        print(USAGE)
    elif name == "goals":
        _goals(arguments)
    elif name == "rivals":
        _rivals(arguments)
    elif name == "rival":
        _rival(arguments)
    elif name == "gpu":
        prepare_environment()
        from benchmarks.gpu_check import main as check_gpu  # late: it brings torch

        return check_gpu(arguments)
    else:
        raise InvalidRequestError(f"There is no command {name[:40]!r}; choose goals, rivals, rival or gpu.")
    return 0


def _goals(arguments: list[str]) -> None:
    prepare_environment()
    from benchmarks.goals_command import check_goals, read_goals_arguments  # late: it brings torch
    from myserve_ui.cli.terminal import make_console, run_until_stopped

    options, asked, settings = read_goals_arguments(arguments)
    check_json_file(options.json)
    document = run_until_stopped(check_goals(options, asked, settings, make_console()))
    deliver(document, options.json)


def _rivals(arguments: list[str]) -> None:
    prepare_environment()
    from benchmarks.rivals.command import read_rivals_arguments, run_rivals, scenarios_of  # late: it brings torch
    from myserve_ui.cli.terminal import make_console, run_until_stopped

    asked = read_rivals_arguments(arguments)
    check_json_file(asked.options.json)
    settings, scenarios = read_settings(asked.settings), scenarios_of(asked)
    document = run_until_stopped(run_rivals(asked, settings, make_console(), scenarios=scenarios))
    deliver(document, asked.options.json)


def _rival(arguments: list[str]) -> None:
    kind, *rest = arguments or ("",)
    prepare_environment()
    settings = read_settings(rest)
    from benchmarks.rivals.app import serve_rival  # late: it brings torch

    serve_rival(kind, settings, lambda line: print(line, flush=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
