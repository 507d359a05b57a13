"""The process in which grammars are tried before the app compiles them: `python -m myserve_ui.serving.grammars.worker`.

It reads trials from standard input and writes a line of JSON for each. It ends with the pipe, so with the app however
that ends; and a trial that outlasts its time ends it, whoever is left to notice. No torch and no transformers here.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import sys
from typing import BinaryIO

from llguidance import LLTokenizer

from myserve_ui.engine.grammars.trial import try_grammar
from myserve_ui.serving.grammars.messages import LENGTH_BYTES, MAX_VOCABULARIES, READY, Trial

NICENESS = 5
"""Answers come first."""


def main(memory_bytes: int) -> None:
    """Serve until standard input ends. More than `memory_bytes` of addresses cannot be had."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the app, which then lets this one go
    trees: dict[bytes, LLTokenizer] = {}
    _reply(READY)
    while (trial := _read(sys.stdin.buffer)) is not None:
        signal.setitimer(signal.ITIMER_REAL, trial.seconds)
        refused = try_grammar(_tree(trees, trial), trial.text, trial.mask_bytes)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _reply({"refused": refused})


def _tree(trees: dict[bytes, LLTokenizer], trial: Trial) -> LLTokenizer:
    """The trial's vocabulary, which comes with the first trial that needs it; the last few are kept."""
    tree = trees.pop(trial.digest, None)
    if tree is None:
        assert trial.vocabulary is not None
        tree = trial.vocabulary.as_tree()
    trees[trial.digest] = tree
    while len(trees) > MAX_VOCABULARIES:
        del trees[next(iter(trees))]
    return tree


def _read(stream: BinaryIO) -> Trial | None:
    """The next trial; None if there will be no other."""
    head = stream.read(LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    body = stream.read(size)
    if len(head) < LENGTH_BYTES or len(body) < size:
        return None
    trial = pickle.loads(body)  # from the app that started this process, over a pipe that nobody else has
    assert isinstance(trial, Trial)
    return trial


def _reply(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
