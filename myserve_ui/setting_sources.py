"""Where settings are written, and what looks like one and is none: environment variables and command-line options."""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from pydantic.fields import FieldInfo

from myserve_ui import __version__
from myserve_ui.errors import SettingsError
from myserve_ui.setting_words import ENV_PREFIX, default_text, hint, metavar, option_name, program, variable_name

Fields = Mapping[str, FieldInfo]


class Given(NamedTuple):
    """One setting as a user gave it."""

    origin: str
    """What the user wrote it as: MYSERVE_PORT, HF_TOKEN or --port."""
    value: str | bool


def read_variables(fields: Fields, environment: Mapping[str, str], *, others: Mapping[str, str]) -> dict[str, Given]:
    """What `environment` says, under the app's own names or, if those are not set, under those of `others`."""
    services = service_variables(environment)
    given: dict[str, Given] = {}
    for variable, name in ({variable_name(name): name for name in fields} | dict(others)).items():
        if variable not in services and (value := environment.get(variable, "").strip()):
            given.setdefault(name, Given(variable, value))
    return given


def unknown_variables(fields: Fields, environment: Mapping[str, str]) -> list[str]:
    """A complaint about each variable that is named like a setting and is none."""
    valid = [variable_name(name) for name in fields]
    known = service_variables(environment).union(valid)
    unknown = [key for key in environment if key.upper().startswith(ENV_PREFIX) and key not in known]
    return [f"{key} is not a setting; {hint(key, valid)}." for key in sorted(unknown)]


def service_variables(environment: Mapping[str, str]) -> set[str]:
    """Variables by which Kubernetes tells every container of a service that is named like this app.

    Of a service "myserve": MYSERVE_SERVICE_HOST, MYSERVE_PORT=tcp://10.0.0.1:80, MYSERVE_PORT_80_TCP_ADDR and such.
    """
    return {key for key, value in environment.items() if key.startswith(ENV_PREFIX) and _is_of_a_service(key, value)}


def _is_of_a_service(key: str, value: str) -> bool:
    return any(re.fullmatch(form, key) is not None and fits(value) for form, fits in _SERVICE_FORMS)


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _is_number(value: str) -> bool:
    return re.fullmatch(r"[0-9]{1,5}", value) is not None


def _is_protocol(value: str) -> bool:
    return value in ("tcp", "udp", "sctp")


def _is_endpoint(value: str) -> bool:
    return re.fullmatch(r"(tcp|udp|sctp)://(\[[0-9a-fA-F:.]+\]|[0-9a-fA-F:.]+):[0-9]{1,5}", value) is not None


_SERVICE = r"MYSERVE(_[A-Z0-9_]+)?"
_NUMBERED = rf"{_SERVICE}_PORT_[0-9]+_(TCP|UDP|SCTP)"
_SERVICE_FORMS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    (rf"{_SERVICE}_SERVICE_HOST", _is_address),
    (rf"{_SERVICE}_SERVICE_PORT(_[A-Z0-9_]+)?", _is_number),
    (rf"{_SERVICE}_PORT", _is_endpoint),
    (_NUMBERED, _is_endpoint),
    (rf"{_NUMBERED}_PROTO", _is_protocol),
    (rf"{_NUMBERED}_PORT", _is_number),
    (rf"{_NUMBERED}_ADDR", _is_address),
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message[0].upper()}{message[1:]}.")


def read_options(fields: Fields, arguments: Sequence[str]) -> tuple[dict[str, Given], list[str]]:
    """Options by setting name, and the complaints about what is no option. `--help` and `--version` print and exit."""
    parsed, rest = _make_parser(fields).parse_known_args(arguments)
    given = {name: Given(option_name(name), value) for name, value in vars(parsed).items() if value != ""}
    empty = [option_name(name) for name in vars(parsed) if name not in given]
    unknown = [word.partition("=")[0] for word in rest if word.startswith("-")]
    valid = [option_name(name) for name in fields]
    problems = [f"{option} is empty; leave it out for the default." for option in empty]
    problems += [f"{option} is not an option; {hint(option, valid)}." for option in unknown]
    if rest and not unknown:
        problems.append(f"{rest[0]!r} stands alone; a setting is given as --name value, and --help lists them.")
    return given, problems


def _make_parser(fields: Fields) -> argparse.ArgumentParser:
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
    for name, field in fields.items():
        _add_option(parser, name, field)
    return parser


def _add_option(parser: argparse.ArgumentParser, name: str, field: FieldInfo) -> None:
    default = f"; default: {default_text(field)}" if default_text(field) else ""
    text = f"{field.description}{default} [{variable_name(name)}]".replace("%", "%%")
    if field.annotation is bool:
        parser.add_argument(option_name(name), action=argparse.BooleanOptionalAction, help=text)
    else:
        parser.add_argument(option_name(name), dest=name, metavar=metavar(field), help=text)
