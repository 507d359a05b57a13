"""Turns a GGUF file into 16-bit safetensors and a tokenizer, once, in the cache folder."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    modeling_gguf_pytorch_utils,
)

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.cache_folder import (
    FOLDER,
    explain_cache_errors,
    only_one_process,
    replace_folder,
    unfinished_folder,
)
from myserve_ui.models.manifest import fingerprint, is_whole, write_manifest
from myserve_ui.models.progress import OnProgress
from myserve_ui.models.quiet import quiet_libraries

logger = logging.getLogger(__name__)

STAGE = "converting the GGUF file, once"
CHECKING = "checking the converted weights"
WRITING = "writing the converted weights"
HASHING = "taking the checksums of the converted weights"
TOKENIZER_READ, CONFIG_READ, TENSORS_BEGIN = 0.2, 0.35, 0.85
"""The usual shares of the time when these are done. Each part reads the file's lists of words anew, which is slow."""

UNREADABLE = (ValueError, KeyError, IndexError, TypeError, NotImplementedError, EOFError)
"""What transformers and gguf raise for a file that they do not understand."""


def convert_gguf(gguf: Path, *, cache: Path, on_progress: OnProgress) -> Path:
    """The folder with the converted `gguf`, made if it is missing or damaged; one process makes it, others wait.

    Raises ModelLoadError if the GGUF cannot be read or the cache cannot be written, and what transformers raises.
    """
    target = cache / FOLDER / f"{gguf.stem}-{fingerprint(gguf)}"
    on_progress(CHECKING, None)
    if is_whole(target):
        return target
    with only_one_process(target, on_progress):
        if not is_whole(target):
            _make(gguf, target, on_progress)
    return target


def _make(gguf: Path, target: Path, on_progress: OnProgress) -> None:
    if target.exists():
        logger.warning("the converted copy of %s is damaged; converting again", gguf.name)
    with quiet_libraries(), unfinished_folder(target) as folder:
        tokenizer, model = _read(gguf, on_progress)
        with explain_cache_errors():
            on_progress(WRITING, None)
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            on_progress(HASHING, None)
            write_manifest(folder)
            replace_folder(folder, target)


def _read(gguf: Path, on_progress: OnProgress) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    on_progress(STAGE, 0.0)
    with _no_garbage_collection(), _reporting_tensors(on_progress):
        try:
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            on_progress(STAGE, TOKENIZER_READ)
            config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
            on_progress(STAGE, CONFIG_READ)
            return tokenizer, _read_weights(gguf, config)
        except UNREADABLE as error:
            raise ModelLoadError(
                f"{gguf.name} cannot be read: it is damaged, or of an architecture that transformers does not convert."
            ) from error


def _read_weights(gguf: Path, config: PretrainedConfig) -> PreTrainedModel:
    model, report = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        config=config,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float16,
        output_loading_info=True,
    )
    if report["missing_keys"]:
        raise ModelLoadError(f"{gguf.name} is incomplete ({len(report['missing_keys'])} tensors are missing).")
    assert isinstance(model, PreTrainedModel)
    for owner, name in ((model, "hf_quantizer"), (model.config, "quantization_config")):
        if hasattr(owner, name):
            delattr(owner, name)  # else save_pretrained would save it as a GGUF that it no longer is
    return model


@contextmanager
def _reporting_tensors(on_progress: OnProgress) -> Iterator[None]:
    """transformers draws a bar over the tensors that its switch for bars does not reach: report in its place."""

    def report(tensors: Iterable[Any], **_words: object) -> Iterator[Any]:
        tensors = list(tensors)
        for done, tensor in enumerate(tensors):
            on_progress(STAGE, TENSORS_BEGIN + (1.0 - TENSORS_BEGIN) * done / len(tensors))
            yield tensor

    bar = modeling_gguf_pytorch_utils.tqdm
    modeling_gguf_pytorch_utils.tqdm = report
    try:
        yield
    finally:
        modeling_gguf_pytorch_utils.tqdm = bar


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Reading a GGUF makes millions of small objects that live to the end; walking them doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
