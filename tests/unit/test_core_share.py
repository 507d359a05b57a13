"""Products get a thread for each core that others leave, and at least one."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch

from myserve_ui.kernels.threads import (
    PERIOD,
    CoreSeconds,
    CoreShare,
    _own_cores,
    follow_core_share,
    read_core_seconds,
)


class Machine:
    """A clock and a count of processor time, which only what a test says moves on."""

    def __init__(self):
        self.now = 100.0
        self.everybody = self.own = 0.0
        self.looks = 0
        self.is_broken = False

    def clock(self):
        return self.now

    def read(self):
        self.looks += 1
        if self.is_broken:
            raise PermissionError("no /proc here")
        return CoreSeconds(self.everybody, self.own)

    def share(self, *, most=2, cores=2, is_fixed=False):
        share = CoreShare(most=most, cores=cores, is_fixed=is_fixed, read=self.read, clock=self.clock)
        assert share.threads == most
        return share

    def go_on(self, *, others=0.0, own=0.0, seconds=PERIOD):
        """`others` and `own`: cores in use for that long."""
        self.now += seconds
        self.own += own * seconds
        self.everybody += (others + own) * seconds


@pytest.mark.parametrize(
    ("most", "cores", "others", "threads"),
    [
        (2, 2, 0.0, 2),
        (2, 2, 0.15, 2),
        (2, 2, 0.25, 1),
        (2, 2, 2.0, 1),
        (16, 16, 0.1, 16),
        (16, 16, 1.0, 15),
        (16, 16, 7.9, 8),
        (16, 16, 40.0, 1),
        (2, 16, 8.0, 2),
        (2, 16, 15.5, 1),
    ],
)
def test_a_thread_for_each_core_that_is_left(most, cores, others, threads):
    machine = Machine()
    share = machine.share(most=most, cores=cores)
    machine.go_on(others=others, own=1.5)
    assert share.threads == threads


@pytest.mark.parametrize(
    "stretches",
    [
        pytest.param([(1.0, PERIOD, 1), (0.0, PERIOD, 2)], id="they come back when the others are done"),
        pytest.param(
            [(1.0, 8.0, 1), (0.0, 3600.0, 2), (2.0, PERIOD, 1)],
            id="after a long step or a long rest the average counts until the next look",
        ),
    ],
)
def test_each_look_is_about_the_time_since_the_last(stretches):
    """Stretches: cores that others use, for so many seconds, and the threads at the end."""
    machine = Machine()
    share = machine.share()
    for others, seconds, threads in stretches:
        machine.go_on(others=others, own=1.0, seconds=seconds)
        assert share.threads == threads


def test_between_two_looks_the_machine_is_not_asked():
    machine = Machine()
    share = machine.share()
    for _ in range(10):
        machine.go_on(others=2.0, seconds=PERIOD / 20)
        assert share.threads == 2
    assert machine.looks == 1


def test_processor_time_that_is_counted_late_is_no_less_than_none():
    machine = Machine()
    share = machine.share()
    machine.go_on(others=-0.3, own=2.0)
    assert share.threads == 2


def test_a_system_that_does_not_tell_is_not_asked_again():
    machine = Machine()
    share = machine.share()
    machine.go_on(others=2.0)
    assert share.threads == 1
    machine.is_broken = True
    machine.go_on(others=2.0)
    assert share.threads == 2
    looks = machine.looks
    machine.go_on(others=2.0)
    assert (share.threads, machine.looks) == (2, looks)


@pytest.mark.parametrize("kept", [{"most": 1}, {"most": 2, "is_fixed": True}])
def test_a_single_thread_and_a_number_that_was_asked_for_stay(kept):
    machine = Machine()
    share = machine.share(**kept)
    machine.go_on(others=2.0)
    assert (share.threads, machine.looks) == (kept["most"], 0)


def test_products_of_the_thread_that_applies_it_get_them_and_no_others():
    machine, seen, at_first = Machine(), [], torch.get_num_threads()

    def step():
        share = machine.share()
        for others in (2.0, 0.0):
            machine.go_on(others=others)
            share.apply()
            seen.append(torch.get_num_threads())

    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
    here = torch.get_num_threads()
    torch.set_num_threads(at_first)
    assert seen == [1, 2]
    assert here == at_first


def test_another_process_is_counted_and_our_own_work_apart():
    cores = range(psutil.cpu_count())
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        process = psutil.Process(busy.pid)
        first, own, others = read_core_seconds(cores), time.process_time(), process.cpu_times().user
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            pass
        others = process.cpu_times().user - others
        last, own = read_core_seconds(cores), time.process_time() - own
    finally:
        busy.kill()
        busy.wait()
    assert last.own - first.own == pytest.approx(own, abs=0.1)
    assert last.everybody - first.everybody >= own + others - 0.2


def test_on_this_machine_it_begins_with_what_torch_has_or_what_is_asked_for():
    assert follow_core_share().threads == torch.get_num_threads()
    assert follow_core_share(3).threads == 3


def test_only_cores_that_we_may_use_are_counted():
    first, counted = read_core_seconds({0}), psutil.cpu_times(percpu=True)[0]
    peers = counted.nice if os.nice(0) > 0 else 0.0  # who gives way to others counts those that do so too
    everybody = counted.user + counted.system + counted.irq + counted.softirq + peers
    assert first.everybody == pytest.approx(everybody, abs=0.5)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system keeps nobody to a core")
@pytest.mark.parametrize(("at_least", "counted"), [(1, 1), (2, psutil.cpu_count())])
def test_a_thread_bound_to_a_core_by_openmp_is_not_a_process_kept_to_it(at_least, counted):
    def bound():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # of this thread
        return len(_own_cores(at_least=at_least))

    with ThreadPoolExecutor(1) as own_thread:
        assert own_thread.submit(bound).result() == counted
