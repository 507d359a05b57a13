"""Whether a model fits, and over which devices it is spread when it does not fit one."""

from __future__ import annotations

from types import MappingProxyType

import psutil
import torch

from myserve_ui.core.container_limits import read_container_limits
from myserve_ui.errors import NotEnoughMemoryError
from myserve_ui.models.catalog import CatalogEntry
from myserve_ui.models.checkpoint import Checkpoint

BYTES_PER_PARAMETER = MappingProxyType({"nf4": 0.6, "int8": 1.1})
"""Packed while they are read: the bits, their scales, and a share for the embedding, which stays in 16 or 32 bits."""

ROOM_FOR_THE_REST = 0.9
"""Of a device's free memory; keys, values and activations need some too."""


def check_room(checkpoint: Checkpoint, entry: CatalogEntry, *, device: torch.device, dtype: torch.dtype) -> None:
    """Raise NotEnoughMemoryError before a load that would end in the kernel killing the process.

    `dtype` is that of the weights as they are read; int4 packs them afterwards.
    """
    if device.type != "cpu":
        return
    needed, machine = _needed_bytes(checkpoint, entry, dtype), psutil.virtual_memory().available
    limits = read_container_limits()
    free = limits.bound_memory(machine)
    if needed > free:
        container = f" of the {_gib(limits.memory)} of this container" if limits.memory and free < machine else ""
        raise NotEnoughMemoryError(
            f"{entry.key} does not fit: it needs {_gib(needed)} for its weights and {_gib(free)}{container} are free: "
            f"{'give the container more, ' if container else ''}choose a smaller model, 4 bits with "
            "MYSERVE_PRECISION=nf4, or 16 bits with MYSERVE_DTYPE=bf16."
        )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def choose_device_map(
    checkpoint: Checkpoint, entry: CatalogEntry, asked: str, *, device: torch.device, dtype: torch.dtype
) -> str | dict[str, str] | None:
    """None on a CPU, one device if the model fits there or was named with its number, else accelerate's choice."""
    if device.type == "cpu":
        return None
    if device.type == "cuda" and ":" not in asked:
        free, _ = torch.cuda.mem_get_info(device)
        if _needed_bytes(checkpoint, entry, dtype) > ROOM_FOR_THE_REST * free:
            return "auto"
    return {"": str(device)}


def _needed_bytes(checkpoint: Checkpoint, entry: CatalogEntry, dtype: torch.dtype) -> int:
    if checkpoint.is_quantized:
        return sum(path.stat().st_size for path in checkpoint.folder.glob("*.safetensors"))
    return int(checkpoint.num_parameters * BYTES_PER_PARAMETER.get(entry.precision, dtype.itemsize))
