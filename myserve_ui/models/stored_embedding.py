"""An input embedding in 16 bits, where the checkpoint's numbers have no more: what a lookup gives is the same."""

from __future__ import annotations

import torch
from torch import nn

HALVES = (torch.float16, torch.bfloat16)


class StoredEmbedding(nn.Module):
    """Looks rows up in 16 bits and hands them out in `dtype`."""

    weight: torch.Tensor
    """[vocab_size, hidden_size]; a buffer, so that the model's dtype is still that of its other weights."""

    def __init__(self, weight: torch.Tensor, dtype: torch.dtype, *, copies_head: bool) -> None:
        super().__init__()
        self.dtype = dtype
        self.copies_head = copies_head
        self.num_embeddings, self.embedding_dim = weight.shape
        self.register_buffer("weight", weight)

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(token_ids, self.weight).to(self.dtype)


def halve_exactly(weight: torch.Tensor, dtypes: tuple[torch.dtype, ...] = HALVES) -> torch.Tensor | None:
    """A copy of `weight` in the first of `dtypes` if no number changes by it, else None.

    A copy always: what was read from a file would keep the whole file mapped.
    """
    for dtype in dtypes:
        if torch.equal((half := weight.to(dtype, copy=True)).to(weight.dtype), weight):
            return half
    return None
