"""Loads one entry of the catalog, or raises ModelLoadError with one sentence and the way out. Never a stand-in."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from myserve_ui.core.machine import return_freed_memory
from myserve_ui.core.memory_report import count_weight_traffic
from myserve_ui.core.model_info import LoadState, OnProgress, ignore_progress
from myserve_ui.errors import ModelLoadError, PrecisionUnavailableError
from myserve_ui.kernels.cpu_kernels import KernelMismatchError, install_cpu_kernels, pack_int4
from myserve_ui.models.catalog import CatalogEntry, ModelOptions, ModelSource, SourceKind, find_default_gguf
from myserve_ui.models.devices import resolve_device, resolve_dtype
from myserve_ui.models.facts import find_context_length, find_end_tokens, find_sampling_defaults
from myserve_ui.models.gguf.conversion import convert_gguf
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.checkpoint import Checkpoint, read_checkpoint
from myserve_ui.models.loading.errors import explain_load_errors, quiet_libraries
from myserve_ui.models.loading.hub import Hub, fetch_from_hub
from myserve_ui.models.loading.module_reading import read_module, refuse_other_precisions
from myserve_ui.models.loading.placement import check_room, choose_device_map
from myserve_ui.models.loading.verdicts import open_verdicts
from myserve_ui.models.loading.weight_numbers import check_numbers
from myserve_ui.models.memory import count_kv_bytes_per_token, measure_memory
from myserve_ui.models.quantization import (
    dtype_to_read,
    expanded_itemsize,
    note_of_kept,
    settle_4bit_layers,
)
from myserve_ui.models.tokenizers.chat_template import read_chat_template
from myserve_ui.models.tokenizers.files import TokenizerCache

READING = "reading the weights"
OWN_KERNELS = ("full", "int4")
"""Precisions whose layers are ours to choose; the others' belong to bitsandbytes."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What the settings say about loading, as plain values."""

    cache: Path
    dtype: str = "auto"
    device: str = "auto"
    hub: Hub = field(default_factory=Hub)
    trust_remote_code: bool = False
    chat_template: str | None = None
    max_model_len: int | None = None
    kernels: str = "auto"
    """"auto" for the quickest layers that this machine has, "plain" for the module's own."""
    tokenizers: TokenizerCache = field(default_factory=TokenizerCache, compare=False)
    """Shared by all that is loaded with these options."""

    def for_model(self, own: ModelOptions) -> LoadOptions:
        """These, but for what a model has of its own."""
        return replace(self, **{name: value for name, value in asdict(own).items() if value is not None})


def load_model(entry: CatalogEntry, *, options: LoadOptions, on_progress: OnProgress = ignore_progress) -> LoadedModel:
    """Load `entry`; blocks for seconds to minutes. Raises ModelLoadError, never returns anything but the real model."""
    if entry.unavailable_reason is not None:
        raise PrecisionUnavailableError(f"{entry.key} is {entry.unavailable_reason}.", param="model")
    name, options = entry.source.name, options.for_model(entry.options)
    with explain_load_errors(name):
        device = resolve_device(options.device)
        template = None if options.chat_template is None else read_chat_template(options.chat_template)
        folder = fetch_model(entry.source, options, on_progress)
        checkpoint = read_checkpoint(folder, name, trust_remote_code=options.trust_remote_code)
        refuse_other_precisions(checkpoint, entry)
        on_progress(READING, None)
        dtype = resolve_dtype(options.dtype, device=device, checkpoint=checkpoint.dtype)
        # Quiet around both threads: each would bring back what it found, which may be the other's quiet.
        with quiet_libraries(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenizer") as beside:
            reading = beside.submit(_read_tokenizer, name, checkpoint, options, template)
            looking = beside.submit(_check_numbers, entry, checkpoint)
            told = _unless_failed((reading, looking), on_progress)
            model = _load_settled(entry, checkpoint, options, dtype=dtype, on_progress=told)
            looking.result()
            tokenizer = reading.result()
        return_freed_memory()
        form = [entry.precision, str(dtype), options.kernels, str(device)]
        verdicts = open_verdicts(folder, options.cache, form)
        return replace(_describe(entry, model, tokenizer, options, dtype=dtype), verdicts=verdicts)


def fetch_model(source: ModelSource, options: LoadOptions, on_progress: OnProgress = ignore_progress) -> Path:
    """The folder with the model's files on this machine, fetched or converted if need be. Raises ModelLoadError."""
    if source.kind is SourceKind.HUB:
        return fetch_from_hub(
            source.location, options.hub, with_code=options.trust_remote_code, on_progress=on_progress
        )
    if source.kind is SourceKind.FOLDER:
        return Path(source.location)
    gguf = find_default_gguf() if source.kind is SourceKind.DEFAULT else Path(source.location)
    if not gguf.is_file():
        raise ModelLoadError(f"There is no file {gguf.name}: check the path in --model or MYSERVE_MODEL.")
    return convert_gguf(gguf, cache=options.cache, on_progress=on_progress)


def _read_tokenizer(
    name: str, checkpoint: Checkpoint, options: LoadOptions, template: str | None
) -> PreTrainedTokenizerBase:
    """A second of work that wants little but Python's lock, while the weights want little but processors."""
    tokenizer = options.tokenizers.read(
        checkpoint.folder, name, template=template, trust_remote_code=options.trust_remote_code
    )
    if (vocab_size := getattr(checkpoint.config.get_text_config(), "vocab_size", None)) is not None:
        options.tokenizers.serve(tokenizer, vocab_size)  # for _describe: it takes as long as reading
    return tokenizer


def _check_numbers(entry: CatalogEntry, checkpoint: Checkpoint) -> None:
    """Of converted weights it is known since they were converted: their checksums are the same."""
    if entry.source.kind in (SourceKind.HUB, SourceKind.FOLDER):
        check_numbers(checkpoint, entry.precision)


def _unless_failed(beside: Iterable[Future[Any]], on_progress: OnProgress) -> OnProgress:
    """Reports, and raises what has failed beside, so that no weights are packed for nothing."""

    def report(stage: str, fraction: float | None = None) -> None:
        for work in beside:
            if work.done():
                work.result()
        on_progress(stage, fraction)

    return report


def _load_settled(
    entry: CatalogEntry, checkpoint: Checkpoint, options: LoadOptions, *, dtype: torch.dtype, on_progress: OnProgress
) -> PreTrainedModel:
    """The module with its weights in the form they are served in."""
    load = partial(_load_module, entry, checkpoint, options, device=resolve_device(options.device), dtype=dtype)
    model = load()
    if options.kernels == "auto" and entry.precision in OWN_KERNELS and not checkpoint.is_quantized:
        try:
            if install_cpu_kernels(model, dtype, in_int4=entry.precision == "int4", on_progress=on_progress):
                return model
        except KernelMismatchError as error:
            logger.warning("%s is served by its own layers, more slowly: %s", entry.source.name, error)
            model = load()
    if entry.precision == "int4":
        pack_int4(model, dtype, on_progress=on_progress)
    elif entry.precision == "nf4" or checkpoint.stored_form == "bitsandbytes":
        settle_4bit_layers(model)
    return model


def _load_module(
    entry: CatalogEntry, checkpoint: Checkpoint, options: LoadOptions, *, device: torch.device, dtype: torch.dtype
) -> PreTrainedModel:
    """The module as it is read. Raises ModelLoadError."""
    read_as = dtype_to_read(entry.precision, dtype, stored=checkpoint.dtype)
    check_room(checkpoint, entry, device=device, read_as=read_as, served_as=dtype)
    device_map = choose_device_map(checkpoint, entry, options.device, device=device, dtype=read_as)
    return read_module(
        checkpoint, entry, dtype=dtype, device_map=device_map, trust_remote_code=options.trust_remote_code
    )


def _describe(
    entry: CatalogEntry,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    options: LoadOptions,
    *,
    dtype: torch.dtype,
) -> LoadedModel:
    """Gather the facts that the engine and the doors need."""
    output = model.get_output_embeddings()
    vocab_size = model.config.get_text_config().vocab_size if output is None else output.out_features
    context_length = find_context_length(entry.source.name, model.config, tokenizer, limit=options.max_model_len)
    memory = measure_memory(model)
    device = model.get_input_embeddings().weight.device
    served = options.tokenizers.serve(tokenizer, vocab_size)
    if (reason := served.why_no_chat()) is not None:
        logger.warning("%s cannot chat. %s", entry.source.name, reason)
    info = replace(
        entry.info(),
        note=" ".join(filter(None, (entry.note, note_of_kept(memory)))) or None,
        state=LoadState.READY,
        dtype=str(dtype).removeprefix("torch."),
        device=str(device),
        context_length=context_length,
        num_parameters=memory.num_parameters,
        weight_bytes=memory.weight_bytes,
        bytes_per_step=count_weight_traffic(memory, expanded_itemsize=expanded_itemsize(entry.precision, dtype)),
        kv_bytes_per_token=count_kv_bytes_per_token(model.config, dtype),
        has_chat_template=served.has_chat_template,
        takes_tools=served.takes_tools,
    )
    return LoadedModel(
        info=info,
        module=model,
        tokenizer=served,
        eos_token_ids=find_end_tokens(model, tokenizer, vocab_size),
        context_length=context_length,
        bos_token_id=tokenizer.bos_token_id,
        defaults=find_sampling_defaults(entry.source.name, model),
        dtype=dtype,
        device=device,
        memory=memory,
    )
