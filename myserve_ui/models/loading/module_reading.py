"""Lets transformers build a checkpoint's module and fill it, and explains what it cannot build."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from myserve_ui.errors import ModelLoadError, MyServeError, PrecisionUnavailableError
from myserve_ui.models.catalog import CatalogEntry
from myserve_ui.models.loading.checkpoint import Checkpoint
from myserve_ui.models.loading.errors import explain, in_short, quiet_libraries
from myserve_ui.models.loading.json_files import walk_values
from myserve_ui.models.loading.stored_form import explain_stored_form
from myserve_ui.models.loading.unread_tensors import refuse_misfits
from myserve_ui.models.quantization import dtype_to_read, import_bitsandbytes, quantization_config

logger = logging.getLogger(__name__)

DeviceMap = str | dict[str, str] | None


def read_module(
    checkpoint: Checkpoint,
    entry: CatalogEntry,
    *,
    dtype: torch.dtype,
    device_map: DeviceMap,
    trust_remote_code: bool,
) -> PreTrainedModel:
    """The module in eval mode on its device, its weights served in `dtype`.

    Raises ModelLoadError: a tensor that is missing, left over or of another size is an error, never a random one.
    """
    if checkpoint.stored_form == "bitsandbytes":
        import_bitsandbytes()  # ours, before transformers imports it: see there
    with (
        quiet_libraries(),
        _explain_building(checkpoint),
        explain_stored_form(checkpoint.stored_form, checkpoint.name),
    ):
        model, report = AutoModelForCausalLM.from_pretrained(
            checkpoint.folder,
            config=checkpoint.config,
            dtype=dtype_to_read(entry.precision, dtype, stored=checkpoint.dtype),
            device_map=device_map,
            quantization_config=quantization_config(entry.precision, dtype),
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            ignore_mismatched_sizes=True,  # they are in the report then, which is an error all the same
            output_loading_info=True,
        )
    assert isinstance(model, PreTrainedModel)
    refuse_misfits(report, checkpoint, model)
    return model.eval().requires_grad_(False)


def refuse_other_precisions(checkpoint: Checkpoint, entry: CatalogEntry) -> None:
    """Raise PrecisionUnavailableError where fewer bits are asked of weights that are stored in fewer already."""
    if checkpoint.is_quantized and entry.precision != "full":
        raise PrecisionUnavailableError(
            f"{entry.source.name} is stored in fewer bits already ({checkpoint.stored_form}): ask for it as it is, "
            "with --precision full or MYSERVE_PRECISION=full."
        )


@contextmanager
def _explain_building(checkpoint: Checkpoint) -> Iterator[None]:
    """Raise ModelLoadError for what a model cannot be made of, its files being whole: what config.json asks for."""
    try:
        yield
    except MyServeError:
        raise
    except Exception as error:
        if explain(checkpoint.name, error):
            raise  # explain_load_errors, around this, has the better sentence
        logger.debug("building %s failed", checkpoint.name, exc_info=True)
        raise ModelLoadError(
            f"{checkpoint.name} cannot be built as its config.json says ({_culprit(checkpoint, error)}): correct that "
            "file or download it again, update transformers if the model is newer, or choose another model."
        ) from error


def _culprit(checkpoint: Checkpoint, error: Exception) -> str:
    """The setting whose value is the word that nobody knows, else the library's words."""
    if isinstance(error, KeyError) and error.args:
        for path, value in walk_values(checkpoint.config.to_dict()):
            if isinstance(value, str) and value == error.args[0]:
                return f"its {path} is {value[:40]!r}, which the installed transformers does not know"
    return in_short(error)
