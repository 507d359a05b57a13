"""Reads the tokenizer of a model's folder, or says why there is none to be read, and what to do."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.loading.errors import explain_file_errors, quiet_libraries
from myserve_ui.models.loading.json_files import read_json_object
from myserve_ui.models.tokenizers.tokenizer import HuggingFaceTokenizer

FAST, SETTINGS = "tokenizer.json", "tokenizer_config.json"
PIECES = ("tokenizer.model", "sentencepiece.bpe.model", "spiece.model", "tokenizer.tiktoken", "vocab.json", "vocab.txt")
"""Forms from which transformers makes a tokenizer.json as it loads."""

CODE_WANTED = "contains custom code"
CONVERTERS = ("sentencepiece", "tiktoken")
SAVE_IT = f"or copy the {FAST} of the model that it was made from into its folder"


@dataclass(frozen=True, slots=True)
class TokenizerCache:
    """The tokenizer read last, which precisions of one model share: tens of megabytes are in one. It is only read."""

    _read: Callable[..., PreTrainedTokenizerBase] = field(default_factory=lambda: functools.lru_cache(1)(_read))
    serve: Callable[[PreTrainedTokenizerBase, int], HuggingFaceTokenizer] = field(
        default_factory=lambda: functools.lru_cache(1)(HuggingFaceTokenizer)
    )
    """What is served of a tokenizer for a model with so many output rows. Raises ModelLoadError."""

    def read(
        self, folder: Path, name: str, *, template: str | None, trust_remote_code: bool
    ) -> PreTrainedTokenizerBase:
        """The tokenizer of the files in `folder` as they are now, its pad token filled from eos.

        Raises ModelLoadError that says why there is none.
        """
        _check_files(folder, name)
        files = sorted(path for path in folder.iterdir() if path.is_file())
        stamps = tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
        with _explain_errors(folder, name):
            return self._read(folder, stamps, template, trust_remote_code)


def _read(folder: Path, _stamps: object, template: str | None, trust_remote_code: bool) -> PreTrainedTokenizerBase:
    with quiet_libraries():
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=trust_remote_code, local_files_only=True
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if template is not None:
        tokenizer.chat_template = template
    return tokenizer


def _check_files(folder: Path, name: str) -> None:
    """Raise ModelLoadError for a folder without a tokenizer, or with damaged settings of it."""
    settings = read_json_object(folder / SETTINGS, name) if (folder / SETTINGS).exists() else {}
    if not isinstance(settings.get("chat_template"), str | list | dict | None):
        raise ModelLoadError(
            f"The {SETTINGS} of {name} has a chat_template that is no text: correct it, or give one "
            "with --chat-template."
        )
    if not any((folder / each).exists() for each in (FAST, *PIECES)):
        raise ModelLoadError(f"{name} has no tokenizer ({FAST}): download or copy the whole model, {SAVE_IT}.")


@contextmanager
def _explain_errors(folder: Path, name: str) -> Iterator[None]:
    """Raise ModelLoadError for what transformers says of a tokenizer that it cannot read."""
    try:
        with explain_file_errors(f"The tokenizer of {name}"):
            yield
    except (ModelLoadError, ImportError) as error:
        if CODE_WANTED in str(error.__cause__):
            raise ModelLoadError(
                f"The tokenizer of {name} needs code that comes with the model: read that code, then set "
                f"TRUST_REMOTE_CODE=1 to run it, {SAVE_IT}."
            ) from error
        if (folder / FAST).exists():
            _check_fast_file(read_json_object(folder / FAST, name), name)  # where the damage is, if it is there
        missing = [each for each in CONVERTERS if importlib.util.find_spec(each) is None]
        stored = next((each for each in PIECES if (folder / each).exists()), None)
        if (folder / FAST).exists() or stored is None or not missing:
            raise
        raise ModelLoadError(
            f"The tokenizer of {name} is stored as {stored}, which is read with packages that are not installed: run "
            f"`pip install {' '.join(missing)}`, {SAVE_IT}."
        ) from error


def _check_fast_file(stored: Mapping[str, object], name: str) -> None:
    if lacking := [key for key in ("model", "added_tokens") if key not in stored]:
        raise ModelLoadError(
            f"The {FAST} of {name} is not a whole one (it lacks {' and '.join(lacking)}): download or copy it again."
        )
