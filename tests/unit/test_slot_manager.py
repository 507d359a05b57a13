"""Rows and tokens are never promised twice, and what is common is found again."""

import random

import pytest

from myserve_ui.engine.slot_manager import SlotCopy, SlotManager, common_prefix_length


def take(slots, token_ids, *, reuse=True):
    allocation = slots.allocate(token_ids, reuse=reuse)
    if allocation is not None:
        slots.record(allocation.slot, token_ids[allocation.num_cached_tokens :])
    return allocation


def test_a_budget_that_cannot_hold_one_sequence_is_refused():
    with pytest.raises(ValueError, match="cannot hold one sequence"):
        SlotManager(2, 512, 256)


def test_rows_run_out():
    slots = SlotManager(2, 128, 1024)
    assert take(slots, [1] * 10).slot != take(slots, [2] * 10).slot
    assert take(slots, [3] * 10) is None


def test_memory_runs_out_before_rows():
    slots = SlotManager(8, 128, 192)
    assert take(slots, list(range(100)))
    assert take(slots, list(range(200, 264)))
    assert take(slots, [7]) is None


def test_growth_allocates_memory_only_when_a_step_is_crossed():
    slots = SlotManager(2, 256, 256)
    slot = take(slots, [1] * 60).slot
    assert slots.grow(slot, 64)
    assert slots.used_tokens == 64
    assert slots.grow(slot, 65)
    assert slots.used_tokens == 128


def test_growth_takes_memory_back_from_kept_rows():
    slots = SlotManager(2, 128, 128)
    kept = take(slots, [1] * 60).slot
    slots.release(kept)
    slot = take(slots, [2] * 60).slot
    assert slots.grow(slot, 65)
    assert slots.kept_tokens == 0


def test_a_conversation_that_goes_on_takes_its_own_row_over():
    slots = SlotManager(4, 512, 2048)
    first = take(slots, list(range(100)))
    slots.release(first.slot)
    second = take(slots, list(range(120)))
    assert (second.slot, second.num_cached_tokens, second.copy) == (first.slot, 100, None)


def test_the_last_token_is_always_left_to_compute():
    slots = SlotManager(4, 512, 2048)
    slots.release(take(slots, list(range(100))).slot)
    assert take(slots, list(range(100))).num_cached_tokens == 99


def test_a_short_common_beginning_is_copied_and_the_long_row_kept():
    slots = SlotManager(4, 512, 2048)
    long = take(slots, [1] * 20 + [2] * 200)
    slots.release(long.slot)
    other = take(slots, [1] * 20 + [3] * 10)
    assert other.copy == SlotCopy(long.slot, other.slot, 20)
    assert slots.kept_tokens > 0


def test_a_live_row_is_copied_from():
    slots = SlotManager(4, 512, 2048)
    live = take(slots, list(range(50)))
    other = take(slots, [*list(range(50)), 9])
    assert other.copy == SlotCopy(live.slot, other.slot, 50)


def test_reuse_can_be_refused():
    slots = SlotManager(4, 512, 2048)
    slots.release(take(slots, list(range(50))).slot)
    assert take(slots, list(range(50)), reuse=False).num_cached_tokens == 0


def test_a_kept_row_that_is_in_the_way_of_its_own_reuse_is_given_up():
    slots = SlotManager(2, 256, 256)
    slots.release(take(slots, [1] * 10 + [2] * 140).slot)
    allocation = take(slots, [1] * 10 + [3] * 246)
    assert allocation is not None
    slots.check()


def test_a_failed_row_is_cleared_before_it_is_read_again():
    slots = SlotManager(2, 128, 256)
    slot = take(slots, [1] * 10).slot
    slots.release(slot, keep=False)
    assert slots.take_dirty() == (slot,)
    assert slots.take_dirty() == ()
    assert take(slots, [1] * 10).num_cached_tokens == 0


def test_a_row_that_is_yet_to_be_copied_from_is_not_dropped_in_the_same_step():
    slots = SlotManager(4, 256, 512)
    kept = take(slots, list(range(100))).slot
    slots.release(kept)
    copy = take(slots, [*range(40), 500, 501]).copy
    assert copy is not None and copy.source == kept
    assert take(slots, [900] * 250)
    assert take(slots, [901] * 100) is None
    assert slots.allocated()[kept] == 128
    slots.start_step()
    assert take(slots, [901] * 100)
    assert slots.allocated()[kept] == 0


def test_random_use_keeps_the_books_right():
    generator = random.Random(5)
    slots, owned = SlotManager(6, 256, 700), {}
    for _ in range(3000):
        if owned and generator.random() < 0.45:
            slot, tokens = generator.choice(list(owned.items()))
            if generator.random() < 0.5 and len(tokens) < 256 and slots.grow(slot, len(tokens) + 1):
                slots.record(slot, [1])
                tokens.append(1)
            else:
                slots.release(slot, keep=generator.random() < 0.8)
                del owned[slot]
        else:
            tokens = [generator.randrange(2) for _ in range(generator.randrange(1, 200))]
            if (allocation := take(slots, tokens)) is not None:
                assert allocation.slot not in owned
                owned[allocation.slot] = tokens
        slots.check()
    for slot in owned:
        slots.release(slot)
    assert slots.used_tokens == 0


@pytest.mark.parametrize(
    ("first", "second", "length"), [([], [1], 0), ([1, 2], [1, 2, 3], 2), ([1, 2, 9], [1, 2, 3], 2), ([5], [6], 0)]
)
def test_common_prefix_length(first, second, length):
    assert common_prefix_length(first, second) == length
