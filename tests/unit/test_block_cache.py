"""Blocks have one owner each, and what was written to a row is read from it, whatever came between."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st

from myserve_ui.engine.blocks.cache import MIN_BLOCKS, BlockCache
from myserve_ui.engine.blocks.tables import BLOCK_SIZE, SCRATCH, BlockTables, count_blocks

NUM_SLOTS, MAX_LEN = 4, 4 * BLOCK_SIZE
LENGTHS = st.integers(0, MAX_LEN)
SLOTS = st.integers(0, NUM_SLOTS - 1)
STEPS = st.one_of(
    st.tuples(st.just("write"), SLOTS, LENGTHS),
    st.tuples(st.just("release"), SLOTS, st.just(0)),
    st.tuples(st.just("copy"), SLOTS, SLOTS),
    st.tuples(st.just("trim"), SLOTS, st.just(0)),
)


def allocated_in(model):
    return [len(tokens) for tokens in model]


@torch.inference_mode()
def write(cache, slot, values, start=0):
    """Layer 0 gets the values, layer 1 their negatives; keys and values differ by a half."""
    places = torch.tensor([cache.tables.place(slot, start + index) for index in range(len(values))], dtype=torch.long)
    tokens = torch.tensor(values, dtype=torch.float32).view(-1, 1, 1)
    for index, sign in ((0, 1), (1, -1)):
        layer = cache.layer(index, tokens, tokens)
        layer.write(places, sign * tokens, sign * tokens + 0.5)


def read(cache, slot, length, layer=0):
    blocks = list(cache.tables[slot])
    keys, values = (
        pool[blocks].flatten()[:length] for pool in (cache._layers[layer].keys, cache._layers[layer].values)
    )
    assert torch.equal(keys + 0.5, values)
    return keys.tolist()


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=25))
def test_a_row_holds_what_a_list_would(steps):
    cache, model, counter = BlockCache(NUM_SLOTS, MAX_LEN), [[] for _ in range(NUM_SLOTS)], 0
    write(cache, 0, [])  # makes the layers
    for kind, slot, argument in steps:
        if kind == "write":
            kept = model[slot][: argument // 2]
            added = [float(counter + index + 1) for index in range(argument - len(kept))]
            counter += len(added)
            model[slot] = kept + added
            cache.reserve(allocated_in(model))
            write(cache, slot, added, start=len(kept))
        elif kind == "copy" and slot != argument:
            model[argument] = list(model[slot])
            cache.reserve(allocated_in(model))
            cache.copy_row(slot, argument, len(model[slot]))
        elif kind == "release":
            model[slot] = []
            cache.reserve(allocated_in(model))
        elif kind == "trim":
            cache.trim(allocated_in(model))
            assert cache.tables.num_blocks == 1 + sum(count_blocks(len(tokens)) for tokens in model)
        cache.tables.check()
        assert cache.tables.num_used == sum(count_blocks(len(tokens)) for tokens in model)
        for row, tokens in enumerate(model):
            assert read(cache, row, len(tokens)) == tokens
            assert read(cache, row, len(tokens), layer=1) == [-token for token in tokens]


def test_no_row_is_given_the_scratch_block():
    cache = BlockCache(NUM_SLOTS, MAX_LEN)
    cache.reserve([MAX_LEN] * NUM_SLOTS)
    assert all(SCRATCH not in cache.tables[slot] for slot in range(NUM_SLOTS))


def test_memory_follows_what_is_allocated_not_rows_times_the_longest():
    cache = BlockCache(64, 100 * BLOCK_SIZE)
    write(cache, 0, [])
    cache.reserve([100 * BLOCK_SIZE, *[BLOCK_SIZE] * 63])
    assert cache.tables.num_blocks == 1 + 100 + 63


def test_growth_goes_in_leaps_and_stops_at_the_bound():
    cache = BlockCache(NUM_SLOTS, 100 * BLOCK_SIZE)
    cache.reserve([1])
    assert cache.tables.num_blocks == MIN_BLOCKS
    cache.reserve([MIN_BLOCKS * BLOCK_SIZE])
    assert cache.tables.num_blocks == 2 * MIN_BLOCKS
    cache.bound(60 * BLOCK_SIZE, 40 * BLOCK_SIZE)
    cache.reserve([2 * MIN_BLOCKS * BLOCK_SIZE])
    assert cache.tables.num_blocks == 1 + 40 + NUM_SLOTS
    assert cache.max_blocks_per_row == 60


def test_the_version_tells_when_pools_move_and_only_then():
    cache = BlockCache(NUM_SLOTS, MAX_LEN)
    write(cache, 0, [])
    cache.reserve([10])
    version, address = cache.version, cache._layers[0].keys.data_ptr()
    cache.reserve([MAX_LEN, MAX_LEN])
    assert (cache.version, cache._layers[0].keys.data_ptr()) == (version, address)
    cache.trim([10])
    assert cache.version != version


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
def test_a_growth_that_fails_half_way_keeps_what_it_held(monkeypatch, fails_at):
    cache = BlockCache(NUM_SLOTS, 100 * BLOCK_SIZE)
    cache.reserve([300])
    write(cache, 0, list(range(300)))
    calls, make_zeros = [0], torch.Tensor.new_zeros

    def fail_once(tensor, *shape):
        calls[0] += 1
        if calls[0] == fails_at:
            raise torch.OutOfMemoryError
        return make_zeros(tensor, *shape)

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "new_zeros", fail_once)
        with pytest.raises(torch.OutOfMemoryError):
            cache.reserve([300, 90 * BLOCK_SIZE])
    cache.tables.check()
    assert read(cache, 0, 300) == list(range(300))
    cache.reserve([300, 90 * BLOCK_SIZE])
    write(cache, 1, list(range(1000, 1000 + 90 * BLOCK_SIZE)))
    assert read(cache, 0, 300) == list(range(300))
    assert read(cache, 1, 90 * BLOCK_SIZE, layer=1)[-1] == -(999 + 90 * BLOCK_SIZE)


def test_a_lost_block_is_noticed():
    tables = BlockTables(2)
    tables.enlarge(4)
    tables.grow([BLOCK_SIZE, BLOCK_SIZE])
    tables.check()
    tables._tables[0].clear()
    with pytest.raises(AssertionError, match="lost or has two owners"):
        tables.check()
