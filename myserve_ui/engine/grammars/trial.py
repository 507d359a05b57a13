"""Does with a grammar what a request would: compile it, then write along random tokens, a mask for each.

Meant for a process that may die of it. The library is deterministic: what it compiled once, it compiles again.
"""

from __future__ import annotations

import ctypes
import random
import time

from llguidance import LLTokenizer

from myserve_ui.engine.grammars.compiler import CompiledGrammar, compile_grammar
from myserve_ui.errors import InvalidRequestError

WALKS = 3
MAX_STEPS = 32
MAX_SECONDS = 0.1
"""For all walks of a grammar together."""
BITS = 8


def try_grammar(tree: LLTokenizer, text: str, mask_bytes: int) -> str | None:
    """Why the grammar `text` is refused, or None. Whatever the library does to the process, it does here."""
    try:
        grammar = compile_grammar(tree, text, mask_bytes)
    except InvalidRequestError as refused:
        return refused.message
    until = time.monotonic() + MAX_SECONDS
    for seed in range(WALKS):
        _walk(grammar, random.Random(seed), until)
    return None


def _walk(grammar: CompiledGrammar, draw: random.Random, until: float) -> None:
    """One answer, as far as steps and time reach; it may run into the grammar's limits, as a request may."""
    matcher = grammar.start()
    buffer = (ctypes.c_uint8 * matcher.mask_bytes)()
    for _ in range(MAX_STEPS):
        matcher.write_mask(ctypes.addressof(buffer))
        if matcher.failure is not None or matcher.is_finished or time.monotonic() > until:
            return
        allowed = [index for index, bits in enumerate(buffer) if bits]
        if not allowed:
            return
        index = draw.choice(allowed)
        matcher.accept(index * BITS + draw.choice([bit for bit in range(BITS) if buffer[index] >> bit & 1]))
