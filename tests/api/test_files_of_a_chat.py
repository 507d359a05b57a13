"""docs/architecture.md lists the files that one streamed chat passes; a trace of one holds the page to it."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2

from myserve_ui.serving.engine_builder import EngineLimits
from tests.api.live import serve_door
from tests.conftest import MakeService
from tests.support.traced_calls import traced_calls

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
HEADING = "## The files that one streamed chat passes"
MOST_FILES, MOST_FUNCTIONS = 50, 280
CHAT = {"model": "llama", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "stream": True}


async def stream_a_chat(url: str) -> str:
    async with (
        httpx2.AsyncClient(base_url=url) as client,
        client.stream("POST", "/v1/chat/completions", json=CHAT) as reply,
    ):
        return "".join([text async for text in reply.aiter_text()])


async def test_the_page_lists_the_files_that_a_streamed_chat_passes(make_service: MakeService) -> None:
    await make_service("llama", limits=EngineLimits())  # what is imported and compiled once is there before
    with traced_calls() as trace:
        async with serve_door(await make_service("llama", limits=EngineLimits())) as url:
            await stream_a_chat(url)
            trace.on = True
            answer = await stream_a_chat(url)
            trace.on = False
    assert answer.rstrip().endswith("data: [DONE]")
    functions = trace.functions()
    files = {file for file, _ in functions}
    listed = re.findall(r"`([\w/]+)`", PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0])
    assert files == {f"{name}.py" for name in listed}
    assert (len(files) <= MOST_FILES, len(functions) <= MOST_FUNCTIONS) == (True, True)
