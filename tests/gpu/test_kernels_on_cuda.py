"""The flash kernel of this torch on this device does what the plain one does, eagerly and in a captured graph."""

from __future__ import annotations

import pytest
import torch

from myserve_ui.engine.blocks.cache import LayerBlocks
from myserve_ui.engine.blocks.decode_graphs import CudaRecorder
from myserve_ui.engine.blocks.flash_kernel import TOLERANCE, FlashKernel, choose_kernel, try_kernel
from myserve_ui.engine.blocks.plain_kernel import PlainKernel
from myserve_ui.engine.blocks.tables import BLOCK_SIZE
from myserve_ui.kernels.attention_formula import AttentionStyle
from tests.unit.test_block_kernels import CONTEXTS, LENGTHS, TABLE, make_layout

pytestmark = pytest.mark.gpu
DTYPES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_flash_kernel_passes_its_trial_where_the_device_has_it(device, dtype):
    if torch.cuda.get_device_capability(device) < (8, 0):
        pytest.skip("the flash kernel needs compute capability 8.0")
    assert try_kernel(FlashKernel(), device, dtype) <= TOLERANCE
    assert isinstance(choose_kernel(device, dtype), FlashKernel)


@pytest.mark.parametrize("heads", [(2, 2), (6, 2), (8, 1)], ids=["all heads", "grouped", "one key head"])
@pytest.mark.parametrize("head_dim", [24, 64, 128, 256])
@pytest.mark.parametrize("lengths", [LENGTHS, (1,) * 5], ids=["mixed", "decode"])
@pytest.mark.parametrize(
    "style", [AttentionStyle(), AttentionStyle(0.3), AttentionStyle(window=9), AttentionStyle(window=300)]
)
def test_flash_and_plain_agree_with_nan_beyond_every_context(device, style, lengths, head_dim, heads):
    num_heads, kv_heads = heads
    generator = torch.Generator().manual_seed(4)
    pools = [torch.randn(8, BLOCK_SIZE, kv_heads, head_dim, generator=generator) for _ in "kv"]
    for row, context in zip(TABLE, CONTEXTS, strict=True):
        for pool in pools:
            pool[row[context // BLOCK_SIZE], context % BLOCK_SIZE :] = torch.nan
    queries = torch.randn(sum(lengths), num_heads, head_dim, generator=generator).to(device, torch.bfloat16)
    layer = LayerBlocks(*(pool.to(device, torch.bfloat16) for pool in pools))
    exact = LayerBlocks(layer.keys.float(), layer.values.float())
    layout = make_layout(lengths).on(device)
    expected = PlainKernel().attend(queries.float(), exact, layout, style)
    assert (FlashKernel().attend(queries, layer, layout, style) - expected).abs().max().item() <= TOLERANCE


def test_a_captured_call_follows_the_contexts_that_its_buffers_hold(device):
    layer = LayerBlocks(*(torch.randn(8, BLOCK_SIZE, 2, 64, device=device, dtype=torch.bfloat16) for _ in "kv"))
    queries = torch.randn(5, 6, 64, device=device, dtype=torch.bfloat16)
    layout = make_layout((1,) * 5).on(device)
    recording = CudaRecorder(device).record(lambda: FlashKernel().attend(queries, layer, layout, AttentionStyle()))
    for contexts in ((3, 400, 7, 256, 300), (1, 1, 1, 1, 1), (200, 511, 100, 256, 512)):
        layout.contexts.copy_(torch.tensor(contexts, dtype=torch.int32))
        recording.replay()
        plain = PlainKernel().attend(queries, layer, make_layout((1,) * 5, contexts).on(device), AttentionStyle())
        assert (recording.output - plain).abs().max().item() <= TOLERANCE


def test_what_waits_for_the_device_cannot_be_captured_and_the_stream_is_as_before(device):
    number, before = torch.ones(1, device=device), torch.cuda.current_stream()
    with pytest.raises(RuntimeError):
        CudaRecorder(device).record(lambda: number * number.item())
    assert torch.cuda.current_stream() == before
    assert (number + 1).item() == 2.0
