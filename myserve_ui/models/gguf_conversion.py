"""Turns a GGUF file into 16-bit safetensors and a tokenizer, once, in the cache folder."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedModel

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.manifest import fingerprint, is_whole, write_manifest
from myserve_ui.models.progress import OnProgress
from myserve_ui.models.quiet import quiet_libraries

logger = logging.getLogger(__name__)

STAGE = "converting the GGUF file, once"
CHECKING = "checking the converted weights"
UNFINISHED = ".unfinished-"
UNREADABLE = (ValueError, KeyError, IndexError, TypeError, NotImplementedError, EOFError)
"""What transformers and gguf raise for a file that they do not understand."""

ABANDONED_AFTER_SECONDS = 3600.0


def convert_gguf(gguf: Path, *, cache: Path, on_progress: OnProgress) -> Path:
    """The folder with the converted `gguf`, made if it is missing or damaged.

    Each process converts into a folder of its own and renames it at the end, so that nobody sees a half-written copy
    and two processes at once do not meet. Raises OSError (no space, no permission) and what transformers raises.
    """
    target = cache / "models" / f"{gguf.stem}-{fingerprint(gguf)}"
    on_progress(CHECKING, None)
    if is_whole(target):
        return target
    if target.exists():
        logger.warning("the converted copy of %s is damaged; converting again", gguf.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target.parent)
    with _unfinished_folder(target.parent) as folder:
        _convert(gguf, folder, on_progress)
        write_manifest(folder)
        _put_in_place(folder, target)
    on_progress(STAGE, 1.0)
    return target


def _convert(gguf: Path, folder: Path, on_progress: OnProgress) -> None:
    """Write tokenizer, configuration and weights. The fractions are the parts' usual shares of the time."""
    with quiet_libraries(), _no_garbage_collection():
        on_progress(STAGE, 0.0)
        try:
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            on_progress(STAGE, 0.2)
            model = _read_weights(gguf)
        except UNREADABLE as error:
            raise ModelLoadError(
                f"{gguf.name} cannot be read: it is damaged, or of an architecture that transformers does not convert."
            ) from error
        on_progress(STAGE, 0.85)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _read_weights(gguf: Path) -> PreTrainedModel:
    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
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


def _put_in_place(folder: Path, target: Path) -> None:
    """Rename `folder` to `target`; where another process was quicker, its whole copy stays."""
    if target.exists() and not is_whole(target):
        target.rename(folder.with_name(f"{folder.name}-damaged"))
        shutil.rmtree(folder.with_name(f"{folder.name}-damaged"), ignore_errors=True)
    try:
        folder.rename(target)
    except OSError:
        if not is_whole(target):
            raise


@contextmanager
def _unfinished_folder(parent: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Clear what a killed process left half-written."""
    for folder in parent.glob(f"{UNFINISHED}*"):
        if time.time() - folder.stat().st_mtime > ABANDONED_AFTER_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


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
