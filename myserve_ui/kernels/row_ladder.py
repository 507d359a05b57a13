"""How many rows a product should have for each of them to come out the same, to the last bit, whatever is beside it.

A library picks its kernel by the number of rows, and kernels add up in different orders: one row alone may come out
with other last bits than beside others. Which numbers of rows go together is the library's secret, so it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from myserve_ui.kernels.linear.packed import LinearKernel, PackedLinear

TRIED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)
TRIED_OF_SMALL = (*TRIED, 36, 60, 96, 128, 132, 144)
"""Numbers of rows; each is held against the largest."""

SMALL_WEIGHT = 4_000_000
"""Numbers in a weight up to which more is tried; all of it takes some tenths of a second then."""

MOST_FOR_ONE = 16
"""Rows that one row may be filled up to: beyond, exactness would cost more than it is worth."""


@dataclass(frozen=True, slots=True)
class RowLadder:
    """Numbers of rows that a processor's products sum up alike. Fewer are filled up to the next of them."""

    rungs: tuple[int, ...] = ()
    """Ascending, of those that were tried."""
    unit: int = 1
    """Above the last rung, multiples of it."""

    def fit(self, rows: int) -> int:
        """The least number of rows, from `rows` on, that is computed alike."""
        for rung in self.rungs:
            if rung >= rows:
                return rung
        return -(-rows // self.unit) * self.unit


def common_ladder(alike: Iterable[frozenset[int]], tried: tuple[int, ...]) -> RowLadder | None:
    """The ladder of several products, of each of which we know which of the `tried` numbers of rows are alike.

    None if no unit is: then no number of rows can be relied on.
    """
    rungs = frozenset(tried).intersection(*alike)
    for unit in sorted(rungs):
        if all(number in rungs for number in tried if number % unit == 0):
            return RowLadder(tuple(sorted(rungs)), unit)
    return None


@dataclass(frozen=True, slots=True)
class RowLadders:
    """For the tokens of a step, and for those of them whose logits are wanted."""

    tokens: RowLadder
    logits: RowLadder


@torch.inference_mode()
def find_row_ladders(model: nn.Module, dtype: torch.dtype) -> RowLadders | None:
    """The ladders of `model` on a CPU; None where a row's result cannot be kept from its company."""
    head = model.get_output_embeddings()  # type: ignore[operator]
    products = {_kind_of(part): part for part in model.modules() if part is not head and _is_linear(part)}
    if not products or head is None or not _is_linear(head):
        return None
    tokens = common_ladder([_alike(part, dtype) for part in products.values()], _tried(*products.values()))
    logits = common_ladder([_alike(head, dtype)], _tried(head))
    if tokens is None or logits is None or max(tokens.fit(1), logits.fit(1)) > MOST_FOR_ONE:
        return None
    return RowLadders(tokens, logits)


def _is_linear(part: nn.Module) -> bool:
    return isinstance(part, LinearKernel | nn.Linear | Conv1D)


def _kind_of(part: nn.Module) -> tuple[type, int, int]:
    return (type(part), *_sizes_of(part))


def _sizes_of(part: nn.Module) -> tuple[int, int]:
    """Inputs and outputs."""
    if isinstance(part, Conv1D):
        return part.weight.shape[0], part.nf
    return part.in_features, part.out_features  # type: ignore[return-value]


def _tried(*parts: nn.Module) -> tuple[int, ...]:
    sizes = (inputs * outputs for inputs, outputs in map(_sizes_of, parts))
    return TRIED_OF_SMALL if max(sizes) <= SMALL_WEIGHT else TRIED


def _alike(part: nn.Module, dtype: torch.dtype) -> frozenset[int]:
    """Of TRIED_OF_SMALL or TRIED, the numbers of rows that `part` computes as it computes the most."""
    generator = torch.Generator().manual_seed(0)
    tried = set(_tried(part))
    inputs = torch.randn(max(tried), _sizes_of(part)[0], generator=generator).to(dtype)
    for multiply in _ways(part, inputs):
        whole = multiply(inputs)
        tried = {number for number in tried if torch.equal(multiply(inputs[:number]), whole[:number])}
    return frozenset(tried)


def _is_plain(part: nn.Module, inputs: torch.Tensor) -> bool:
    """Whether `part` gives its product and no more: a router derived from a linear layer gives its choice too."""
    if isinstance(part, LinearKernel) or type(part) in (nn.Linear, Conv1D):
        return True
    try:
        result = part(inputs)
    except Exception:  # what such a class takes is its own affair
        return False
    return isinstance(result, torch.Tensor) and result.shape == (len(inputs), _sizes_of(part)[1])


def _ways(part: nn.Module, inputs: torch.Tensor) -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    yield part if _is_plain(part, inputs) else partial(nn.functional.linear, weight=part.weight, bias=part.bias)  # type: ignore[arg-type]
    if isinstance(part, PackedLinear):  # whose other way is a kernel of its own
        residual = inputs.new_ones(len(inputs), part.out_features)
        yield lambda rows: part.add_to(residual[: len(rows)], rows)
