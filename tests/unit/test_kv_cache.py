"""Rows of the cache take memory where they are written, and places name the same cells that spans do."""

from __future__ import annotations

import psutil
import pytest
import torch

from myserve_ui.engine.rows.kv_cache import KVCache, reserve_zeros

MIB = 1 << 20
ALIGNMENT = 64
"""Bytes: a cache line, as torch's own allocator keeps."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_reserved_zeros_are_aligned_zeros_that_take_no_memory_yet(dtype):
    process = psutil.Process()
    before = process.memory_full_info().uss
    zeros = reserve_zeros(torch.ones(1, dtype=dtype), 4, 2, 128 * MIB // (8 * dtype.itemsize), 1)
    assert process.memory_full_info().uss - before < 16 * MIB
    assert (zeros.dtype, zeros.nbytes, zeros.is_contiguous()) == (dtype, 128 * MIB, True)
    assert zeros.data_ptr() % ALIGNMENT == 0
    zeros[3, 1, -5:] = 7
    assert zeros[3, 1].sum() == 35
    assert not zeros[:3, :, :: 4096 // dtype.itemsize].any()


def test_a_row_that_is_long_costs_the_others_nothing():
    process = psutil.Process()
    cache = KVCache(16, 32768)
    states = torch.ones(4, 1, 64)
    cache.reserve([64] * 15 + [32768])
    before = process.memory_full_info().uss
    layer = cache.layer(0, states, states)
    layer.write_span(15, 0, states.expand(-1, 32768, -1), states.expand(-1, 32768, -1))
    written = 2 * 4 * 32768 * 64 * 4
    assert process.memory_full_info().uss - before < 1.3 * written
    assert layer.keys.nbytes == 16 * written / 2


def test_rows_of_few_tokens_take_what_they_hold_before_and_after_the_cache_grows():
    process = psutil.Process()
    cache, states = KVCache(16, 8192), torch.ones(8, 1, 64)
    cache.reserve([256] * 16)
    before = process.memory_full_info().uss
    for slot in range(16):
        cache.layer(0, states, states).write_span(slot, 0, states.expand(-1, 256, -1), states.expand(-1, 256, -1))
    written = 2 * 16 * 256 * 8 * 64 * 4
    assert process.memory_full_info().uss - before < 1.2 * written
    cache.reserve([256] * 15 + [4096])
    assert process.memory_full_info().uss - before < 1.2 * written


@torch.inference_mode()
def test_single_tokens_and_spans_land_in_the_same_cells():
    cache = KVCache(4, 512)
    cache.reserve([100, 100, 100])
    keys, values = torch.randn(2, 6, 8), torch.randn(2, 6, 4)
    by_span, by_place = cache.layer(0, keys, values), cache.layer(1, keys, values)
    slots, positions = torch.tensor([2, 2, 2, 0, 0, 0]), torch.tensor([7, 8, 9, 0, 1, 2])
    by_place.write_tokens(by_place.find_places(slots, positions), keys, values)
    by_span.write_span(2, 7, keys[:, :3], values[:, :3])
    by_span.write_span(0, 0, keys[:, 3:], values[:, 3:])
    assert torch.equal(by_span.keys, by_place.keys)
    assert torch.equal(by_span.values, by_place.values)
    assert torch.equal(by_place.keys[2, :, 8], keys[:, 1])
