"""Servers that wait for their turn stand still, and all go on before they are ended."""

from __future__ import annotations

import asyncio
import sys

import psutil

from benchmarks.rivals.processes import TurnOrder
from myserve_ui.cli.processes import announced_address, module_command, running_process

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


async def stops(process: asyncio.subprocess.Process, *, stopped: bool) -> bool:
    """Whether it comes to be stopped, or to run again, within a second."""
    for _ in range(100):
        if (psutil.Process(process.pid).status() == psutil.STATUS_STOPPED) == stopped:
            return True
        await asyncio.sleep(0.01)
    return False


async def test_only_the_one_whose_turn_it_is_may_run():
    turns = TurnOrder()
    first, second = [await asyncio.create_subprocess_exec(*SLEEPER, start_new_session=True) for _ in range(2)]
    try:
        turns.add("http://127.0.0.1:1", first)
        turns.add("http://127.0.0.1:2", second)
        turns.let_play("http://127.0.0.1:2/v1")
        assert await stops(first, stopped=True)
        assert await stops(second, stopped=False)
        turns.let_play("http://elsewhere/v1")
        assert await stops(second, stopped=True)
        turns.let_all_play()
        assert await stops(first, stopped=False)
        assert await stops(second, stopped=False)
    finally:
        for process in (first, second):
            process.kill()
            await process.wait()
    turns.let_all_play()  # of those that are gone, nothing is asked


async def test_what_is_started_runs_where_the_command_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = "import os; print('ready:', os.getcwd(), flush=True)"
    async with running_process([sys.executable, "-c", script]) as (process, words):
        assert await announced_address(process, words) == str(tmp_path)


async def test_the_package_is_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "benchmarks.py").write_text("raise ImportError('of the folder, not ours')")
    monkeypatch.chdir(tmp_path)
    async with running_process(module_command("benchmarks", "--help")) as (process, _words):
        output, _ = await process.communicate()
        assert (process.returncode, b"python -m benchmarks COMMAND" in output) == (0, True)
