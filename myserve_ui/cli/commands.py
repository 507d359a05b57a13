"""The commands by name, and how each ends: with an exit code, and errors as sentences on standard error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from myserve_ui import __version__
from myserve_ui.cli.output import check_json_file, deliver, tell, write_output
from myserve_ui.cli.parsing import make_parser
from myserve_ui.cli.report_arguments import (
    ReportArguments,
    read_fidelity_arguments,
    read_perplexity_arguments,
    read_text,
)
from myserve_ui.cli.serve_command import serve
from myserve_ui.errors import InvalidRequestError, MyServeError, SettingsError
from myserve_ui.paths import asset
from myserve_ui.server.process import discard_output
from myserve_ui.settings import read_settings
from myserve_ui.settings.environment import prepare_environment
from myserve_ui.settings.words import program

FAILED, MISUSED, STOPPED = 1, 2, 130


def main(arguments: Sequence[str]) -> int:
    """Run a command; see run_command."""
    return run_command(_run, arguments)


def run_command(run: Callable[[str, list[str]], int], arguments: Sequence[str]) -> int:
    """The exit code of `run` with a command and its arguments: 0 done, 1 failed, 2 not understood, 130 stopped.

    Errors are sentences on standard error.
    """
    name, *rest = arguments or ("",)
    try:
        exit_code = run(name, rest)
        write_output()
        return exit_code
    except (InvalidRequestError, SettingsError) as error:
        tell(error.message)
        return MISUSED
    except MyServeError as error:
        tell(error.message)
        return FAILED
    except BrokenPipeError:  # a reader who has left, as `head` does, is no error to speak of
        discard_output()
        return FAILED
    except KeyboardInterrupt:
        tell("stopped")
        return STOPPED


def _fidelity(arguments: list[str]) -> None:
    _report(read_fidelity_arguments(arguments), "fidelity")


def _perplexity(arguments: list[str]) -> None:
    _report(read_perplexity_arguments(arguments), "perplexity")


def _report(asked: ReportArguments, command: str) -> None:
    check_json_file(asked.json)
    prepare_environment()
    settings = read_settings(asked.settings, command=command)
    if command == "perplexity" and len(settings.served) > 1:
        raise SettingsError("perplexity is of one model: give one --model, or a file for --models with one table.")
    text = read_text(asked.text, asset("held_out.txt"))
    # Imported late: transformers takes seconds, and --help or a mistyped option should not wait for it.
    from myserve_ui.cli.report_command import make_report
    from myserve_ui.cli.terminal import run_until_stopped
    from myserve_ui.evaluation.comparisons import Comparisons
    from myserve_ui.server.service_builder import build_services

    services = build_services(settings)
    if command == "perplexity":
        deliver(run_until_stopped(make_report(services, Comparisons.perplexity, asked, text, tell)), asked.json)
    else:
        deliver(run_until_stopped(make_report(services, Comparisons.report, asked, text, tell)), asked.json)


def _bench(arguments: list[str]) -> None:
    from myserve_ui.cli.bench_arguments import read_bench_arguments

    asked = read_bench_arguments(arguments)
    check_json_file(asked.options.json)
    settings = read_settings(asked.settings, command="bench")
    prepare_environment()
    from myserve_ui.cli.bench_command import run_bench
    from myserve_ui.cli.terminal import make_console

    run_bench(asked, settings, make_console(), lambda found: deliver(found, asked.options.json))


def _roofline(arguments: list[str]) -> None:
    from myserve_ui.cli.roofline_command import calculate, measure, read_roofline_arguments, show
    from myserve_ui.cli.terminal import make_console

    options, rest = read_roofline_arguments(arguments)
    check_json_file(options.json)
    console = make_console()
    if options.calculate:
        document = calculate(options, rest)
    else:
        prepare_environment()
        settings = read_settings(rest, command="roofline")
        from myserve_ui.server.service_builder import build_services

        services = build_services(settings)
        document = measure(services.benchmarks, services.chat, console)
    show(document, console)
    deliver(document, options.json)


def _selftest(arguments: list[str]) -> int:
    _none, settings = make_parser("selftest", SELFTEST).parse_known_args(arguments)
    prepare_environment()
    from myserve_ui.selftest import main as selftest  # late: it brings torch

    return selftest(settings)


SELFTEST = "does the engine say what plain generate says?"
COMMANDS: dict[str, tuple[Callable[[list[str]], int | None], str]] = {
    "serve": (serve, "the chat page, the OpenAI route and the Gradio endpoints, on one port"),
    "bench": (_bench, "how fast, for how many, how far from the machine's limit"),
    "fidelity": (_fidelity, "what a cheaper precision costs on a text"),
    "perplexity": (_perplexity, "perplexity of one model on a text"),
    "roofline": (_roofline, "what a decode step takes at least, here or on any device"),
    "selftest": (_selftest, SELFTEST),
}


def _run(name: str, arguments: list[str]) -> int:
    if name in ("", "--help", "-h"):
        write_output(f"{_usage()}\n")
        return 0
    if name == "--version":
        write_output(f"myserve-ui {__version__}\n")
        return 0
    if name not in COMMANDS:
        *others, last = COMMANDS
        raise InvalidRequestError(f"There is no command {name[:40]!r}; choose {', '.join(others)} or {last}.")
    command, _summary = COMMANDS[name]
    return command(arguments) or 0


def _usage() -> str:
    lines = [f"  {name:10}  {summary}" for name, (_command, summary) in COMMANDS.items()]
    return "\n".join([program("COMMAND"), *lines, "Each lists its options with --help."])
