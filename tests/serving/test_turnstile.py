"""Turns are taken one at a time, in the order of asking."""

import contextlib
import threading

from myserve_ui.serving.turnstile import Turnstile


def test_every_turn_that_is_asked_for_is_given():
    turnstile, turns = Turnstile(), []
    both_ready = threading.Barrier(2)

    def work(name):
        both_ready.wait()
        for _ in range(200):
            with turnstile:
                turns.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turns) == ["a"] * 200 + ["b"] * 200


def test_nobody_enters_while_another_is_inside():
    turnstile, inside, most = Turnstile(), [0], [0]

    def work():
        for _ in range(100):
            with turnstile:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1


def test_the_first_to_ask_is_the_first_to_enter():
    turnstile, order, asked = Turnstile(), [], threading.Semaphore(0)
    turnstile.__enter__()

    def work(number):
        with turnstile:
            order.append(number)

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        while turnstile._next_ticket < number + 2:
            asked.acquire(timeout=0.001)
    turnstile.__exit__(None, None, None)
    for thread in threads:
        thread.join()
    assert order == list(range(5))


def test_a_turn_that_raises_is_given_back():
    turnstile, entered = Turnstile(), []
    with contextlib.suppress(RuntimeError), turnstile:
        raise RuntimeError
    with turnstile:
        entered.append(True)
    assert entered
