"""What each layer of a module lets a token see, read from the masks that the module makes for itself.

A window, or a chunk outside of which nothing is seen, need not reach attention as a keyword: in most families it is in
the mask alone, and a flat batch has no use for the module's mask. So one short forward is run with a mask function that
keeps the rule by which a mask would be made. The rule is a function of positions: it is asked on both sides of the
length at which it should begin, however long that is, so what is read holds at lengths that are too long to try out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface

from myserve_ui.engine.module.current_batch import computing, current_batch
from myserve_ui.kernels.attention_formula import Sight

READING_NAME = "myserve_mask_reading"
TOKEN_IDS = (5, 6, 7)
FAR = 4096
"""Where a rule that names no length is asked, too."""

KEEPING = (torch.Tensor.__getitem__, torch.Tensor.to, torch.Tensor.expand, torch.Tensor.contiguous, torch.Tensor.clone)
"""What is done to a mask without changing what it says."""

Rule = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Of batch, head, position of the query and of the key: whether it is seen."""


class ReadMask(torch.Tensor):
    """A mask that remembers its rule; a part or a copy of it does too, and what is computed from it forgets."""

    sight: Sight | None = None
    looks_ahead = False

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func in KEEPING and isinstance(result, ReadMask) and isinstance(args[0], ReadMask):
            result.sight, result.looks_ahead = args[0].sight, args[0].looks_ahead
        return result


@dataclass(slots=True)
class MaskReading:
    """What one forward showed, by the number of the layer."""

    sights: dict[int, Sight] = field(default_factory=dict)
    unread: set[int] = field(default_factory=set)
    """Layers whose mask follows no rule that the engine knows."""
    ahead: set[int] = field(default_factory=set)
    """Layers in which a token sees those after it."""
    repeated: set[int] = field(default_factory=set)
    """Layers that attended more than once: one row of keys and values would not do."""
    is_unnumbered: bool = False
    """Whether something attended that is no layer with a number."""

    @property
    def lengths(self) -> set[int]:
        """Every window and chunk."""
        return {length for sight in self.sights.values() for length in (sight.window, sight.chunk) if length}


@torch.inference_mode()
def read_masks(module: torch.nn.Module, forward: Callable[..., Any]) -> MaskReading:
    """Run `forward`, which calls `module`, on a few tokens. The module's attention is another one afterwards."""
    AttentionInterface.register(READING_NAME, _note_mask)
    AttentionMaskInterface.register(READING_NAME, _keep_rule)
    module.set_attn_implementation(READING_NAME)  # type: ignore[operator]
    device = module.get_input_embeddings().weight.device  # type: ignore[operator]
    reading = MaskReading()
    with computing(reading):
        token_ids = torch.tensor([TOKEN_IDS], device=device)
        forward(input_ids=token_ids, position_ids=torch.arange(len(TOKEN_IDS), device=device)[None], use_cache=False)
    return reading


def _note_mask(
    module: torch.nn.Module,
    query: torch.Tensor,  # [1, heads, tokens, head_dim]
    key: torch.Tensor,
    value: torch.Tensor,  # [1, kv_heads, tokens, value_dim]
    attention_mask: Any,
    **_options: Any,
) -> tuple[torch.Tensor, None]:
    """Stands for attention; what it returns has the right shape and no meaning."""
    reading, number = current_batch(), getattr(module, "layer_idx", None)
    assert isinstance(reading, MaskReading)
    reading.is_unnumbered |= number is None
    index = -1 if number is None else int(number)
    if index in reading.sights or index in reading.unread:
        reading.repeated.add(index)
    if attention_mask is None:
        reading.sights[index] = Sight()
    elif (sight := getattr(attention_mask, "sight", None)) is not None:
        reading.sights[index] = sight
    else:
        reading.unread.add(index)
        if getattr(attention_mask, "looks_ahead", False):
            reading.ahead.add(index)
    shape = (*query.shape[:1], query.shape[2], query.shape[1], value.shape[-1])
    return query.new_zeros(shape), None


def _keep_rule(
    batch_size: int,
    q_length: int,
    kv_length: int,
    mask_function: Rule,
    local_size: int | None = None,
    **options: Any,
) -> ReadMask:
    device = options.get("device", "cpu")
    seen = _ask(mask_function, torch.arange(q_length, device=device), torch.arange(kv_length, device=device))
    mask = seen.expand(batch_size, 1, q_length, kv_length).as_subclass(ReadMask)
    mask.looks_ahead = bool(seen.triu(1).any())
    mask.sight = read_sight(mask_function, local_size, device=device)
    return mask


def read_sight(rule: Rule, length: int | None, *, device: torch.device | str = "cpu") -> Sight | None:
    """What a mask rule means, given the `length` it is said to be about; None if it is none of those we know."""
    near = (0, 1, 2, 63, 64, FAR - 1)
    around = (offset + times * (length or 0) for times in (1, 2, 3) for offset in (-2, -1, 0, 1))
    rows = torch.tensor(sorted({*near, *(row for row in around if row > 0)}), device=device)
    columns = torch.arange(int(rows.max()) + 3, device=device)
    try:
        seen = _ask(rule, rows, columns)[0, 0].expand(len(rows), len(columns))
    except (IndexError, RuntimeError):
        return None  # it asks more than positions: which tokens these are
    first = seen.int().argmax(dim=1)
    if not torch.equal(seen, (columns >= first[:, None]) & (columns <= rows[:, None])):
        return None
    for sight in (Sight(), Sight(window=length), Sight(chunk=length)):
        if torch.equal(first, sight.first_seen(rows).clamp_min(0)):
            return sight
    return None


def _ask(rule: Rule, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """[1, 1, rows, columns] what the rule says."""
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.long, device=rows.device)
    return rule(zero, zero, rows[None, None, :, None], columns[None, None, None])
