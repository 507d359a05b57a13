"""Looks a GGUF file over before it is converted: whether it is whole, what it is, and how its numbers are stored."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gguf import GGMLQuantizationType, GGUFReader, dequantize

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.weight_files import named, what_it_is

logger = logging.getLogger(__name__)

MAGIC = b"GGUF"
PLAIN = (GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16)
"""Types that store the numbers themselves; all others store blocks of fewer bits."""

LAYER = re.compile(r"blk\.(\d+)\.")
ROPE_FACTORS = "rope_freqs.weight"


@dataclass(frozen=True, slots=True)
class GgufFile:
    """What the head of a file says."""

    name: str
    architecture: str
    tensors: tuple[Any, ...]
    """The reader's: name, tensor_type, shape with the fastest dimension first, data."""

    @property
    def has_blocks(self) -> bool:
        """Whether any tensor is in fewer than 16 bits."""
        return any(tensor.tensor_type not in PLAIN for tensor in self.tensors)

    @property
    def plain_shapes(self) -> frozenset[tuple[int, ...]]:
        """Shapes, slowest dimension first, of tensors that are stored number by number, and of no other."""
        plain, packed = (
            {_shape(tensor) for tensor in self.tensors if (tensor.tensor_type in PLAIN) is is_plain}
            for is_plain in (True, False)
        )
        return frozenset(plain - packed)

    @property
    def narrowest_dtype(self) -> torch.dtype:
        """Of 16 bits if one holds every number that is stored as it is, else float32.

        What is expanded from blocks has more digits than 16 bits hold, at a size that float16 fits better.
        """
        plain = [tensor for tensor in self.tensors if tensor.tensor_type in PLAIN]
        candidates = (torch.float16,) if self.has_blocks else (torch.float16, torch.bfloat16)
        return next((each for each in candidates if all(_holds(each, part) for part in plain)), torch.float32)

    def numbers(self, name: str) -> torch.Tensor | None:
        """The tensor `name` in float32; None if there is none."""
        tensor = next((each for each in self.tensors if each.name == name), None)
        return None if tensor is None else _numbers(tensor)

    def refuse_unread(self, num_layers: int, num_drafts: int) -> None:
        """Raise ModelLoadError if layers stand behind the last one that the head of the file counts."""
        beyond = {
            tensor.name
            for tensor in self.tensors
            if (found := LAYER.match(tensor.name)) and int(found[1]) >= num_layers + num_drafts
        }
        if beyond:
            raise ModelLoadError(
                f"{self.name} has tensors of more layers than the {num_layers} that it counts ({named(beyond)}): it "
                "was put together wrongly, so download or convert it again."
            )


def open_gguf(path: Path) -> GgufFile:
    """The head of `path`. Raises ModelLoadError if it is no GGUF file, damaged, cut short, or one piece of several."""
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
    if begin != MAGIC:
        words = what_it_is(path)
        raise ModelLoadError(f"{path.name} {words if 'damaged' not in words else 'is no GGUF file: check its path'}.")
    try:
        reader = GGUFReader(path)
        architecture, pieces = _field(reader, "general.architecture"), _field(reader, "split.count")
    except Exception as error:  # numpy's and struct's, whatever bytes they stumble over
        logger.debug("reading the head of %s failed", path.name, exc_info=True)
        raise ModelLoadError(f"{path.name} is damaged or cut short: download or copy it again.") from error
    if isinstance(pieces, int) and pieces > 1:
        raise ModelLoadError(
            f"{path.name} is one of {pieces} pieces: join them with llama.cpp's `llama-gguf-split --merge`, and name "
            "the whole file."
        )
    return GgufFile(path.name, str(architecture), tuple(reader.tensors))


def _field(reader: GGUFReader, key: str) -> object:
    field = reader.get_field(key)
    return None if field is None else field.contents()


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in reversed(tensor.shape))


def _numbers(tensor: Any) -> torch.Tensor:
    return torch.tensor(dequantize(tensor.data, tensor.tensor_type)).float()


def _holds(dtype: torch.dtype, tensor: Any) -> bool:
    """Whether `dtype` changes no number of a plain tensor; a number that is none is not its fault."""
    if tensor.tensor_type is GGMLQuantizationType.F16 and dtype is torch.float16:
        return True
    if tensor.tensor_type is GGMLQuantizationType.BF16 and dtype is torch.bfloat16:
        return True
    if math.prod(_shape(tensor)) == 0:
        return True
    numbers = _numbers(tensor)
    return torch.equal(numbers.to(dtype).to(numbers.dtype).nan_to_num(), numbers.nan_to_num())
