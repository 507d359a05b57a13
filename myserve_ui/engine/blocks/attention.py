"""The attention function over blocks: writes keys and values to their blocks, then attends for all rows in one call.

The batch is one flat row of tokens, [1, num_tokens], decode rows and chunks of prompts alike. Which kernel attends is
handed in; what that kernel cannot do is left to the plain one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from transformers import AttentionInterface

from myserve_ui.engine.blocks.cache import BlockCache, LayerBlocks
from myserve_ui.engine.blocks.layout import BlockLayout
from myserve_ui.engine.blocks.plain_kernel import PlainKernel
from myserve_ui.engine.module.current_batch import current_batch
from myserve_ui.engine.module.positions import Temperature
from myserve_ui.kernels.attention_formula import AttentionStyle, Sight, read_style

ATTENTION_NAME = "myserve_blocks"


class BlockKernel(Protocol):
    """Attention over blocks, for all sequences of a batch."""

    def suits(self, queries: torch.Tensor, layer: LayerBlocks, style: AttentionStyle) -> bool:
        """True if this kernel can do what the layer asks for."""
        ...

    def attend(
        self, queries: torch.Tensor, layer: LayerBlocks, layout: BlockLayout, style: AttentionStyle
    ) -> torch.Tensor:
        """[num_tokens, heads, head_dim] -> [num_tokens, heads, value_dim]; reads nothing beyond the contexts."""
        ...


@dataclass(slots=True)
class BlockBatch:
    """What the attention function needs to know of one forward."""

    cache: BlockCache
    layout: BlockLayout
    kernel: BlockKernel
    positions: torch.Tensor  # [num_tokens]
    sights: Mapping[int, Sight] = field(default_factory=dict)
    """What each layer lets a token see, by its number."""
    temperatures: Mapping[int, Temperature] = field(default_factory=dict)
    plain_layers: set[int] = field(default_factory=set)
    """Layers whose attention the kernel could not do."""
    _layouts: dict[torch.device, BlockLayout] = field(default_factory=dict)

    def layout_on(self, device: torch.device) -> BlockLayout:
        """The layout on the device of a layer, copied there once."""
        if device not in self._layouts:
            self._layouts[device] = self.layout.on(device)
        return self._layouts[device]


def register_block_attention() -> None:
    """Make the attention function known to transformers under ATTENTION_NAME; no mask function goes with it."""
    AttentionInterface.register(ATTENTION_NAME, attend)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,  # [1, heads, num_tokens, head_dim]
    key: torch.Tensor,  # [1, kv_heads, num_tokens, head_dim]
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one layer over the whole batch; returns [1, num_tokens, heads, head_dim].

    `options` are what the model gives its attention: scaling, sliding_window, softcap, s_aux (sinks).
    """
    batch, index = current_batch(), int(module.layer_idx)  # type: ignore[arg-type]
    assert isinstance(batch, BlockBatch)
    style = read_style(batch.sights.get(index), **options)
    keys, values = key[0].transpose(0, 1), value[0].transpose(0, 1)  # [num_tokens, kv_heads, head_dim]
    layer, layout = batch.cache.layer(index, keys, values), batch.layout_on(key.device)
    layer.write(layout.slot_mapping, keys, values)
    queries = query[0].transpose(0, 1)  # [num_tokens, heads, head_dim]
    if (temperature := batch.temperatures.get(index)) is not None:
        queries = temperature.tuned(queries, batch.positions.to(queries.device))
    if not batch.kernel.suits(queries, layer, style):
        batch.plain_layers.add(index)
        return PlainKernel().attend(queries, layer, layout, style)[None], None
    return batch.kernel.attend(queries, layer, layout, style)[None], None
