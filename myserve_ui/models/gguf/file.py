"""Looks a GGUF file over before it is converted: whether it is whole, what it is, and how its numbers are stored."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from transformers.integrations.gguf import reader

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.loading.weight_files import named, what_it_is

logger = logging.getLogger(__name__)

MAGIC = b"GGUF"
PLAIN = MappingProxyType(
    {
        GGMLQuantizationType.F32: torch.float32,
        GGMLQuantizationType.F16: torch.float16,
        GGMLQuantizationType.BF16: torch.bfloat16,
    }
)
"""Types that store the numbers themselves; all others store blocks of fewer bits."""

LAYER = re.compile(r"blk\.(\d+)\.")
WORDS_ROOM = 256 * 2**20
"""What the lists of words take as objects of Python, of which each part of the reading makes its own."""
ROPE_FACTORS = "rope_freqs.weight"


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where one tensor lies and how it is stored."""

    name: str
    shape: tuple[int, ...]
    """Slowest dimension first."""
    type: GGMLQuantizationType
    data: np.ndarray
    """Its bytes, read when they are looked at."""

    def numbers(self) -> torch.Tensor:
        """A copy of a plain tensor, in the dtype it is stored in."""
        return torch.tensor(self.data).view(PLAIN[self.type]).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class GgufFile:
    """What the head of a file says."""

    name: str
    architecture: str
    tensors: tuple[GgufTensor, ...]

    @property
    def has_blocks(self) -> bool:
        """Whether any tensor is in fewer than 16 bits."""
        return any(tensor.type not in PLAIN for tensor in self.tensors)

    @property
    def plain_shapes(self) -> frozenset[tuple[int, ...]]:
        """Shapes of tensors that are stored number by number, and of no other."""
        plain, packed = (
            {tensor.shape for tensor in self.tensors if (tensor.type in PLAIN) is is_plain}
            for is_plain in (True, False)
        )
        return frozenset(plain - packed)

    @property
    def narrowest_dtype(self) -> torch.dtype:
        """Of 16 bits if one holds every number that is stored as it is, else float32.

        What is expanded from blocks has more digits than 16 bits hold, at a size that float16 fits better.
        """
        plain = [tensor for tensor in self.tensors if tensor.type in PLAIN]
        candidates = (torch.float16,) if self.has_blocks else (torch.float16, torch.bfloat16)
        return next((each for each in candidates if all(_holds(each, part) for part in plain)), torch.float32)

    @property
    def room_to_read(self) -> int:
        """Bytes that a conversion takes at its peak: all numbers, the largest tensor being expanded, the words."""
        sizes = [math.prod(tensor.shape) for tensor in self.tensors]
        return sum(sizes) * self.narrowest_dtype.itemsize + 2 * 4 * max(sizes, default=0) + WORDS_ROOM

    def find(self, name: str) -> GgufTensor | None:
        """The tensor `name`, if there is one."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)

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
        head, architecture, pieces = _read_head(path)
    except Exception as error:  # numpy's and struct's, whatever bytes they stumble over
        logger.debug("reading the head of %s failed", path.name, exc_info=True)
        raise ModelLoadError(f"{path.name} is damaged or cut short: download or copy it again.") from error
    if isinstance(pieces, int) and pieces > 1:
        raise ModelLoadError(
            f"{path.name} is one of {pieces} pieces: join them with llama.cpp's `llama-gguf-split --merge`, and name "
            "the whole file."
        )
    return GgufFile(path.name, str(architecture), head)


def _read_head(path: Path) -> tuple[tuple[GgufTensor, ...], object, object]:
    """Tensors, architecture and number of pieces, by transformers' reader: a hundred times as quick as that of gguf."""
    blob = reader._mapped(str(path))
    metadata, count, position = reader._read_metadata(blob, str(path))
    table, position = reader._read_tensor_table(blob, count, position)
    alignment = metadata.get("general.alignment", 32)
    start = -(-position // alignment) * alignment
    tensors = []
    for name, shape, number, offset in table:
        kind = GGMLQuantizationType(number)
        block, block_bytes = GGML_QUANT_SIZES[kind]
        end = start + offset + math.prod(shape) // block * block_bytes
        if end > len(blob):
            raise EOFError(name)
        tensors.append(GgufTensor(name, tuple(shape), kind, blob[start + offset : end]))
    return tuple(tensors), metadata["general.architecture"], metadata.get("split.count")


def _holds(dtype: torch.dtype, tensor: GgufTensor) -> bool:
    """Whether `dtype` changes no number of a plain tensor; a number that is none is not its fault."""
    if PLAIN[tensor.type] is dtype:
        return True
    numbers = tensor.numbers().float()
    return torch.equal(numbers.to(dtype).float().nan_to_num(), numbers.nan_to_num())
