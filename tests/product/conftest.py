"""The whole app as a user starts it: its own process, the default model, a free port."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READY = "myserve-ui is ready: "
START_SECONDS = 110  # the first start converts the model's file


class RunningApp:
    """A started `python app.py`; `url` is what it printed."""

    def __init__(self, *arguments: str) -> None:
        environment = os.environ | {"HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "app.py", "--port", "0", *arguments],
            cwd=ROOT,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.lines: list[str] = []
        self._arrived: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self._wait_for_address()

    def stop(self) -> int:
        """End as Ctrl-C does; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self._reader.join(5)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line)
                self._arrived.put(line)
        self._arrived.put(None)

    def _wait_for_address(self) -> str:
        while (line := self._arrived.get(timeout=START_SECONDS)) is not None:
            if line.startswith(READY):
                return line.removeprefix(READY).strip()
        raise AssertionError("the app ended before it was ready:\n" + "".join(self.lines))


@pytest.fixture(scope="session")
def app() -> Iterator[RunningApp]:
    """The app with the default model; all tests of this folder share it."""
    running = RunningApp()
    yield running
    running.stop()
