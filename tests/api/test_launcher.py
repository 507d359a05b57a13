"""app.py as a process: its words, its exit codes, and how it takes signals."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from myserve_ui.cli import serve_command
from myserve_ui.cli.commands import main

ROOT = Path(__file__).parents[2]
PATIENCE = 100.0
"""Seconds; importing torch and gradio takes its time on a busy machine."""
READY = "myserve-ui is ready: "
ENDLESS = {"messages": [{"role": "user", "content": "Hi"}], "model": "echo", "ignore_eos": True, "stream": True}
CHAT = "/v1/chat/completions"


def environment(folder: Path, **settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MYSERVE_")}
    return {**kept, "MYSERVE_CACHE": str(folder), "OMP_NUM_THREADS": "1", "MYSERVE_PORT": "0", **settings}


def run(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "app.py", *arguments]
    env = environment(folder, **settings)
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


@asynccontextmanager
async def running_app(folder: Path, **settings: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The app with the echo engine; gives the process and its address once it says that it is ready."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "app.py"),
        cwd=ROOT,
        env=environment(folder, **{"MYSERVE_FORCE_ECHO": "1", **settings}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()
        assert line.startswith(READY)
        url = line.removeprefix(READY).strip()
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            await client.get(url)  # the page stands then: nothing is built beside what is tested
        yield process, url
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_the_first_signal_drains_and_the_exit_code_is_0(tmp_path: Path) -> None:
    async with running_app(tmp_path) as (process, url), httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        assert (await client.get("/health")).json()["status"] == "ok"
        assert (await client.get("/")).status_code == 200
        async with client.stream("POST", CHAT, json={**ENDLESS, "max_tokens": 2000}) as answer:
            lines = answer.aiter_lines()
            assert (await anext(lines)).startswith("data: ")
            process.send_signal(signal.SIGTERM)
            refused = await client.post(CHAT, json={**ENDLESS, "max_tokens": 1})
            assert refused.json()["error"]["code"] == "shutting_down"
            assert (await client.get("/live")).status_code == 200
            rest = [line async for line in lines]
        assert "data: [DONE]" in rest
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    async with (
        running_app(tmp_path) as (process, url),
        httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client,
        client.stream("POST", CHAT, json={**ENDLESS, "max_tokens": 8000}) as answer,
    ):
        await anext(answer.aiter_lines())
        process.send_signal(signal.SIGTERM)
        await client.get("/live")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == -signal.SIGTERM


def test_a_model_that_cannot_be_loaded_ends_the_process_with_one_sentence(tmp_path: Path) -> None:
    ended = run(tmp_path, "--model", str(tmp_path / "nothing.gguf"))
    assert ended.returncode == 1
    assert READY not in ended.stdout
    assert "Traceback" not in ended.stderr
    assert "nothing" in ended.stderr.splitlines()[-1]


def test_a_wrong_setting_ends_the_process_with_one_sentence(tmp_path: Path) -> None:
    ended = run(tmp_path, "--prot", "7")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert "--port" in ended.stderr


@pytest.mark.parametrize("module", ["torch", "gradio", "transformers", "fastapi"])
def test_the_launcher_imports_nothing_heavy_before_it_knows_the_settings(tmp_path: Path, module: str) -> None:
    script = f"import app, sys; sys.exit({module!r} in sys.modules)"
    env = environment(tmp_path)
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=env, check=False).returncode == 0


def test_ctrl_c_while_libraries_are_imported_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(serve_command, "prepare_environment", interrupt)
    assert main(["serve"]) == 130


def test_help_shows_the_settings(tmp_path: Path) -> None:
    ended = run(tmp_path, "--help")
    assert ended.returncode == 0
    assert "--port" in ended.stdout


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(tmp_path, "--force-echo", "--port", str(port))
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        f"Port {port} on 127.0.0.1 is in use: choose another one with --port or MYSERVE_PORT; 0 takes a free one."
    ]


def test_a_cache_that_cannot_be_made_ends_the_process_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "tiny.gguf").touch()
    ended = run(tmp_path / "file" / "below", "--model", str(tmp_path / "tiny.gguf"))
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].endswith("--cache or MYSERVE_CACHE.")
