"""Servers in processes of their own: started on a free port, waited for until they answer, ended in any case."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO

import httpx2

from myserve_ui.errors import ModelLoadError
from myserve_ui.paths import IMPORT_ROOT

RUN_MODULE = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""`python -m`, which finds our modules from any folder and takes nothing from the folder where it runs."""
READY_WORD = "ready: "
START_SECONDS, PAGE_SECONDS, END_SECONDS = 900.0, 60.0, 15.0


OnReady = Callable[[str, asyncio.subprocess.Process], None]
"""Gets a server's address and its process once it answers."""


@asynccontextmanager
async def running_app(
    settings: Sequence[str], on_ready: OnReady | None = None, *, with_page: bool = True
) -> AsyncIterator[str]:
    """The app with `settings`; gives its address. Raises ModelLoadError with the app's last words.

    `with_page`: once the page stands too; building it takes a core for seconds, beside whatever is measured.
    """
    command = module_command("myserve_ui", "serve", *settings, "--host", "127.0.0.1", "--port", "0")
    async with running_process(command) as (process, words):
        url = await announced_address(process, words)
        if with_page:
            async with httpx2.AsyncClient(trust_env=False, timeout=PAGE_SECONDS) as client:
                await client.get(url)
        if on_ready is not None:
            on_ready(url, process)
        yield url


def module_command(name: str, *arguments: str) -> list[str]:
    """What runs one of our modules as a program, with this Python."""
    return [sys.executable, "-P", "-c", RUN_MODULE, str(IMPORT_ROOT), name, *arguments]


@asynccontextmanager
async def running_process(
    command: Sequence[str], *, announces: bool = True
) -> AsyncIterator[tuple[asyncio.subprocess.Process, IO[bytes]]]:
    """The process, and the file that keeps its words; standard output is read only from one that announces itself.

    It runs in the caller's folder: whatever names a place, an option or the environment, means the same to both.
    """
    with tempfile.TemporaryFile() as words:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if announces else words,
            stderr=words,
            start_new_session=True,  # Ctrl-C is for the benchmark, which ends its servers itself
        )
        try:
            yield process, words
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_SECONDS)
    if process.returncode is None:
        process.kill()
        await process.wait()


async def announced_address(process: asyncio.subprocess.Process, words: IO[bytes]) -> str:
    """What follows READY_WORD on standard output."""
    assert process.stdout is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            async for line in process.stdout:
                if (text := line.decode(errors="replace").strip()).find(READY_WORD) >= 0:
                    return text.partition(READY_WORD)[2]
    raise ModelLoadError(last_words(words))


def last_words(words: IO[bytes]) -> str:
    """Why a process ended, in its own words."""
    words.seek(0)
    lines = [line.strip() for line in words.read().decode(errors="replace").split("\n") if line.strip()]
    return f"it did not start: {lines[-1][:200] if lines else 'it said nothing'}"
