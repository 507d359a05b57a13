"""How a layer attends, by its configuration and keywords, and the formula: folded queries over keys that lie ready."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention


def configurations_of(text: Any) -> tuple[Any, ...]:
    """One for each layer of the text part `text` where they differ, else `text` alone, which holds for all.

    transformers raises for a value that layers do not share.
    """
    return tuple(text.per_layer_config) if getattr(text, "is_heterogeneous", False) else (text,)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a query sees of the tokens before it; all of them, unless something is said."""

    window: int | None = None
    """So many, itself included."""
    chunk: int | None = None
    """Those in its own piece of the text, where pieces are so long."""

    def first_seen(self, positions: torch.Tensor) -> torch.Tensor:
        """The first position that each query sees; below 0 if that is all of them."""
        if self.chunk is not None:
            return positions // self.chunk * self.chunk
        if self.window is not None:
            return positions - self.window + 1
        return torch.zeros_like(positions)


@dataclass(frozen=True, slots=True)
class AttentionStyle:
    """How one layer attends."""

    scaling: float | None = None
    window: int | None = None
    """Tokens that a query sees, itself included; None for all before it."""
    softcap: float | None = None
    sinks: torch.Tensor | None = None  # [heads]
    chunk: int | None = None
    """Length of the pieces beyond which no query sees; None if there are none."""

    def first_seen(self, positions: torch.Tensor) -> torch.Tensor:
        """The first position that each query sees; below 0 if that is all of them."""
        return Sight(self.window, self.chunk).first_seen(positions)

    def scale_of(self, query: torch.Tensor) -> float:
        """What scores of `query` [..., head_dim] are multiplied with."""
        return float(query.shape[-1] ** -0.5) if self.scaling is None else self.scaling

    @property
    def is_plain(self) -> bool:
        """Whether scores go into the softmax as they are."""
        return self.softcap is None and self.sinks is None

    @property
    def suits_loop(self) -> bool:
        """Whether the compiled loop over rows knows it."""
        return self.is_plain and self.chunk is None


def read_style(
    sight: Sight | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_others: object,
) -> AttentionStyle:
    """How a layer attends by the keywords that a model gives its attention; `s_aux` are sinks.

    `sight`, which was read from its mask, holds before `sliding_window`, which some families pass and do not mean.
    """
    sight = sight or Sight(sliding_window or None)
    return AttentionStyle(scaling, sight.window, softcap, s_aux, chunk=sight.chunk)


def attend_folded(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, style: AttentionStyle
) -> torch.Tensor:
    """[rows, kv_heads, group * length, head_dim] over [rows, kv_heads, context, dim]; the window is in the mask.

    `mask` says what is seen, or is added to the scores.
    """
    if style.is_plain:
        return scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=style.scaling)
    return _attend_explicitly(query, keys, values, mask, style)


def attend_by_products(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, style: AttentionStyle
) -> torch.Tensor:
    """The same for a style without softcap and sinks, in two batched products: the quickest on a CPU for few queries.

    `mask` [rows, kv_heads, 1 or group * length, context] is added to the scores.
    """
    keys, values = keys.flatten(0, 1), values.flatten(0, 1)
    scores = torch.baddbmm(mask.flatten(0, 1), query.flatten(0, 1), keys.transpose(1, 2), alpha=style.scale_of(query))
    return torch.bmm(torch.softmax(scores, dim=-1), values).unflatten(0, query.shape[:2])


def _attend_explicitly(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, style: AttentionStyle
) -> torch.Tensor:
    """Attention written out, for what the fused kernel lacks: soft-capped scores, and sinks.

    A sink is one more logit per head that takes its share of the softmax and gives nothing.
    """
    scores = query @ keys.transpose(-1, -2) * style.scale_of(query)
    if style.softcap is not None:
        scores = torch.tanh(scores / style.softcap) * style.softcap
    scores = (scores.masked_fill(~mask, float("-inf")) if mask.dtype is torch.bool else scores + mask).float()
    if style.sinks is not None:
        group_sinks = style.sinks.float().view(keys.shape[1], -1)  # [kv_heads, group]
        sinks = group_sinks.repeat_interleave(query.shape[2] // group_sinks.shape[1], dim=1)[None, :, :, None]
        scores = torch.cat([scores, sinks.expand(scores.shape[0], -1, -1, 1)], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : keys.shape[2]].to(values.dtype)
    return weights @ values
