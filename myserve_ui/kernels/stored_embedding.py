"""An input embedding in 16 bits, where the checkpoint's numbers have no more: what a lookup gives is the same."""

from __future__ import annotations

import torch
from torch import nn

HALVES = (torch.float16, torch.bfloat16)
TRIED_ROWS = 16


class StoredEmbedding(nn.Module):
    """Looks rows up in 16 bits and hands them out in `dtype`."""

    weight: torch.Tensor
    """[vocab_size, hidden_size]; a buffer, so that the model's dtype is still that of its other weights."""

    def __init__(
        self, weight: torch.Tensor, dtype: torch.dtype, *, copies_head: bool, scale: torch.Tensor | None = None
    ) -> None:
        """`scale`: what the family multiplies embeddings by, a number; `copies_head`: the head has the same weight."""
        super().__init__()
        self.dtype = dtype
        self.copies_head = copies_head
        self.scale = None if scale is None else scale.to(dtype)
        self.num_embeddings, self.embedding_dim = weight.shape
        self.register_buffer("weight", weight)

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        rows = nn.functional.embedding(token_ids, self.weight).to(self.dtype)
        return rows if self.scale is None else rows * self.scale


def store_embedding(embedding: nn.Module, dtype: torch.dtype, *, copies_head: bool) -> StoredEmbedding | None:
    """`embedding` with its weight in 16 bits if that loses nothing, else as it is; None if it is of no known kind.

    A class of its own that multiplies by `embed_scale`, as Gemma's does, is known by giving the same numbers.
    """
    if not isinstance(embedding, nn.Embedding):
        return None
    weight = halve_exactly(embedding.weight.data)
    scale = getattr(embedding, "embed_scale", None)
    stored = StoredEmbedding(
        embedding.weight.data.to(dtype) if weight is None else weight,
        dtype,
        copies_head=copies_head,
        scale=None if scale is None else torch.as_tensor(scale),
    )
    some = torch.linspace(0, embedding.num_embeddings - 1, TRIED_ROWS).long()
    return stored if torch.equal(stored(some), embedding(some).to(dtype)) else None


def halve_exactly(weight: torch.Tensor, dtypes: tuple[torch.dtype, ...] = HALVES) -> torch.Tensor | None:
    """A copy of `weight` in the first of `dtypes` if no number changes by it, else None.

    A copy always: what was read from a file would keep the whole file mapped.
    """
    for dtype in dtypes:
        if torch.equal((half := weight.to(dtype, copy=True)).to(weight.dtype), weight):
            return half
    return None
