"""A file of models: which are served, and how each is loaded where it is not as the settings say of all."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from myserve_ui.errors import SettingsError
from myserve_ui.settings.words import expected, nearest

Precision = Literal["full", "nf4", "int8", "int4"]
Dtype = Literal["auto", "bf16", "fp16", "fp32"]
PRECISIONS: tuple[Precision, ...] = ("full", "nf4", "int8", "int4")
KEYS = ("model", "name", "precisions", "dtype", "context", "template")
"""Of a table."""
HEADER = "[[model]]"


class ModelTable(BaseModel):
    """One model that is served; what is None is as the settings say."""

    model_config = ConfigDict(frozen=True, strict=True, hide_input_in_errors=True)

    model: str = Field(min_length=1)
    """As in --model."""
    name: str | None = Field(default=None, pattern=r"^[^\s,]{1,80}$", examples=["tiny", "team/chat"])
    """What clients call it; None: what it is called by itself."""
    precisions: tuple[Precision, ...] = Field(default=PRECISIONS, min_length=1, strict=False)
    """Which are offered; strict would want a tuple, and TOML has lists."""
    dtype: Dtype | None = None
    context: int | None = Field(default=None, ge=16)
    template: str | None = Field(default=None, min_length=1)
    """Jinja text, or the path of a file with one."""
    origin: str = "--model"
    """Where it was written, to begin a sentence with; no key of a file."""


@dataclass(frozen=True, slots=True)
class ModelTables:
    """The tables of a file, one at least."""

    tables: tuple[ModelTable, ...]


def read_model_tables(path: Path) -> ModelTables:
    """The file's tables; paths in them that begin with a dot, and templates, are seen from its folder.

    Raises SettingsError, a sentence that names the file, the table's number, and the key with the nearest valid one.
    """
    document = _read_document(path)
    tables = document.pop("model", [])
    if document:
        raise SettingsError(f"{path}: {next(iter(document))} belongs to no model; each is a table below {HEADER}.")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: model is no list of tables; each model is a table below {HEADER}.")
    if not tables:
        raise SettingsError(f"{path} has no model; each is a table below {HEADER}.")
    origins = [f"{path}, table {number}" for number in range(1, len(tables) + 1)]
    return ModelTables(
        tuple(_read_table(table, origin, path.parent) for table, origin in zip(tables, origins, strict=True))
    )


def _read_document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is no TOML: {error}.") from None


def _read_table(table: Mapping[str, Any], origin: str, folder: Path) -> ModelTable:
    for key in table:
        if key not in KEYS:
            match = nearest(key, KEYS)
            hint = f"the nearest is {match}" if match else f"there are {', '.join(KEYS)}"
            raise SettingsError(f"{origin}: {key} is not a key; {hint}.")
    if "model" not in table:
        raise SettingsError(f"{origin}: model is missing: a hub id, a folder, a .gguf file or the default's name.")
    try:
        read = ModelTable(**table, origin=origin)
    except ValidationError as error:
        key = str(error.errors(include_input=False)[0]["loc"][0])
        wanted = expected(ModelTable.model_fields[key])
        raise SettingsError(f"{origin}: {key} is {str(table[key])[:60]!r}, but must be {wanted}.") from None
    _check_name(read)
    return read.model_copy(
        update={
            "model": str(folder / read.model) if read.model.startswith(".") else read.model,
            "precisions": tuple(dict.fromkeys(read.precisions)),
            "template": _find_template(read, folder),
        }
    )


def _check_name(table: ModelTable) -> None:
    """`tiny:nf4` is the model tiny in nf4, and `nf4` alone the default model."""
    ending = (table.name or "").rpartition(":")[2].lower()
    if ending in PRECISIONS:
        raise SettingsError(
            f"{table.origin}: name is {table.name!r}, which reads like the precision {ending} of a model; "
            "choose one that does not end so."
        )


def _find_template(table: ModelTable, folder: Path) -> str | None:
    """A text as it is, a file as a path that does not depend on where the app was started."""
    text = table.template
    if text is None or "{{" in text or "{%" in text:
        return text
    path = folder / Path(text).expanduser()
    if not path.is_file():
        raise SettingsError(
            f"{table.origin}: template is {text[:60]!r}, but must be a Jinja text, or a file as seen from the folder "
            "of this one."
        )
    return str(path.resolve())
