"""What the terminal says after a signal, and of an address that cannot be had."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass, field

import pytest
import uvicorn

from myserve_ui.core.model_info import ServiceStatus
from myserve_ui.errors import SettingsError
from myserve_ui.server.app_server import AppServer
from myserve_ui.server.launch import listen


@dataclass
class Engine:
    num_running: int
    num_waiting: int


@dataclass
class BusyService:
    """Engines with answers on the way; `did` is what it was told, in order."""

    engines: list[Engine]
    did: list[str] = field(default_factory=list)

    def drain(self) -> None:
        self.did.append("drain")

    def status(self) -> ServiceStatus:
        return ServiceStatus(True, None, None, "0", "m", 1.0, (), tuple(self.engines))  # type: ignore[arg-type]

    async def shut_down(self) -> None:
        self.did.append("shut down")


@pytest.mark.parametrize(
    ("engines", "words"),
    [
        ([], "shutting down"),
        ([Engine(0, 0)], "shutting down"),
        ([Engine(1, 0), Engine(0, 0)], "finishing 1 answer"),
        ([Engine(1, 2), Engine(1, 0)], "finishing 4 answers"),
    ],
)
async def test_a_signal_says_what_is_still_to_do_and_how_to_end_at_once(
    caplog: pytest.LogCaptureFixture, engines: list[Engine], words: str
) -> None:
    service = BusyService(engines)
    server = AppServer(
        uvicorn.Config(app=None),  # type: ignore[arg-type]
        service,  # type: ignore[arg-type]
        on_ready=lambda: None,
        on_failure=lambda reason: None,
        on_drain=lambda: service.did.append("turn visitors away"),
    )
    server._load_is_known = True
    server.handle_exit(signal.SIGTERM, None)
    with caplog.at_level(logging.INFO, logger="myserve_ui"):
        while not await server.on_tick(1):
            await asyncio.sleep(0)
    assert service.did == ["drain", "turn visitors away", "shut down"]
    assert caplog.messages == [f"{words}; a second signal ends at once"]


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_of_another_machine_is_refused_in_our_own_words(host: str) -> None:
    with pytest.raises(SettingsError) as caught:
        listen(host, 0)
    assert caught.value.message == (
        f"{host} is no address of this machine: choose one with --host or MYSERVE_HOST, such as 127.0.0.1."
    )
