"""What a module does by the positions of its tokens, done for each sequence of a flat batch by its own.

Rotary embeddings whose frequencies depend on the length at hand: the modules of transformers take the longest position
of the whole forward for the length. Tokens of one kind (rotary_rule.py) are given to the module together, and with them
a position that says how long their text is.

Queries that are scaled by their position (Llama 4): the layer counts positions from the first token of the forward,
which is anybody's, so the attention function scales them instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from myserve_ui.engine.module.rotary_rule import RotaryRule
from myserve_ui.engine.scheduler import ScheduledBatch

GROWING, SWITCHING = "dynamic", "longrope"


class SequenceRotary:
    """The rotary `parts` of a module whose frequencies depend on a length."""

    def __init__(self, module: torch.nn.Module, parts: list[torch.nn.Module]) -> None:
        self.rule = _read_rule(module, parts)
        self._kinds: list[int] | None = None
        for part in parts:
            part.forward = self._by_kind(part.forward)

    @contextmanager
    def of(self, batch: ScheduledBatch) -> Iterator[None]:
        """Inside the block, a forward is of `batch`; outside, the parts do what they always did."""
        self._kinds = [
            kind
            for chunk in batch.chunks
            for kind in self.rule.kinds(chunk.sequence, chunk.start, chunk.start + chunk.length)
        ]
        try:
            yield
        finally:
            self._kinds = None

    def _by_kind(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def rotate(hidden: torch.Tensor, position_ids: torch.Tensor, *others: Any, **options: Any) -> Any:
            if self._kinds is None:
                return forward(hidden, position_ids, *others, **options)
            parts = []
            filling = position_ids.shape[1] - len(self._kinds)  # tokens of nobody, at the end
            kinds = self._kinds + self._kinds[-1:] * filling
            for kind in (present := sorted(set(kinds))):
                places = [place for place, own in enumerate(kinds) if own == kind]
                forward(hidden, torch.zeros_like(position_ids[:, :1]), *others, **options)  # forget longer texts
                positions = _with_length(position_ids[:, places], kind)
                parts.append((places, forward(hidden, positions, *others, **options)))
            return parts[0][1] if present == [0] else _merged(parts, position_ids.shape[1])

        return rotate


def _with_length(positions: torch.Tensor, kind: int) -> torch.Tensor:
    """One more position, the last of a text of that length; its result is not used."""
    return positions if not kind else torch.cat((positions, positions.new_full((1, 1), kind - 1)), dim=1)


def _merged(parts: Sequence[tuple[list[int], Any]], num_tokens: int) -> Any:
    """Results of the kinds, tensors [1, tokens, ...] or tuples of them, as one of the whole batch."""
    if isinstance(parts[0][1], torch.Tensor):
        first = parts[0][1]
        whole = first.new_empty((first.shape[0], num_tokens, *first.shape[2:]))
        for places, result in parts:
            whole[:, places] = result[:, : len(places)]
        return whole
    columns = zip(*(result for _, result in parts), strict=True)
    return tuple(
        _merged([(places, one) for (places, _), one in zip(parts, column, strict=True)], num_tokens)
        for column in columns
    )


def take_over_rotary(module: torch.nn.Module) -> SequenceRotary | None:
    """None for a module whose frequencies depend on no length."""
    parts = [part for part in module.modules() if _rope_types(part) & {GROWING, SWITCHING}]
    return SequenceRotary(module, parts) if parts else None


def _read_rule(module: torch.nn.Module, parts: list[torch.nn.Module]) -> RotaryRule:
    switches = {int(each) for part in parts for each in _switches(part)}
    grows = [int(part.original_max_seq_len) for part in parts if GROWING in _rope_types(part)]  # type: ignore[arg-type]
    return RotaryRule(
        tuple(sorted(switches)), min(grows, default=None), restarts=bool(switches) and _computes_anew(module)
    )


def _rope_types(part: torch.nn.Module) -> set[str]:
    """One for all layers, or one for each type of layer; anything that grows is called dynamic."""
    stated = getattr(part, "rope_type", None)
    names = stated.values() if isinstance(stated, dict) else [stated]
    return {GROWING if isinstance(name, str) and GROWING in name else str(name) for name in names}


def _switches(part: Any) -> Iterator[int]:
    parameters = part.config.rope_parameters
    if not isinstance(part.rope_type, dict):
        parameters = {None: parameters}
    for each in parameters.values():
        if isinstance(each, dict) and each.get("rope_type") == SWITCHING:
            yield each["original_max_position_embeddings"]


def _computes_anew(module: Any) -> bool:
    """Whether `generate` drops the cache at the switch.

    transformers does so where a family prepares its inputs itself and its configuration has the original length.
    """
    inherited = {base.__dict__.get("prepare_inputs_for_generation") for base in type(module).__mro__[1:]}
    own = type(module).__dict__.get("prepare_inputs_for_generation")
    return own is not None and own not in inherited and hasattr(module.config, "original_max_position_embeddings")


@dataclass(frozen=True, slots=True)
class Temperature:
    """How one layer scales its queries."""

    floor_scale: float
    attn_scale: float

    def scales(self, positions: torch.Tensor) -> torch.Tensor:
        """[tokens] -> [tokens], one for every token below `floor_scale`."""
        return torch.log1p(torch.floor((positions.float() + 1.0) / self.floor_scale)) * self.attn_scale + 1.0

    def tuned(self, queries: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Queries [tokens, heads, head_dim] at `positions`."""
        return (queries * self.scales(positions)[:, None, None]).to(queries.dtype)


def take_over_temperatures(module: torch.nn.Module) -> dict[int, Temperature]:
    """By the number of the layer. The layers leave their queries alone from now on."""
    taken = {}
    for part in module.modules():
        layer: Any = part
        if getattr(layer, "attn_temperature_tuning", False) and hasattr(layer, "floor_scale"):
            if not layer.use_rope:
                taken[int(layer.layer_idx)] = Temperature(float(layer.floor_scale), float(layer.attn_scale))
            layer.attn_temperature_tuning = False
    return taken


def give_back(module: torch.nn.Module, taken: dict[int, Temperature]) -> None:
    """The layers scale their queries themselves again."""
    for part in module.modules() if taken else ():
        layer: Any = part
        if hasattr(layer, "attn_temperature_tuning"):
            layer.attn_temperature_tuning = True
