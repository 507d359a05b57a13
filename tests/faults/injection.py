"""Puts faults under a running service, and waits for what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from myserve_ui.core.model_info import EngineStatus
from myserve_ui.serving.chat_service import ChatService
from tests.support.fault_injection import Fault, FaultyRunner

PATIENCE = 30.0


def inject(service: ChatService, *faults: Fault) -> FaultyRunner:
    """Make the steps of the service's first engine go wrong; gives the wrapper, whose faults may be changed."""
    engine = service._pool.engines()[0].worker._engine
    engine.runner = FaultyRunner(engine.runner, faults)
    return engine.runner


def engine_of(service: ChatService) -> EngineStatus:
    return service.status().engines[0]


def is_idle(service: ChatService) -> bool:
    """True if nothing runs, nothing waits, and no memory is allocated."""
    engine = engine_of(service)
    return (engine.num_running, engine.num_waiting, engine.kv_tokens_used) == (0, 0, 0)


async def until(condition: Callable[[], object]) -> None:
    """Wait for `condition`; fails after PATIENCE seconds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)
