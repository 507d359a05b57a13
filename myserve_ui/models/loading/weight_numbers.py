"""Looks whether stored weights are numbers at all, before any precision rounds away that they are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import torch
from safetensors import safe_open

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.loading.checkpoint import Checkpoint
from myserve_ui.models.loading.unread_tensors import BUFFERS
from myserve_ui.models.loading.weight_files import DTYPES, named

EIGHT_BITS: Mapping[str, int] = MappingProxyType({"F8_E4M3": 0x7F, "F8_E5M2": 0x7C})
"""The bits that are all set in what is no number, in E5M2 in infinities too; the sign is not among them."""

INT8_LIMIT = 65504.0
"""The largest float16: bitsandbytes turns weights into it on their way to 8 bits."""


def check_numbers(checkpoint: Checkpoint, precision: str) -> None:
    """Raise ModelLoadError if a weight is NaN or infinite, or too large for `precision`. Reads every file once."""
    limit = INT8_LIMIT if precision == "int8" else float("inf")
    broken, large = set(), set()
    for name, largest in _largest_of_each(checkpoint):
        if not largest < float("inf"):
            broken.add(name)
        elif largest > limit:
            large.add(name)
    if broken:
        raise ModelLoadError(
            f"The weights of {checkpoint.name} hold values that are not numbers ({named(broken)}): download or copy "
            "them again; if they were saved like this, their training had failed, so choose other ones."
        )
    if large:
        raise ModelLoadError(
            f"The weights of {checkpoint.name} are too large for int8, which holds {limit:.0f} at most "
            f"({named(large)}): choose another precision, such as nf4."
        )


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether no value is NaN or infinite. In one pass over memory, several times as quick as `isfinite().all()`."""
    return _largest(tensor) < float("inf")


def _largest_of_each(checkpoint: Checkpoint) -> Iterator[tuple[str, float]]:
    """Each stored tensor of floating numbers, with its largest magnitude."""
    by_file: dict[Path, list[str]] = {}
    for name, stored in checkpoint.tensors.items():
        if (stored.dtype in DTYPES or stored.dtype in EIGHT_BITS) and not BUFFERS.search(name):
            by_file.setdefault(stored.file, []).append(name)
    for path, names in by_file.items():
        with safe_open(path, framework="pt") as tensors:
            for name in names:
                tensor, bits = tensors.get_tensor(name), EIGHT_BITS.get(checkpoint.tensors[name].dtype)
                yield name, _largest(tensor) if bits is None else _largest_in_8_bits(tensor, bits)


def _largest(tensor: torch.Tensor) -> float:
    """The largest magnitude, NaN if one is NaN."""
    if tensor.numel() == 0:
        return 0.0
    low, high = torch.aminmax(tensor)  # both are NaN if any is
    return torch.maximum(low.abs(), high.abs()).item()


def _largest_in_8_bits(tensor: torch.Tensor, bits: int) -> float:
    raw = tensor.view(torch.uint8)
    return float("nan") if ((raw & bits) == bits).any() else 0.0
