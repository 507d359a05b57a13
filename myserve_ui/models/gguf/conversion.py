"""Turns a GGUF file into safetensors and a tokenizer, once, in the cache folder.

Numbers that the file stores as they are keep every digit, in 16 bits where these hold them, else in float32. What is
expanded from blocks of fewer bits is rounded to float16.
"""

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

from myserve_ui.core.machine import return_freed_memory
from myserve_ui.core.model_info import OnProgress
from myserve_ui.errors import ModelLoadError
from myserve_ui.kernels.stored_embedding import halve_exactly
from myserve_ui.models.cache_folder import (
    FOLDER,
    explain_cache_errors,
    only_one_process,
    replace_folder,
    unfinished_folder,
)
from myserve_ui.models.gguf.checksums import content_digest, is_whole, write_manifest
from myserve_ui.models.gguf.file import GgufFile, open_gguf
from myserve_ui.models.gguf.rope import restore_rope_factors
from myserve_ui.models.loading.errors import in_short, quiet_libraries
from myserve_ui.models.loading.placement import refuse_what_does_not_fit
from myserve_ui.models.loading.weight_files import named
from myserve_ui.models.loading.weight_numbers import is_finite

logger = logging.getLogger(__name__)

STAGE = "converting the GGUF file, once"
CHECKING = "checking the converted weights"
WRITING = "writing the converted weights"
HASHING = "taking the checksums of the converted weights"
TOKENIZER_READ, CONFIG_READ, TENSORS_BEGIN = 0.2, 0.35, 0.85
"""The usual shares of the time when these are done. Each part reads the file's lists of words anew, which is slow."""

FORM = "v2"
"""Of what is converted: a part of the folder's name, so that an older form is not taken for this one."""

UNREADABLE = (ValueError, KeyError, IndexError, TypeError, NotImplementedError, EOFError)
"""What transformers and gguf raise for a file that they do not understand."""

DRAFT_LAYERS = "num_nextn_predict_layers"


def convert_gguf(gguf: Path, *, cache: Path, on_progress: OnProgress) -> Path:
    """The folder with the converted `gguf`, made if it is missing or damaged; one process makes it, others wait.

    Raises ModelLoadError if the GGUF cannot be read or the cache cannot be written, and what transformers raises.
    """
    on_progress(CHECKING, None)
    target = cache / FOLDER / f"{gguf.stem}-{content_digest(gguf, cache=cache)[:12]}-{FORM}"
    if is_whole(target):
        return target
    with only_one_process(target, on_progress):
        if not is_whole(target):
            _make(gguf, target, on_progress)
            return_freed_memory()  # or the load that follows would begin with what the conversion has left
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
        file = open_gguf(gguf)
        refuse_what_does_not_fit(
            f"{gguf.stem} does not fit: converting its file, once,",
            file.room_to_read,
            "a smaller model, or a folder for --cache or MYSERVE_CACHE in which it was converted where there is more",
        )
        try:
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            on_progress(STAGE, TOKENIZER_READ)
            config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
            restore_rope_factors(file, config)
            on_progress(STAGE, CONFIG_READ)
            return tokenizer, _read_exactly(gguf, file, config)
        except UNREADABLE as error:
            raise ModelLoadError(
                f"{gguf.name}, of the architecture {file.architecture[:40]}, cannot be converted by the installed "
                f"transformers ({in_short(error)}): choose another file, or the same model in safetensors."
            ) from error


def _read_exactly(gguf: Path, file: GgufFile, config: PretrainedConfig) -> PreTrainedModel:
    """The module, with each weight in the narrowest dtype that its numbers allow."""
    dtype = file.narrowest_dtype
    model = _read_weights(gguf, file, config, dtype)
    if dtype is torch.float16 and not all(is_finite(parameter) for parameter in model.parameters()):
        dtype = torch.float32  # a block's numbers may be larger than float16 holds
        model = _read_weights(gguf, file, config, dtype)
    if dtype is torch.float32:
        _narrow(model, file)
    _refuse_what_is_no_number(model, gguf.name)
    return model


def _read_weights(gguf: Path, file: GgufFile, config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    model, report = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        config=config,
        quantization_config=GgufConfig(dequantize=True),
        dtype=dtype,
        ignore_mismatched_sizes=True,  # they are in the report then
        output_loading_info=True,
    )
    if missing := report["missing_keys"]:
        raise ModelLoadError(
            f"{gguf.name} is incomplete, without {len(missing)} tensors ({named(missing)}): download or convert it "
            "again."
        )
    if report["mismatched_keys"]:
        wrong = named(key for key, *_ in report["mismatched_keys"])
        raise ModelLoadError(
            f"{gguf.name} has tensors of other sizes than its head says ({wrong}): download or convert it again."
        )
    text = config.get_text_config()
    file.refuse_unread(text.num_hidden_layers, getattr(text, DRAFT_LAYERS, None) or 0)
    assert isinstance(model, PreTrainedModel)
    for owner, name in ((model, "hf_quantizer"), (model.config, "quantization_config")):
        if hasattr(owner, name):
            delattr(owner, name)  # else save_pretrained would save it as a GGUF that it no longer is
    return model


def _narrow(model: PreTrainedModel, file: GgufFile) -> None:
    """Halve every weight that loses nothing by it, and those that come from blocks where no number gets too large."""
    kept = file.plain_shapes if file.has_blocks else None
    for parameter in model.parameters():
        half = halve_exactly(parameter.data)
        if half is None and kept is not None and tuple(parameter.shape) not in kept:
            rounded = parameter.data.to(torch.float16)
            half = rounded if is_finite(rounded) else None
        if half is not None:
            parameter.data = half


def _refuse_what_is_no_number(model: PreTrainedModel, name: str) -> None:
    if broken := {key for key, parameter in model.named_parameters() if not is_finite(parameter)}:
        raise ModelLoadError(
            f"The weights of {name} hold values that are not numbers ({named(broken)}): download it again, or choose "
            "another file."
        )


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
