"""Kernels over blocks attend as the written-out formula does, and ask torch's flash kernel for what it can do."""

from __future__ import annotations

import itertools
import logging

import pytest
import torch

from myserve_ui.engine.blocks import flash_kernel as flash_block_kernel
from myserve_ui.engine.blocks.cache import LayerBlocks
from myserve_ui.engine.blocks.flash_kernel import FlashKernel, choose_kernel, try_kernel
from myserve_ui.engine.blocks.layout import BatchInputs
from myserve_ui.engine.blocks.plain_kernel import PlainKernel
from myserve_ui.engine.blocks.tables import BLOCK_SIZE
from myserve_ui.kernels.attention_formula import AttentionStyle

CPU = torch.device("cpu")
HEADS, KV_HEADS, HEAD_DIM, VALUE_DIM = 6, 2, 16, 24
LENGTHS, CONTEXTS = (1, 1, 7, 1, 20), (3, 400, 7, 256, 300)
TABLE = [[5, 0], [1, 7], [3, 0], [2, 0], [6, 4]]


def make_layer(generator, value_dim=VALUE_DIM, dtype=torch.float32):
    shape = (8, BLOCK_SIZE, KV_HEADS)
    keys = torch.randn(*shape, HEAD_DIM, generator=generator).to(dtype)
    return LayerBlocks(keys, torch.randn(*shape, value_dim, generator=generator).to(dtype))


def make_layout(lengths=LENGTHS, contexts=CONTEXTS, table=TABLE):
    sequences = [
        *itertools.accumulate(lengths, initial=0),
        *itertools.accumulate(contexts, initial=0),
        *contexts,
        *itertools.chain.from_iterable(table),
    ]
    tokens = torch.zeros(3, sum(lengths), dtype=torch.long)
    return BatchInputs(tokens, torch.tensor(sequences, dtype=torch.int32), lengths, max(contexts)).layout


def written_out(queries, layer, layout, style):
    """Query by query and head by head, in float64."""
    rows, first = [], 0
    for length, context, table in zip(
        layout.lengths, layout.contexts.tolist(), layout.block_table.tolist(), strict=True
    ):
        keys, values = (pool[table].flatten(0, 1)[:context].double() for pool in (layer.keys, layer.values))
        for offset in range(length):
            position = context - length + offset
            start = 0 if style.window is None else max(0, position - style.window + 1)
            rows.append(
                [
                    one_head(
                        queries[first + offset, head].double(),
                        keys[start : position + 1],
                        values[start : position + 1],
                        head,
                        style,
                    )
                    for head in range(queries.shape[1])
                ]
            )
        first += length
    return torch.stack([torch.stack(row) for row in rows])


def one_head(query, keys, values, head, style):
    group = HEADS // KV_HEADS
    scores = keys[:, head // group] @ query * (style.scaling or HEAD_DIM**-0.5)
    if style.softcap is not None:
        scores = style.softcap * torch.tanh(scores / style.softcap)
    if style.sinks is not None:
        scores = torch.cat([scores, style.sinks[head : head + 1].double()])
    return torch.softmax(scores, 0)[: len(values)] @ values[:, head // group]


STYLES = {
    "plain": AttentionStyle(),
    "scaled": AttentionStyle(scaling=0.5),
    "window": AttentionStyle(window=9),
    "softcap": AttentionStyle(softcap=2.0),
    "sinks": AttentionStyle(sinks=torch.linspace(-1, 2, HEADS)),
    "all": AttentionStyle(0.3, 300, 1.5, torch.linspace(0, 3, HEADS)),
}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_the_plain_kernel_does_the_formula(style):
    generator = torch.Generator().manual_seed(1)
    layer, layout = make_layer(generator), make_layout()
    queries = torch.randn(sum(LENGTHS), HEADS, HEAD_DIM, generator=generator)
    attended = PlainKernel().attend(queries, layer, layout, style)
    assert attended.shape == (sum(LENGTHS), HEADS, VALUE_DIM)
    assert torch.allclose(attended.double(), written_out(queries, layer, layout, style), atol=1e-5)


def test_the_plain_kernel_reads_nothing_beyond_a_context():
    generator = torch.Generator().manual_seed(2)
    layer, layout = make_layer(generator), make_layout()
    queries = torch.randn(sum(LENGTHS), HEADS, HEAD_DIM, generator=generator)
    expected = PlainKernel().attend(queries, layer, layout, AttentionStyle())
    for row, context in zip(TABLE, CONTEXTS, strict=True):
        for pool in (layer.keys, layer.values):
            pool[row[context // BLOCK_SIZE], context % BLOCK_SIZE :] = torch.nan
    layer.keys[0], layer.values[0] = torch.nan, torch.nan
    assert torch.equal(PlainKernel().attend(queries, layer, layout, AttentionStyle()), expected)


def varlen_by_its_documentation(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, **options):
    """torch.nn.attention.varlen.varlen_attn in loops, with what torch 2.13 checks on a device."""
    window, table, used = options["window_size"], options["block_table"], options["seqused_k"]
    assert query.dtype in (torch.float16, torch.bfloat16) and key.dtype == value.dtype == query.dtype
    assert all(tensor.dtype == torch.int32 for tensor in (cu_seq_q, cu_seq_k, table, used))
    assert all(tensor.is_contiguous() for tensor in (cu_seq_q, cu_seq_k, used)) and table.stride(-1) == 1
    assert len(cu_seq_q) == len(cu_seq_k) == len(used) + 1 == len(table) + 1
    assert query.stride(-1) == key.stride(-1) == 1 and key.shape[1] % 256 == 0 and query.shape[-1] % 8 == 0
    assert options["enable_gqa"] == (query.shape[1] != key.shape[2])
    assert options["num_splits"] == 1
    assert max_q >= cu_seq_q.diff().max() and max_k >= used.max() and table.shape[1] * key.shape[1] >= max_k
    parts = []
    for index, context in enumerate(used.tolist()):
        queries = query[cu_seq_q[index] : cu_seq_q[index + 1]].float().transpose(0, 1)
        group = query.shape[1] // key.shape[2]
        keys, values = (
            pool[table[index].long()].flatten(0, 1)[:context].float().repeat_interleave(group, 1).transpose(0, 1)
            for pool in (key, value)
        )
        distance = torch.arange(context)[None] - torch.arange(context - queries.shape[1], context)[:, None]
        hidden = torch.zeros_like(distance, dtype=torch.bool)
        hidden |= (distance < -window[0]) if window[0] >= 0 else False
        hidden |= (distance > window[1]) if window[1] >= 0 else False
        scale = query.shape[-1] ** -0.5 if options["scale"] is None else options["scale"]
        scores = (queries @ keys.transpose(1, 2) * scale).masked_fill(hidden, -torch.inf)
        parts.append((torch.softmax(scores, -1) @ values).transpose(0, 1))
    return torch.cat(parts).to(query.dtype)


@pytest.mark.parametrize("lengths", [LENGTHS, (1,) * 5], ids=["mixed", "decode"])
@pytest.mark.parametrize(
    "style", [AttentionStyle(), AttentionStyle(0.4), AttentionStyle(window=9), AttentionStyle(window=1)]
)
def test_the_flash_kernel_is_asked_for_what_the_formula_says(monkeypatch, style, lengths):
    monkeypatch.setattr(flash_block_kernel, "varlen_attn", varlen_by_its_documentation)
    generator = torch.Generator().manual_seed(3)
    layer, layout = make_layer(generator, HEAD_DIM, torch.float16), make_layout(lengths)
    queries = torch.randn(sum(lengths), HEADS, HEAD_DIM, generator=generator).half()
    assert FlashKernel().suits(queries, layer, style)
    attended = FlashKernel().attend(queries, layer, layout, style)
    assert torch.allclose(attended.double(), written_out(queries, layer, layout, style), atol=5e-3)


def test_torch_s_own_function_takes_what_the_flash_kernel_gives_it():
    layer = LayerBlocks(
        *(torch.zeros(8, BLOCK_SIZE, KV_HEADS, HEAD_DIM, dtype=torch.float16, device="meta") for _ in "kv")
    )
    queries = torch.zeros(sum(LENGTHS), HEADS, HEAD_DIM, dtype=torch.float16, device="meta")
    attended = FlashKernel().attend(queries, layer, make_layout().on(torch.device("meta")), AttentionStyle(window=4))
    assert attended.shape == queries.shape


@pytest.mark.parametrize(
    ("style", "dtype", "head_dim", "value_dim"),
    [
        (AttentionStyle(softcap=1.0), torch.float16, 16, 16),
        (AttentionStyle(sinks=torch.zeros(6)), torch.float16, 16, 16),
        (AttentionStyle(), torch.float32, 16, 16),
        (AttentionStyle(), torch.float16, 20, 20),
        (AttentionStyle(), torch.float16, 264, 264),
        (AttentionStyle(), torch.float16, 16, 24),
    ],
)
def test_the_flash_kernel_knows_what_it_lacks(style, dtype, head_dim, value_dim):
    layer = LayerBlocks(torch.zeros(1, 256, 2, head_dim, dtype=dtype), torch.zeros(1, 256, 2, value_dim, dtype=dtype))
    assert not FlashKernel().suits(torch.zeros(1, 6, head_dim, dtype=dtype), layer, style)


def test_a_cpu_and_float32_get_the_plain_kernel():
    assert isinstance(choose_kernel(CPU, torch.bfloat16), PlainKernel)
    assert isinstance(choose_kernel(torch.device("cuda"), torch.float32), PlainKernel)


@pytest.fixture
def on_a_new_gpu(monkeypatch):
    """A device that says it can, its tensors on the CPU."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(flash_block_kernel, "try_kernel", lambda kernel, device, dtype: try_kernel(kernel, CPU, dtype))
    return torch.device("cuda")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_flash_kernel_is_chosen_if_the_trial_is_right(monkeypatch, on_a_new_gpu, dtype):
    monkeypatch.setattr(flash_block_kernel, "varlen_attn", varlen_by_its_documentation)
    assert isinstance(choose_kernel(on_a_new_gpu, dtype), FlashKernel)


def leaves_a_row_unwritten(*arguments, **options):
    attended = varlen_by_its_documentation(*arguments, **options)
    attended[1] = torch.nan
    return attended


def sees_one_token_less(*arguments, **options):
    return varlen_by_its_documentation(*arguments, **(options | {"seqused_k": options["seqused_k"] - 1}))


def is_not_built_in(*arguments, **options):
    raise RuntimeError("This build does not support flash attention")


@pytest.mark.parametrize("kernel", [leaves_a_row_unwritten, sees_one_token_less, is_not_built_in])
def test_a_flash_kernel_that_fails_the_trial_is_put_aside_with_a_line(monkeypatch, on_a_new_gpu, caplog, kernel):
    monkeypatch.setattr(flash_block_kernel, "varlen_attn", kernel)
    with caplog.at_level(logging.WARNING):
        assert isinstance(choose_kernel(on_a_new_gpu, torch.bfloat16), PlainKernel)
    assert len(caplog.records) == 1
    assert "attention will be slow" in caplog.text
