"""A model is in use from the moment a request for it arrives: it makes way for no other while one is prepared."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from myserve_ui.core.model_info import LoadState
from myserve_ui.core.outputs import FinishReason
from myserve_ui.core.requests import CompletionRequest
from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.errors import InvalidRequestError, ModelLoadingError, ShuttingDownError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.evaluation.fidelity import FidelityRequest
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_pool import EnginePool, RunningEngine
from tests.conftest import MakeService, chat_request, load_tiny
from tests.faults.injection import until
from tests.serving.test_eviction import load, weigh


class Gate:
    """Holds up whatever is prepared, until it is opened."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.waiting = 0

    def hold_up(self, function):
        def held(*arguments, **keywords):
            self.waiting += 1
            assert self._open.wait(20)
            return function(*arguments, **keywords)

        return held

    def open(self) -> None:
        self._open.set()


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
async def service(make_service: MakeService) -> ChatService:
    """A default, and room for one beside it: gpt2, which is loaded, or qwen2."""
    service = await make_service("llama", "gpt2", "qwen2", load=lambda entry, _: weigh(load_tiny(entry)))
    service._pool._weight_budget = 200
    await load(service._pool, "gpt2")
    return service


def engine_of(pool: EnginePool, name: str) -> RunningEngine:
    return pool.engine(name)


def is_loaded(service: ChatService, name: str) -> bool:
    return service.model(name).state is LoadState.READY


PREPARING = ["render_chat", "encode", "compile", "token_bytes"]


def begin(service: ChatService, gate: Gate, monkeypatch: pytest.MonkeyPatch, what: str) -> asyncio.Task[list]:
    """A request for gpt2 that stands still in a part of its preparation."""
    engine = engine_of(service._pool, "gpt2")
    owner = engine.grammars if what == "compile" else engine.loaded.tokenizer
    monkeypatch.setattr(owner, what, gate.hold_up(getattr(owner, what)))
    if what == "encode":
        return asyncio.create_task(service.start_completions([CompletionRequest("some text", model="gpt2")], 1))
    form = StructuredOutput.json_object() if what == "compile" else None
    logprobs = 1 if what == "token_bytes" else None
    request = chat_request(model="gpt2", structured_output=form, logprobs=logprobs)
    return asyncio.create_task(service.start_chat_choices(request, 1))


@pytest.mark.parametrize("what", PREPARING)
async def test_a_request_in_preparation_keeps_its_model(
    service: ChatService, gate: Gate, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    preparing = begin(service, gate, monkeypatch, what)
    await until(lambda: gate.waiting)
    await load(service._pool, "qwen2")
    assert is_loaded(service, "gpt2")
    gate.open()
    async with (await preparing)[0] as stream:
        outputs = [output async for output in stream]
    assert outputs[-1].finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
    await load(service._pool, "llama", "qwen2")
    assert service._pool._slot("gpt2").num_holds == 0


async def test_a_refused_request_holds_nothing(service: ChatService) -> None:
    with pytest.raises(InvalidRequestError, match="Token ids"):
        await service.start_chat(chat_request(model="gpt2", stop_token_ids=(9999,)))
    assert service._pool._slot("gpt2").num_holds == 0


async def test_a_model_that_made_way_in_spite_of_all_says_that_it_loads_again(service: ChatService) -> None:
    engine = engine_of(service._pool, "gpt2")
    await load(service._pool, "qwen2")
    assert not is_loaded(service, "gpt2")
    with pytest.raises(ModelLoadingError, match="made way for another"):
        engine.worker.submit([], lambda first: None)


@pytest.mark.parametrize("what", PREPARING)
async def test_a_request_that_is_prepared_while_the_app_drains_is_told_so(
    service: ChatService, gate: Gate, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    preparing = begin(service, gate, monkeypatch, what)
    await until(lambda: gate.waiting)
    await service.shut_down()
    gate.open()
    with pytest.raises(ShuttingDownError):
        await preparing


async def test_reports_are_not_begun_while_the_app_drains(service: ChatService) -> None:
    comparisons = Comparisons(service, service._pool)
    service.drain()
    with pytest.raises(ShuttingDownError):
        async for _ in comparisons.report(FidelityRequest("some text", base="gpt2", candidate="gpt2")):
            pass


async def test_who_waits_for_a_load_at_the_shutdown_is_told_so(make_service: MakeService, gate: Gate) -> None:
    service = await make_service("llama", "gpt2")
    service._pool._load = gate.hold_up(load_tiny)
    loading = asyncio.create_task(load(service._pool, "gpt2"))
    await until(lambda: gate.waiting)
    await service.shut_down()
    gate.open()
    with pytest.raises(ShuttingDownError, match="while gpt2 was loading"):
        await loading
