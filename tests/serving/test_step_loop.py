"""Who wants turns gets them, in turns, on one thread; work of its own kind leaves no thread behind."""

import asyncio
import itertools
import threading
import weakref

import pytest
import torch

from myserve_ui.serving.step_loop import StepLoop, on_own_thread

PATIENCE = 10.0


class Worker:
    """Wants `turns` turns, then leaves."""

    def __init__(self, name, turns, log, *, wants=True):
        self.name, self.turns, self.log, self.wants_turn = name, turns, log, wants
        self.left = threading.Event()

    def take_turn(self):
        self.log.append((self.name, threading.get_ident()))
        self.turns -= 1
        if not self.turns:
            self.left.set()
        return self.turns > 0


def test_two_that_want_every_turn_alternate_on_one_thread():
    log = []
    first, second = Worker("a", 200, log), Worker("b", 200, log)
    loop = StepLoop("test")
    loop.add(first)
    loop.add(second)
    assert first.left.wait(PATIENCE)
    assert second.left.wait(PATIENCE)
    names = [name for name, _ in log]
    both = names[names.index("b") : len(names) - names[::-1].index("a")]
    assert all(one != next_one for one, next_one in itertools.pairwise(both))
    assert len({ident for _, ident in log}) == 1


def test_one_that_wants_nothing_sleeps_until_it_is_woken():
    worker = Worker("a", 1, [], wants=False)
    loop = StepLoop("test")
    loop.add(worker)
    loop.wake()
    assert not worker.left.wait(0.05)
    worker.wants_turn = True
    loop.wake()
    assert worker.left.wait(PATIENCE)


def test_who_is_not_in_a_turn_leaves_at_once_and_who_is_has_to_finish():
    loop, in_turn, may_end = StepLoop("test"), threading.Event(), threading.Event()

    class Slow(Worker):
        def take_turn(self):
            in_turn.set()
            assert may_end.wait(PATIENCE)
            return super().take_turn()

    slow, idle = Slow("slow", 1, []), Worker("idle", 1, [], wants=False)
    slow_has_left, idle_has_left = loop.add(slow), loop.add(idle)
    assert in_turn.wait(PATIENCE)
    assert loop.leave(idle)
    assert idle_has_left.is_set()
    assert not loop.leave(slow)
    assert not slow_has_left.is_set()
    may_end.set()
    assert slow_has_left.wait(PATIENCE)
    assert idle.log == []


def test_a_sleeping_thread_keeps_nothing_of_who_has_left():
    loop, idle = StepLoop("test"), Worker("idle", 1, [], wants=False)
    loop.add(idle)
    for stays in (True, False):
        worker = Worker("a", 3, [])
        has_left = loop.add(worker)
        if stays:
            assert has_left.wait(PATIENCE)
        else:
            loop.leave(worker)
        gone = weakref.ref(worker)
        del worker
        for _ in range(500):
            if gone() is None:
                break
            threading.Event().wait(0.01)
        assert gone() is None
    loop.leave(idle)


def test_a_turn_that_raises_ends_one_member_and_not_the_others():
    loop, other = StepLoop("test"), Worker("b", 300, [])

    class Broken(Worker):
        def take_turn(self):
            raise SystemExit

    broken_has_left = loop.add(Broken("a", 1, []))
    loop.add(other)
    assert broken_has_left.wait(PATIENCE)
    assert other.left.wait(PATIENCE)


def test_the_thread_ends_with_its_last_member_and_begins_again_with_the_next():
    loop = StepLoop("ends")
    for _ in range(3):
        worker = Worker("a", 2, [])
        loop.add(worker)
        assert worker.left.wait(PATIENCE)
    for running in threading.enumerate():
        if running.name == "steps-ends":
            running.join(PATIENCE)
    assert "steps-ends" not in {running.name for running in threading.enumerate()}


async def test_work_of_its_own_returns_or_raises_and_leaves_no_thread():
    def fail():
        raise ValueError("so it is")

    assert await on_own_thread(lambda x, y: x + y, 3, 4) == 7
    with pytest.raises(ValueError, match="so it is"):
        await on_own_thread(fail)
    for _ in range(500):
        if not any(thread.name.startswith("own") for thread in threading.enumerate()):
            return
        await asyncio.sleep(0.01)
    pytest.fail("a thread is left")


def test_before_each_round_it_is_told_on_the_thread_that_steps():
    log = []
    worker = Worker("a", 3, log)
    loop = StepLoop("test", before_round=lambda: log.append(("round", threading.get_ident())))
    loop.add(worker)
    assert worker.left.wait(PATIENCE)
    assert [name for name, _ in log] == ["round", "a"] * 3
    assert len({ident for _, ident in log}) == 1


def test_what_fails_before_a_round_keeps_nobody_from_it():
    def fail():
        raise ValueError("no")

    worker = Worker("a", 3, [])
    StepLoop("test", before_round=fail).add(worker)
    assert worker.left.wait(PATIENCE)


async def test_work_of_its_own_has_the_threads_of_who_asks_whatever_others_were_left():
    threads = torch.get_num_threads()
    await asyncio.to_thread(torch.set_num_threads, threads + 1)  # what the thread that steps does, with one less
    assert await on_own_thread(torch.get_num_threads) == threads
