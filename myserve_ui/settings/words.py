"""How a setting is written for people: its variable, its option, its default, and what its value must be."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

ENV_PREFIX = "MYSERVE_"


def program(command: str = "serve") -> str:
    """How `command` is started, as one would type it: by the installed command, as a module, or from a checkout."""
    started = Path(sys.argv[0])
    if started.stem == "myserve-ui":
        return f"myserve-ui {command}"
    if started.parent.name == "benchmarks":
        return f"python -m benchmarks {command}"
    return "python app.py" if command == "serve" else f"python -m myserve_ui {command}"


def variable_name(name: str) -> str:
    """The environment variable of a setting: MYSERVE_MAX_NUM_SEQS."""
    return ENV_PREFIX + name.upper()


def option_name(name: str) -> str:
    """The command-line option of a setting: --max-num-seqs."""
    return "--" + name.replace("_", "-")


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that looks most like `name`; None if none looks like it. What all begin with does not count."""
    by_bare_name = {_bare(each): each for each in valid}
    matches = difflib.get_close_matches(_bare(name), by_bare_name, n=1)
    return by_bare_name[matches[0]] if matches else None


def hint(name: str, valid: Iterable[str], command: str = "serve") -> str:
    """What to tell somebody who wrote `name` after `command`, to end a sentence with."""
    match = nearest(name, valid)
    return f"the nearest is {match}" if match else f"`{program(command)} --help` lists them"


def default_text(field: FieldInfo) -> str:
    """The default as a user would write it; empty if there is none, or if the description has to tell it."""
    default = field.default
    if field.default_factory is not None or default in (None, ()):
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(default)
    return f"{default:g}" if isinstance(default, float) else str(default)


def metavar(field: FieldInfo) -> str:
    """What stands for the value in the list of options."""
    annotation = _without_none(field.annotation)
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    if get_origin(annotation) is tuple:
        return "A,B"
    if is_dataclass(annotation):  # read from a file
        return "FILE"
    return {int: "N", float: "X", Path: "FOLDER"}.get(annotation, "TEXT")


def expected(field: FieldInfo) -> str:
    """What a value must be, to end a sentence with: "a whole number from 0 to 65535"."""
    annotation = _without_none(field.annotation)
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(get_args(annotation))}"
    if annotation is bool:
        return "true or false"
    if annotation in (int, float):
        kind = "a whole number" if annotation is int else "a number"
        return f"{kind}{_range(field)}"
    if field.examples:
        return f"like {', '.join(field.examples[:-1])} or {field.examples[-1]}"
    if get_origin(annotation) is not tuple:
        return "a text that is not empty"
    item = get_args(annotation)[0]
    if get_origin(item) is Literal:
        return f"a list of {', '.join(get_args(item))}"
    return "one or more values, comma separated"


def is_list(field: FieldInfo) -> bool:
    """True for several values with commas between; the option may be repeated instead."""
    return get_origin(_without_none(field.annotation)) is tuple


def is_secret(field: FieldInfo) -> bool:
    """True if the value must never be shown."""
    annotation = _without_none(field.annotation)
    return SecretStr in (annotation, *get_args(annotation))


def _bare(name: str) -> str:
    """`port` of MYSERVE_PORT and of --port."""
    return name.upper().removeprefix(ENV_PREFIX).strip("-").replace("_", "-").lower()


def _range(field: FieldInfo) -> str:
    above = next((bound.gt for bound in field.metadata if isinstance(bound, Gt)), None)
    low = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
    high = next((bound.le for bound in field.metadata if isinstance(bound, Le)), None)
    if low is not None and high is not None:
        return f" from {low} to {high}"
    parts = [f"above {above}"] if above is not None else [f"of at least {low}"] if low is not None else []
    parts += [f"at most {high}"] if high is not None else []
    return f" {' and '.join(parts)}" if parts else ""


def _without_none(annotation: Any) -> Any:
    """`int` of `int | None`."""
    arguments = [argument for argument in get_args(annotation) if argument is not type(None)]
    return arguments[0] if len(arguments) == 1 and type(None) in get_args(annotation) else annotation
