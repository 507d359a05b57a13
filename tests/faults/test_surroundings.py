"""app.py where nothing around it is as in a person's shell: it serves all the same, drains, and ends with 0."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO

import httpx2
import psutil
import pytest

from tests.api.test_launcher import CHAT, ENDLESS, PATIENCE, ROOT, environment

STRANGER = (
    *("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
"""Makes a program one of a user without an entry, as containers do; Python may lie where only root can read."""
KUBERNETES = {"MYSERVE_PORT": "tcp://10.0.0.7:80", "MYSERVE_SERVICE_HOST": "10.0.0.7", "MYSERVE_SERVICE_PORT": "80"}
PROXIES = {
    "ALL_PROXY": "socks5://127.0.0.1:9",
    "all_proxy": "socks5h://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
}
SHORT = {"model": "echo", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 3}


def may_become_a_stranger() -> bool:
    if shutil.which(STRANGER[0]) is None:
        return False
    return subprocess.run([*STRANGER, "true"], capture_output=True, check=False).returncode == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@asynccontextmanager
async def surrounded(
    env: dict[str, str], *, before: tuple[str, ...] = (), **process: Any
) -> AsyncIterator[tuple[Process, httpx2.AsyncClient]]:
    """The app as `before` and `process` have it; gives the process and a client once the model is there."""
    port = free_port()
    command = (*before, sys.executable, str(ROOT / "app.py"), "--force-echo", "--port", str(port))
    running = await asyncio.create_subprocess_exec(*command, env=env, **process)
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False) as client:
            await asyncio.wait_for(_healthy(running, client), PATIENCE)
            yield running, client
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def _healthy(running: Process, client: httpx2.AsyncClient) -> None:
    while True:
        assert running.returncode is None, f"ended with {running.returncode}"
        try:
            if (await client.get("/health")).status_code == 200:
                return
        except httpx2.ConnectError:
            pass
        await asyncio.sleep(0.1)


async def ended(running: Process) -> int:
    return await asyncio.wait_for(running.wait(), PATIENCE)


async def serves(client: httpx2.AsyncClient) -> None:
    """Page, endpoints and API, of which each trips over surroundings of its own."""
    page, endpoints = await client.get("/"), await client.get("/gradio_api/info")
    chat = await client.post(CHAT, json=SHORT)
    assert (page.status_code, endpoints.status_code, chat.status_code) == (200, 200, 200)


@pytest.fixture
def full() -> Iterator[BinaryIO]:
    """A disk without room."""
    with Path("/dev/full").open("wb") as file:
        yield file


async def test_a_full_disk_under_the_output_and_a_terminal_that_closes_cut_no_answer(
    tmp_path: Path, full: BinaryIO
) -> None:
    async with surrounded(environment(tmp_path), cwd=ROOT, stdout=full, stderr=full) as (running, client):
        await serves(client)
        async with client.stream("POST", CHAT, json={**ENDLESS, "max_tokens": 2000}) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            for _shell_and_system in range(2):
                running.send_signal(signal.SIGHUP)
            refused = await client.post(CHAT, json=SHORT)
            assert refused.json()["error"]["code"] == "shutting_down"
            rest = [line async for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert await ended(running) == 0


async def test_python_that_drops_docstrings_is_started_again_without(tmp_path: Path) -> None:
    env = environment(tmp_path, PYTHONOPTIMIZE="2", MYSERVE_SHUTDOWN_GRACE="1")
    async with surrounded(env, cwd=ROOT) as (running, client):
        await serves(client)
        assert "PYTHONOPTIMIZE" not in psutil.Process(running.pid).environ()
        running.send_signal(signal.SIGTERM)
        assert await ended(running) == 0


def without_output() -> None:
    """Standard output closed, standard error a pipe that nobody reads, SIGHUP ignored as nohup has it."""
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 2)
    os.close(writer)
    os.close(1)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


async def test_without_output_and_under_nohup_it_outlives_the_terminal(tmp_path: Path) -> None:
    env = environment(tmp_path, MYSERVE_LOG_LEVEL="debug")
    async with surrounded(env, cwd=ROOT, preexec_fn=without_output) as (running, client):
        await serves(client)
        running.send_signal(signal.SIGHUP)
        await asyncio.sleep(0.5)
        await serves(client)
        running.send_signal(signal.SIGTERM)
        assert await ended(running) == 0


async def test_a_stranger_without_a_home_behind_useless_proxies_beside_a_service_of_our_name(tmp_path: Path) -> None:
    if not may_become_a_stranger():
        pytest.skip("only root may become another user, by setpriv")
    env = environment(tmp_path, **PROXIES) | KUBERNETES
    for name in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "MYSERVE_CACHE"):
        env.pop(name, None)
    async with surrounded(env, before=STRANGER, cwd="/", stderr=asyncio.subprocess.PIPE) as (running, client):
        await serves(client)
        running.send_signal(signal.SIGTERM)
        assert running.stderr is not None
        words = (await running.stderr.read()).decode()
        assert await ended(running) == 0
    assert "Traceback" not in words
    assert "Kubernetes" in words
