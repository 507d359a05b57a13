"""Whether a model fits, and over which devices it is spread when it does not fit one."""

from __future__ import annotations

from types import MappingProxyType

import psutil
import torch

from myserve_ui.core.container_limits import read_container_limits
from myserve_ui.errors import NotEnoughMemoryError
from myserve_ui.models.catalog import CatalogEntry
from myserve_ui.models.loading.checkpoint import Checkpoint
from myserve_ui.models.quantization import count_packable

PACKED_BYTES = MappingProxyType({"nf4": 0.57, "int8": 1.02, "int4": 0.63})
"""Of a number in a layer that is packed, with its scales."""

UNKNOWN_BYTES = MappingProxyType({"nf4": 0.6, "int8": 1.1})
"""Of a number where it is not known which layers are packed: with a share for the embedding, which is not."""

EXPANDED_FORMS = frozenset({"fp8", "mxfp8", "mxfp4", "fbgemm_fp8"})
"""Forms on the disk that a CPU has no products for: transformers writes them out as it reads."""

NIBBLES = frozenset({"mxfp4"})
"""Of these, two numbers are stored as one."""

REST = 192 * 2**20
"""Beside the weights: layers that stand twice while they are packed, gradio (100 MiB), tokens of the self-check."""

KEPT_BY_THE_ALLOCATOR = 384 * 2**20
"""Of numbers that were packed one by one as they were read: C's allocator does not give all of them back at once."""

ROOM_FOR_THE_REST = 0.9
"""Of a device's free memory; keys, values and activations need some too."""


def check_room(
    checkpoint: Checkpoint, entry: CatalogEntry, *, device: torch.device, read_as: torch.dtype, served_as: torch.dtype
) -> None:
    """Raise NotEnoughMemoryError before a load that would end in the kernel killing the process."""
    if device.type == "cpu":
        fewer = ", 4 bits with MYSERVE_PRECISION=int4" if entry.precision == "full" else ""
        half = " or 16 bits with MYSERVE_DTYPE=bf16" if fewer and served_as is torch.float32 else ""
        room = room_to_load(checkpoint, entry, read_as, served_as)
        refuse_what_does_not_fit(f"{entry.key} does not fit: loading it", room, f"a smaller model{fewer}{half}")


def refuse_what_does_not_fit(subject: str, needed: int, way_out: str) -> None:
    """Raise NotEnoughMemoryError if fewer than `needed` bytes are free here.

    What the libraries take that are imported is not free any more, and so is counted.
    """
    limits, machine = read_container_limits(), psutil.virtual_memory().available
    free = limits.bound_memory(machine)
    if needed > free:
        container = f" of the {_in_words(limits.memory)} of this container" if limits.memory and free < machine else ""
        raise NotEnoughMemoryError(
            f"{subject} takes up to {_in_words(needed)}, and {_in_words(free)}{container} are free: "
            f"{'give the container more, or ' if container else ''}choose {way_out}."
        )


def room_to_load(checkpoint: Checkpoint, entry: CatalogEntry, read_as: torch.dtype, served_as: torch.dtype) -> int:
    """What a load takes at its peak, and the page and the first answers after it."""
    weights = needed_bytes(checkpoint, entry, read_as, served_as)
    parting = _tied_head(checkpoint) * served_as.itemsize if entry.precision == "full" else 0
    unpacked = max(checkpoint.num_parameters * read_as.itemsize - weights, 0) if entry.precision in PACKED_BYTES else 0
    return weights + parting + min(unpacked, KEPT_BY_THE_ALLOCATOR) + REST


def _tied_head(checkpoint: Checkpoint) -> int:
    """Numbers of a head that is the embedding as well: a packed one is a copy."""
    config = checkpoint.config.get_text_config()
    if not getattr(config, "tie_word_embeddings", False):
        return 0
    return int(getattr(config, "vocab_size", 0) * getattr(config, "hidden_size", 0))


def _in_words(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 10 * 2**30 else f"{size / 2**20:,.0f} MiB"


def choose_device_map(
    checkpoint: Checkpoint, entry: CatalogEntry, asked: str, *, device: torch.device, dtype: torch.dtype
) -> str | dict[str, str] | None:
    """None on a CPU, one device if the model fits there or was named with its number, else accelerate's choice."""
    if device.type == "cpu":
        return None
    if device.type == "cuda" and ":" not in asked:
        free, _ = torch.cuda.mem_get_info(device)
        if needed_bytes(checkpoint, entry, dtype, dtype) > ROOM_FOR_THE_REST * free:
            return "auto"
    return {"": str(device)}


def needed_bytes(checkpoint: Checkpoint, entry: CatalogEntry, read_as: torch.dtype, served_as: torch.dtype) -> int:
    """What the weights take at most: nf4 and int8 pack them as they are read, int4 afterwards."""
    count = checkpoint.num_parameters
    if checkpoint.stored_form is not None:
        if checkpoint.stored_form not in EXPANDED_FORMS:
            return checkpoint.weight_bytes
        return count * read_as.itemsize * (2 if checkpoint.stored_form in NIBBLES else 1)
    if entry.precision == "full":
        return count * read_as.itemsize
    if (packable := count_packable(checkpoint.config)) is None:
        return int(count * UNKNOWN_BYTES.get(entry.precision, read_as.itemsize))
    packed = packable * PACKED_BYTES[entry.precision] + (count - packable) * served_as.itemsize
    return int(max(packed, count * read_as.itemsize) if entry.precision == "int4" else packed)
