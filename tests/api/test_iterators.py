"""A streamed token passes the iterators that docs/architecture.md names, and no other."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from fastapi import FastAPI

from myserve_ui.api.door import add_api
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.settings import Settings
from tests.conftest import MakeService
from tests.faults.injection import inject
from tests.support.fault_injection import Fault, FaultKind

ROOT = Path(__file__).parents[2]
PACKAGE = f"{ROOT / 'myserve_ui'}/"
BODY = {"model": "llama", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40, "stream": True}


class Walk:
    """A request at the ASGI border that notes what runs between two of its chunks, once they flow."""

    first, last = 3, 13

    def __init__(self) -> None:
        self._body: bytes | None = json.dumps({**BODY, "ignore_eos": True}).encode()
        self._num_chunks = 0
        self.iterators: set[str] = set()

    async def receive(self) -> dict[str, Any]:
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] != "http.response.body":
            return
        self._num_chunks += 1
        if self._num_chunks == self.first:
            sys.setprofile(self._note)
        if self._num_chunks == self.last:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        is_iterator = code.co_flags & inspect.CO_ASYNC_GENERATOR or code.co_name == "__anext__"
        if event == "call" and is_iterator and code.co_filename.startswith(PACKAGE):
            self.iterators.add(code.co_qualname.removesuffix(".__anext__"))


async def test_a_streamed_token_passes_the_iterators_that_the_page_names(make_service: MakeService) -> None:
    service = await make_service("llama")
    inject(service, Fault(FaultKind.SLEEP, seconds=0.005))  # else few outputs come, each joined of several
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    comparisons = Comparisons(service, service._pool)
    add_api(app, service, Settings(), comparisons=comparisons, is_browser_path=lambda path: path == "/")
    walk = Walk()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers, "query_string": b""}
    try:
        await app(scope, walk.receive, walk.send)
    finally:
        sys.setprofile(None)
    page = (ROOT / "docs" / "architecture.md").read_text()
    told = re.search(r"passes four iterators(.*?)`tests", page, re.DOTALL)
    assert told is not None
    assert walk.iterators == set(re.findall(r"`([^`]+)`", told[1]))
    assert len(walk.iterators) == 4
