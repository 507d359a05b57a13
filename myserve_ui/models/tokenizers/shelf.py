"""Tokenizers of the models that are loaded: precisions of one model share theirs, as tens of megabytes are in one."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from weakref import WeakValueDictionary

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from myserve_ui.models.loading.quiet import quiet_libraries
from myserve_ui.models.tokenizers.tokenizer import HuggingFaceTokenizer


class TokenizerShelf:
    """What is here is only read, and goes with the last model that uses it."""

    def __init__(self) -> None:
        self._read: WeakValueDictionary[Hashable, PreTrainedTokenizerBase] = WeakValueDictionary()
        self._served: WeakValueDictionary[Hashable, HuggingFaceTokenizer] = WeakValueDictionary()

    def read(self, folder: Path, *, template: str | None, trust_remote_code: bool) -> PreTrainedTokenizerBase:
        """The tokenizer of the files in `folder` as they are now, its pad token filled from eos."""
        files = sorted(path for path in folder.iterdir() if path.is_file())
        stamps = tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
        key = (folder, stamps, template, trust_remote_code)
        if (tokenizer := self._read.get(key)) is None:
            tokenizer = self._read[key] = _read(folder, template, trust_remote_code)
        return tokenizer

    def serve(self, tokenizer: PreTrainedTokenizerBase, *, vocab_size: int) -> HuggingFaceTokenizer:
        """The same for a model with so many output rows. Raises ModelLoadError."""
        key = (id(tokenizer), vocab_size)  # whoever is served holds it, so its id is not another's
        if (served := self._served.get(key)) is None:
            served = self._served[key] = HuggingFaceTokenizer(tokenizer, vocab_size=vocab_size)
        return served


def _read(folder: Path, template: str | None, trust_remote_code: bool) -> PreTrainedTokenizerBase:
    with quiet_libraries():
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=trust_remote_code, local_files_only=True
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if template is not None:
        tokenizer.chat_template = template
    return tokenizer
