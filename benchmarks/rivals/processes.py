"""The servers of a match in processes of their own, of which one has work at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO

import httpx2

from myserve_ui.cli.processes import START_SECONDS, announced_address, last_words, module_command, running_process
from myserve_ui.errors import ModelLoadError

POLL_SECONDS = 0.5


class TurnOrder:
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
async def running_rival(kind: str, settings: Sequence[str], turns: TurnOrder) -> AsyncIterator[str]:
    """A baseline behind its own door; gives its base URL. Raises ModelLoadError."""
    command = module_command("benchmarks", "rival", kind, *settings, "--host", "127.0.0.1", "--port", "0")
    async with running_process(command) as (process, said):
        url = await announced_address(process, said)
        turns.add(url, process)
        yield url


@asynccontextmanager
async def running_command(command: Sequence[str], turns: TurnOrder) -> AsyncIterator[str]:
    """A foreign server that takes --host and --port and has /health; gives its base URL. Raises ModelLoadError."""
    port = _free_port()
    words = [*command, "--host", "127.0.0.1", "--port", str(port)]
    async with running_process(words, announces=False) as (process, said):
        await _healthy(f"http://127.0.0.1:{port}/health", process, said)
        url = f"http://127.0.0.1:{port}/v1"
        turns.add(url, process)
        yield url


async def _healthy(url: str, process: asyncio.subprocess.Process, said: IO[bytes]) -> None:
    async with httpx2.AsyncClient(trust_env=False, timeout=5.0) as client, asyncio.timeout(START_SECONDS):
        while process.returncode is None:
            with suppress(httpx2.HTTPError):
                if (await client.get(url)).status_code == 200:
                    return
            await asyncio.sleep(POLL_SECONDS)
    raise ModelLoadError(last_words(said))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
