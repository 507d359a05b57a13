"""Attention over blocks by the flash kernel that comes with torch: one call for a batch of any shape. CUDA only."""

from __future__ import annotations

import itertools
import logging

import torch
from torch.nn.attention.varlen import varlen_attn

from myserve_ui.engine.blocks.attention import BlockKernel
from myserve_ui.engine.blocks.cache import LayerBlocks
from myserve_ui.engine.blocks.layout import BatchInputs, BlockLayout
from myserve_ui.engine.blocks.plain_kernel import PlainKernel
from myserve_ui.engine.blocks.tables import BLOCK_SIZE
from myserve_ui.kernels.attention_formula import AttentionStyle

logger = logging.getLogger(__name__)

LEAST_CAPABILITY = (8, 0)
DTYPES = (torch.float16, torch.bfloat16)
MAX_HEAD_DIM, HEAD_DIM_STEP = 256, 8
TOLERANCE = 5e-2
"""Largest difference allowed in the trial: numbers near 2, rounded to 8 bits a few times. A wrong read gives 1."""


class FlashKernel:
    """torch.nn.attention.varlen over block tables. Reads all lengths on the device, so that a graph can replay it."""

    def suits(self, queries: torch.Tensor, layer: LayerBlocks, style: AttentionStyle) -> bool:
        """16 bits, heads of whole steps and equal size for keys and values, no chunks, soft cap or sinks."""
        head_dim = queries.shape[-1]
        return (
            queries.dtype in DTYPES
            and layer.keys.dtype == layer.values.dtype == queries.dtype
            and head_dim == layer.values.shape[-1]
            and head_dim <= MAX_HEAD_DIM
            and head_dim % HEAD_DIM_STEP == 0
            and style.chunk is None
            and style.softcap is None
            and style.sinks is None
        )

    def attend(
        self, queries: torch.Tensor, layer: LayerBlocks, layout: BlockLayout, style: AttentionStyle
    ) -> torch.Tensor:
        """[num_tokens, heads, head_dim] -> the same shape."""
        attended = varlen_attn(
            queries,
            layer.keys,
            layer.values,
            layout.query_starts,
            layout.context_starts,  # with contexts given it marks the lengths as uneven, which keeps reads in bounds
            layout.max_length,
            layout.max_context,
            scale=style.scaling,
            window_size=_window(style.window, layout.max_length),
            enable_gqa=queries.shape[1] != layer.keys.shape[2],
            seqused_k=layout.contexts,
            block_table=layout.block_table,
            num_splits=1,  # with more, torch 2.13 leaves rows of paged batches unwritten (pytorch issue 194167)
        )
        assert isinstance(attended, torch.Tensor)  # a pair only if more is asked for
        return attended


def choose_kernel(device: torch.device, dtype: torch.dtype) -> BlockKernel:
    """The flash kernel where the device has it and it passes a trial against the plain one; else the plain one."""
    if device.type != "cuda" or torch.version.hip is not None or dtype not in DTYPES:
        return PlainKernel()
    if torch.cuda.get_device_capability(device) < LEAST_CAPABILITY:
        return PlainKernel()
    try:
        difference = try_kernel(FlashKernel(), device, dtype)
    except RuntimeError as error:
        logger.warning("The flash kernel over blocks cannot be used, attention will be slow: %s", error)
        return PlainKernel()
    if not difference <= TOLERANCE:
        logger.warning("The flash kernel over blocks is wrong by %.3g here; attention will be slow.", difference)
        return PlainKernel()
    return FlashKernel()


@torch.inference_mode()
def try_kernel(kernel: BlockKernel, device: torch.device, dtype: torch.dtype) -> float:
    """Largest difference from the plain kernel in float32: decode rows alone, and with a chunk of a prompt."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(device, dtype)

    layer = LayerBlocks(random(6, BLOCK_SIZE, 2, 64), random(6, BLOCK_SIZE, 2, 64))
    exact = LayerBlocks(layer.keys.float(), layer.values.float())
    differences = []
    for lengths, window in itertools.product(((1, 1, 1), (1, 1, 40)), (None, 30)):
        layout, style = _trial_layout(lengths, device), AttentionStyle(window=window)
        queries = random(sum(lengths), 6, 64)
        expected = PlainKernel().attend(queries.float(), exact, layout, style)
        differences.append((kernel.attend(queries, layer, layout, style) - expected).abs().max())
    return torch.stack(differences).max().item()


def _trial_layout(lengths: tuple[int, ...], device: torch.device) -> BlockLayout:
    """Contexts of 300, 5 and 511 tokens in blocks that are in no order."""
    contexts, table = [300, 5, 511], [4, 1, 3, 0, 5, 2]
    starts = [sum(lengths[:count]) for count in range(len(lengths) + 1)]
    sequences = torch.tensor([*starts, 0, 300, 305, 816, *contexts, *table], dtype=torch.int32)
    tokens = torch.zeros(3, sum(lengths), dtype=torch.long)
    return BatchInputs(tokens, sequences, lengths, max(contexts)).to(device).layout


def _window(window: int | None, max_length: int) -> tuple[int, int]:
    """(tokens before, tokens after) that a query sees.

    A lone query sees all there is: saying no more than that lets the kernel fold grouped heads together.
    """
    if window is not None:
        return window - 1, 0
    return (-1, -1) if max_length == 1 else (-1, 0)
