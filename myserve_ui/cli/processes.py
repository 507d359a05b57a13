"""Servers in processes of their own: started on a free port, waited for until they answer, ended in any case."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

import httpx2

from myserve_ui.errors import ModelLoadError

ROOT = Path(__file__).resolve().parents[2]
READY_WORD = "ready: "
RUN_COMMAND = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from myserve_ui.cli.commands import main; "
    "sys.exit(main(sys.argv[1:]))"
)
"""`python -m myserve_ui` from any folder; its first argument is where the package is."""
START_SECONDS, PAGE_SECONDS, END_SECONDS, POLL_SECONDS = 900.0, 60.0, 15.0, 0.5


class Bench:
    """Where servers sit that wait for their turn: stopped, since some keep a core busy while they have no work."""

    def __init__(self) -> None:
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    def add(self, url: str, process: asyncio.subprocess.Process) -> None:
        """`process` answers under `url`."""
        self._processes[url] = process

    def let_play(self, url: str) -> None:
        """Let the one that answers under `url` go on, and stop every other one."""
        for own, process in self._processes.items():
            _signal(process, signal.SIGCONT if url.startswith(own) else signal.SIGSTOP)

    def let_all_play(self) -> None:
        """Let everybody go on; a process that is stopped would not hear that it should end."""
        for process in self._processes.values():
            _signal(process, signal.SIGCONT)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """To the process and those that it started; each is the head of its own group."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


@asynccontextmanager
async def running_app(
    settings: Sequence[str], bench: Bench | None = None, *, with_page: bool = True
) -> AsyncIterator[str]:
    """The app with `settings`; gives its address. Raises ModelLoadError with the app's last words.

    `with_page`: once the page stands too; building it takes a core for seconds, beside whatever is measured.
    """
    command = [sys.executable, str(ROOT / "app.py"), *settings, "--host", "127.0.0.1", "--port", "0"]
    async with _process(command) as (process, words):
        url = await _announced(process, words)
        if with_page:
            async with httpx2.AsyncClient(trust_env=False, timeout=PAGE_SECONDS) as client:
                await client.get(url)
        yield _seated(url, process, bench)


@asynccontextmanager
async def running_rival(kind: str, settings: Sequence[str], bench: Bench | None = None) -> AsyncIterator[str]:
    """A baseline behind its own door; gives its base URL. Raises ModelLoadError."""
    words = ["rival", kind, *settings, "--host", "127.0.0.1", "--port", "0"]
    command = [sys.executable, "-c", RUN_COMMAND, str(ROOT), *words]
    async with _process(command) as (process, last_words):
        yield _seated(await _announced(process, last_words), process, bench)


@asynccontextmanager
async def running_command(command: Sequence[str], bench: Bench | None = None) -> AsyncIterator[str]:
    """A foreign server that takes --host and --port and has /health; gives its base URL. Raises ModelLoadError."""
    port = _free_port()
    async with _process([*command, "--host", "127.0.0.1", "--port", str(port)], announces=False) as (process, words):
        await _healthy(f"http://127.0.0.1:{port}/health", process, words)
        yield _seated(f"http://127.0.0.1:{port}/v1", process, bench)


def _seated(url: str, process: asyncio.subprocess.Process, bench: Bench | None) -> str:
    if bench is not None:
        bench.add(url, process)
    return url


@asynccontextmanager
async def _process(
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


async def _announced(process: asyncio.subprocess.Process, words: IO[bytes]) -> str:
    """What follows READY_WORD on standard output."""
    assert process.stdout is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            async for line in process.stdout:
                if (text := line.decode(errors="replace").strip()).find(READY_WORD) >= 0:
                    return text.partition(READY_WORD)[2]
    raise ModelLoadError(_last_words(words))


async def _healthy(url: str, process: asyncio.subprocess.Process, words: IO[bytes]) -> None:
    async with httpx2.AsyncClient(trust_env=False, timeout=5.0) as client, asyncio.timeout(START_SECONDS):
        while process.returncode is None:
            with suppress(httpx2.HTTPError):
                if (await client.get(url)).status_code == 200:
                    return
            await asyncio.sleep(POLL_SECONDS)
    raise ModelLoadError(_last_words(words))


def _last_words(words: IO[bytes]) -> str:
    """Why a process ended, in its own words."""
    words.seek(0)
    lines = [line.strip() for line in words.read().decode(errors="replace").split("\n") if line.strip()]
    return f"it did not start: {lines[-1][:200] if lines else 'it said nothing'}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
