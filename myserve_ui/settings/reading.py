"""Settings as people write them: environment variables and command-line options, read once."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from myserve_ui import __version__
from myserve_ui.errors import SettingsError
from myserve_ui.settings.fields import Settings
from myserve_ui.settings.kubernetes import service_variables
from myserve_ui.settings.words import (
    ENV_PREFIX,
    default_text,
    expected,
    hint,
    is_list,
    is_secret,
    metavar,
    option_name,
    program,
    variable_name,
)

PLAIN_ENVIRONMENT = {"TRUST_REMOTE_CODE": "trust_remote_code", "HF_TOKEN": "hf_token", "HUGGINGFACE_TOKEN": "hf_token"}
"""Names that people already export for other tools; they fill a setting that is not set otherwise, first come first."""


class Given(NamedTuple):
    """One setting as a user gave it."""

    origin: str
    """What the user wrote it as: MYSERVE_PORT, HF_TOKEN or --port."""
    value: str | bool


def read_settings(
    arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None, *, command: str = "serve"
) -> Settings:
    """Settings of `command` from `environment` (default: the process's) and command-line `arguments`, which win.

    An empty environment variable counts as unset. Raises SettingsError with one line for each problem: an unknown name
    beside the nearest valid one, a bad value beside what it must be. `--help` and `--version` print and exit with 0.
    """
    environment = os.environ if environment is None else environment
    options, problems = _read_options(arguments, command)
    given = _read_variables(environment) | options
    problems = _unknown_variables(environment) + problems
    try:
        settings = Settings.model_validate({name: entry.value for name, entry in given.items()})
    except ValidationError as error:
        names = dict.fromkeys(str(detail["loc"][0]) for detail in error.errors(include_input=False))
        problems += [_complaint(name, given[name]) for name in names]
    except SettingsError as error:  # of the file of models
        problems.append(error.message)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _read_variables(environment: Mapping[str, str]) -> dict[str, Given]:
    """What `environment` says, under the app's own names or, if those are not set, under plain ones."""
    services = service_variables(environment)
    given: dict[str, Given] = {}
    for variable, name in ({variable_name(name): name for name in Settings.model_fields} | PLAIN_ENVIRONMENT).items():
        if variable not in services and (value := environment.get(variable, "").strip()):
            given.setdefault(name, Given(variable, value))
    return given


def _unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A complaint about each variable that is named like a setting and is none."""
    valid = [variable_name(name) for name in Settings.model_fields]
    known = service_variables(environment).union(valid)
    unknown = [key for key in environment if key.upper().startswith(ENV_PREFIX) and key not in known]
    return [f"{key} is not a setting; {hint(key, valid)}." for key in sorted(unknown)]


def _read_options(arguments: Sequence[str], command: str) -> tuple[dict[str, Given], list[str]]:
    """Options by setting name, and the complaints about what is no option. `--help` and `--version` print and exit."""
    parsed, rest = _make_parser().parse_known_args(arguments)
    written = {name: ",".join(value) if isinstance(value, list) else value for name, value in vars(parsed).items()}
    given = {name: Given(option_name(name), value) for name, value in written.items() if value != ""}
    empty = [option_name(name) for name in written if name not in given]
    unknown = [word.partition("=")[0] for word in rest if word.startswith("-")]
    valid = [option_name(name) for name in Settings.model_fields]
    problems = [f"{option} is empty; leave it out for the default." for option in empty]
    problems += [f"{option} is not an option; {hint(option, valid, command)}." for option in unknown]
    if rest and not unknown:
        problems.append(f"{rest[0]!r} stands alone; a setting is given as --name value, and --help lists them.")
    return given, problems


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message[0].upper()}{message[1:]}.")


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program(),
        usage="%(prog)s [--setting VALUE ...]",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32),
        description="Serve a causal language model: a chat page, an OpenAI route and Gradio endpoints on one port.",
        epilog="A setting can also come from the environment, by the name in brackets; the command line wins.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"myserve-ui {__version__}")
    for name, field in Settings.model_fields.items():
        _add_option(parser, name, field)
    return parser


def _add_option(parser: argparse.ArgumentParser, name: str, field: FieldInfo) -> None:
    default = f"; default: {default_text(field)}" if default_text(field) else ""
    text = f"{field.description}{default} [{variable_name(name)}]".replace("%", "%%")
    if field.annotation is bool:
        parser.add_argument(option_name(name), action=argparse.BooleanOptionalAction, help=text)
    else:
        action = "append" if is_list(field) else "store"
        parser.add_argument(option_name(name), dest=name, action=action, metavar=metavar(field), help=text)


def _complaint(name: str, given: Given) -> str:
    field = Settings.model_fields[name]
    shown = "" if is_secret(field) else f" is {str(given.value)[:60]!r}, but"
    return f"{given.origin}{shown} must be {expected(field)}."
