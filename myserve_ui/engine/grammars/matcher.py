"""How far one sequence is in its grammar, and which tokens may come next."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from llguidance import LLMatcher

PANIC = ("pyo3_runtime", "PanicException")
"""How the library gives up: a BaseException, which `except Exception` misses."""
TOO_COMPLEX = "The grammar became too complex at this point of the answer; simplify the schema."
GAVE_UP = "The grammar failed at this point of the answer; simplify the schema."
FORBIDDEN = "A token was chosen that the grammar does not allow."


class Matcher:
    """One sequence's place in a grammar.

    `write_mask` changes nothing that `accept` sees and may run on another thread, but not at the same time as
    `accept`: ask for the mask, wait for it, then accept. It lets go of the interpreter while it works.
    """

    def __init__(self, matcher: LLMatcher, mask_bytes: int, *, on_failure: Callable[[], None]) -> None:
        self.mask_bytes = mask_bytes
        """Size of a mask: a bit for each id, in whole 32-bit words."""
        self.failure: str | None = None
        """A sentence for the user once the grammar cannot go on; the sequence must end with an error."""
        self._matcher = matcher
        self._on_failure = on_failure

    @property
    def is_finished(self) -> bool:
        """True if the JSON is complete and nothing but an end may follow; a failed matcher is not finished."""
        return self.failure is None and self._ask(self._matcher.is_stopped) is True

    def write_mask(self, address: int) -> None:
        """Write the ids that may come next to `mask_bytes` bytes at `address`; bit i of the whole is id i.

        End ids are among them only where the JSON is complete. After a failure nothing is allowed: the library would
        allow an end, and half an answer would pass for a whole one.
        """
        if self.failure is None:
            self._ask(lambda: self._matcher.unsafe_compute_mask_ptr(address, self.mask_bytes))
            self._note_failure(TOO_COMPLEX)
        if self.failure is not None:
            ctypes.memset(address, 0, self.mask_bytes)

    def accept(self, token_id: int) -> None:
        """Go on by a chosen token. One that the mask forbids sets `failure`."""
        if self.failure is None:
            self._ask(lambda: self._matcher.consume_token(token_id))
            self._note_failure(FORBIDDEN)

    def try_first_token(self) -> str | None:
        """Why not even a first token can be written, or None."""
        buffer = (ctypes.c_uint32 * (self.mask_bytes // 4))()
        self.write_mask(ctypes.addressof(buffer))
        return None if any(buffer) else "no answer fits it"

    def _ask(self, call: Callable[[], object]) -> object:
        """What the library says; if it gives up, so does this matcher, and nobody else."""
        try:
            return call()
        except BaseException as error:
            if not is_panic(error):
                raise
            self._fail(GAVE_UP)
            return None

    def _note_failure(self, reason: str) -> None:
        if self.failure is None and self._ask(self._matcher.is_error):
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = reason
            self._on_failure()


def is_panic(error: BaseException) -> bool:
    """Whether Rust code gave up, in a way that concerns the one grammar it worked on."""
    return (type(error).__module__, type(error).__name__) == PANIC
