"""The app's end of the worker that tries grammars: starts it when it is needed, ends it when it takes too long."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass

from myserve_ui.engine.grammars.refusals import CANNOT
from myserve_ui.engine.grammars.vocabulary import Vocabulary
from myserve_ui.errors import InvalidRequestError, UnavailableError
from myserve_ui.paths import IMPORT_ROOT
from myserve_ui.serving.grammars.messages import MAX_VOCABULARIES, Trial

logger = logging.getLogger(__name__)

WORKER = "myserve_ui.serving.grammars.worker"
START_SECONDS = 30.0
SPARE_SECONDS = 1.0
"""After which the worker's own clock ends it, should the app not have."""

TOO_SLOW = CANNOT + "its grammar takes more than {seconds:g} s to make; simplify it."
CRASHED = CANNOT + "making its grammar failed in a way that would end a program; simplify it."
NOT_STARTED = "A schema cannot be tried at the moment, so it cannot be honoured; ask again in a moment, or without it."


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """What one grammar may cost."""

    seconds: float = 10.0
    memory_bytes: int = 2 * 1024**3
    """Of addresses, of which the worker itself has a tenth."""


class GrammarProcess:
    """Tries one grammar at a time; whoever calls `try_out` sees to that.

    The process lives until it is ended, dies of a grammar, or the app is gone, whose pipe it reads.
    """

    def __init__(self, limits: TrialLimits) -> None:
        self._limits = limits
        self._process: asyncio.subprocess.Process | None = None
        self._known: dict[bytes, None] = {}
        """Digests of the vocabularies that the worker has, as it keeps them."""

    @property
    def pid(self) -> int | None:
        """Of the worker, if one runs."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    async def try_out(self, text: str, vocabulary: Vocabulary) -> None:
        """Return if the app may compile the grammar `text`.

        Raises InvalidRequestError if the library refuses it, the worker dies of it, or it takes too long. If this is
        cancelled, the worker ends, and with it the compile.
        """
        process = await self._started()
        seconds = self._limits.seconds
        try:
            async with asyncio.timeout(seconds):
                line = await self._ask(process, text, vocabulary)
        except TimeoutError:
            await self.end()
            logger.warning("a grammar was given up after %g s", seconds)
            raise InvalidRequestError(TOO_SLOW.format(seconds=seconds)) from None
        except BaseException:
            await self.end()
            raise
        if not line:
            code = await process.wait()
            logger.error("the grammar worker died of a grammar (%s); another one is started when needed", _end_of(code))
            raise InvalidRequestError(CRASHED)
        if (refused := json.loads(line)["refused"]) is not None:
            raise InvalidRequestError(refused)

    async def end(self) -> None:
        """End the worker, if one runs."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def _ask(self, process: asyncio.subprocess.Process, text: str, vocabulary: Vocabulary) -> bytes:
        """The worker's answer; empty if it died."""
        assert process.stdin is not None and process.stdout is not None
        is_known = vocabulary.digest in self._known
        self._known.pop(vocabulary.digest, None)
        self._known[vocabulary.digest] = None
        while len(self._known) > MAX_VOCABULARIES:
            del self._known[next(iter(self._known))]
        sent = None if is_known else vocabulary
        seconds = self._limits.seconds + SPARE_SECONDS
        trial = Trial(text, vocabulary.digest, sent, vocabulary.mask_bytes, seconds)
        with suppress(ConnectionError):
            process.stdin.write(trial.frame())
            await process.stdin.drain()
        return await process.stdout.readline()

    async def _started(self) -> asyncio.subprocess.Process:
        """The worker, a new one if there is none. Raises UnavailableError if it does not start."""
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._known.clear()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", WORKER, str(self._limits.memory_bytes)),
                cwd=IMPORT_ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,  # a panic says more than anybody can use; how it ended is logged
            )
            assert self._process.stdout is not None
            async with asyncio.timeout(START_SECONDS):
                if await self._process.stdout.readline():
                    return self._process
            reason = _end_of(await self._process.wait())
        except (OSError, TimeoutError) as error:
            reason = str(error) or "it took too long"
        except BaseException:
            await self.end()
            raise
        await self.end()
        logger.error("the grammar worker did not start: %s", reason)
        raise UnavailableError(NOT_STARTED)


def _end_of(code: int) -> str:
    """How a process ended, for the log."""
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"
