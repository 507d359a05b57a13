"""More requests than fit: so many are served, the others are told when to come back, and coming back works."""

from __future__ import annotations

import asyncio

import openai
import pytest

from myserve_ui.serving.engine_builder import EngineLimits
from tests.api.live import serve_door
from tests.api.real_door import PATIENCE, user
from tests.conftest import MakeService

SEATS, WAITING = 1, 2
BODY = {"model": "echo", "prompt": "Hi", "max_tokens": 400}


async def ask(client: openai.AsyncOpenAI) -> int:
    """The status of one request; a refusal must say when to come back."""
    try:
        answer = await client.completions.create(**BODY, extra_body={"ignore_eos": True})
    except openai.RateLimitError as error:
        return 429 if int(error.response.headers["retry-after"]) > 0 and error.code == "overloaded" else 0
    return 200 if answer.usage.completion_tokens == BODY["max_tokens"] else 0


async def test_exactly_as_many_as_fit_are_accepted_and_clients_that_retry_all_finish(make_service: MakeService) -> None:
    service = await make_service("echo", limits=EngineLimits(max_num_seqs=SEATS, max_waiting=WAITING))
    async with serve_door(service) as url:
        connection = {"base_url": f"{url}/v1", "api_key": "none", "timeout": PATIENCE}
        async with openai.AsyncOpenAI(**connection, max_retries=0) as hasty:
            statuses = await asyncio.gather(*(ask(hasty) for _ in range(9)))
        assert (statuses.count(200), statuses.count(429)) == (SEATS + WAITING, 9 - SEATS - WAITING)
        async with openai.AsyncOpenAI(**connection, max_retries=2) as patient:
            statuses = await asyncio.gather(*(ask(patient) for _ in range(5)))
        assert statuses == [200] * 5


async def test_choices_are_taken_together_or_not_at_all(make_service: MakeService) -> None:
    service = await make_service("echo", limits=EngineLimits(max_num_seqs=SEATS, max_waiting=WAITING))
    async with serve_door(service) as url, openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as sdk:
        answer = await sdk.chat.completions.create(model="echo", messages=user("Hi"), n=3, max_tokens=2)
        assert len(answer.choices) == 3
        for n in (4, 16):
            with pytest.raises(openai.BadRequestError) as refused:
                await sdk.chat.completions.create(model="echo", messages=user("Hi"), n=n)
            assert refused.value.param == "n"
        assert service.status().engines[0].num_running == 0
