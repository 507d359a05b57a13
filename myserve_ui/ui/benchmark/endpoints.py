"""Named endpoints for benchmarks: /benchmark, /roofline and /runs, with small results."""

# No `from __future__ import annotations` here: Gradio reads the annotations of these functions as objects.

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, Literal

import gradio as gr

from myserve_ui.bench.benchmark_service import BenchmarkService
from myserve_ui.bench.question.form import FormValues, check_levels
from myserve_ui.bench.question.question import BenchmarkRequest
from myserve_ui.bench.sweep import SweepProgress
from myserve_ui.errors import InvalidRequestError, MyServeError
from myserve_ui.ui.benchmark.run import ONE_AT_A_TIME, own_url
from myserve_ui.ui.shared.streams import with_heartbeat

TOLD = {"id", "stopped", "rows", "differences", "settings", "machine", "versions"}
"""Of a run, what the last value of /benchmark has."""


class BenchEndpoints:
    """Over one `BenchmarkService`. Names of models are ids of /models, or precisions of the default model."""

    def __init__(self, service: BenchmarkService) -> None:
        self._service = service

    def register(self) -> None:
        """Add the endpoints to the open gr.Blocks."""
        gr.api(self.benchmark, api_name="benchmark", **ONE_AT_A_TIME)
        gr.api(self.roofline, api_name="roofline", concurrency_limit=None)
        gr.api(self.runs, api_name="runs", concurrency_limit=None)

    async def benchmark(
        self,
        request: gr.Request,
        models: list[str] | None = None,
        load: Literal["closed", "open", "ramp", "ramp-rate"] = "closed",
        levels: list[float] | None = None,
        requests: int = 16,
        prompt_tokens: str = "32",
        output_tokens: str = "32",
        time_limit: float = 600.0,
        arrivals: Literal["poisson", "constant", "gamma"] = "poisson",
        burstiness: float = 1.0,
        limits: str = "server",
        seed: int = 0,
        salted: bool = True,
        warm_up: bool = True,
        shared_prefix_tokens: int = 0,
        turns: int = 1,
        prompts: list[str] | None = None,
        url: str = "",
        url_model: str = "",
        api_key: str = "",
    ) -> AsyncGenerator[dict[str, object], None]:
        """Measure models under load over this server's own port. Streams progress; the last value has the rows.

        models: ids of /models or precisions of the default model, empty for the default; several get the same requests.
        load: "closed" (levels are so many at once), "open" (so many a second), "ramp" and "ramp-rate" (step by step).
        levels: a run for each, 1, 4 and 16 if empty. requests: for each model and level. prompt_tokens, output_tokens:
        "32" or "16:64". time_limit: seconds for everything. arrivals, burstiness: how the gaps of rates are spread.
        limits: what goodput asks, "server" (2 s, 100 ms a token), "interactive" (500 ms, 30 ms), or milliseconds of
        TTFT, TPOT and E2E such as "500,30,-". seed: equal seeds ask alike. salted: whether prompts begin with other
        words in each run, so that no cache of the server knows them. warm_up: whether requests that are not counted
        come first. shared_prefix_tokens: tokens that all prompts begin with. turns: requests of one conversation.
        prompts: texts to ask in turn. url, url_model, api_key: another OpenAI-compatible server to measure beside, url
        with /v1, its first model if url_model is empty; the key is not kept. The last value has id (of /runs), rows
        (milliseconds, nearest rank), differences with 95 % intervals, machine, versions, stopped.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "request")}
        try:
            question = _form_of(given).question()
            asked = await self._service.find(question, own_url=own_url(request, self._service))
            async with aclosing(_values(self._service, asked)) as values:
                async for value in values:
                    yield value
        except MyServeError as error:
            raise gr.Error(error.message, duration=None, print_exception=False) from None

    async def roofline(self, model: str = "") -> dict[str, object]:
        """What a decode step of a model takes at least on this machine, which is measured at the first call.

        model: an id of /models or a precision of the default model, empty for the default. The result has bandwidth,
        matrix rate, bytes of weights and of a token's keys and values, the crossing batch, and rows by batch.
        """
        try:
            return (await self._service.roofline(model)).as_json()
        except MyServeError as error:
            raise gr.Error(error.message, duration=None, print_exception=False) from None

    async def runs(self, run: str = "") -> list[dict[str, object]]:
        """The benchmarks that were kept, the newest first; or, with an id, the whole document of one in a list.

        run: an id of the list, empty for the list itself.
        """
        try:
            if run:
                return [(await self._service.load_run(run)).as_json()]
            return [asdict(line) for line in (await self._service.runs()).runs]
        except MyServeError as error:
            raise gr.Error(error.message, duration=None, print_exception=False) from None


async def _values(service: BenchmarkService, asked: BenchmarkRequest) -> AsyncGenerator[dict[str, object], None]:
    """Progress, repeated while nothing happens, which is how Gradio notices that a caller has left; then the result."""
    value: dict[str, object] = {"text": "starting", "done": 0, "total": asked.num_requests, "seconds_left": None}
    async with aclosing(with_heartbeat(service.run(asked))) as steps:
        async for step in steps:
            value = value if step is None else _value(step)
            yield value


def _value(step: SweepProgress) -> dict[str, object]:
    if step.document is not None:
        return step.document.model_dump(mode="json", include=TOLD)
    return {"text": step.text, "done": step.done, "total": step.total, "seconds_left": step.seconds_left}


def _form_of(given: dict[str, Any]) -> FormValues:
    """The endpoint's parameters; the default model, where nothing at all is named."""
    models, prompts = _texts("models", given["models"]), _texts("prompts", given["prompts"])
    words = {name: str(given[name] or "") for name in ("url", "url_model", "api_key")}
    checked = {"levels": check_levels(given["levels"]), "models": models or (() if words["url"] else ("",))}
    return FormValues(**given | words | checked | {"prompts": prompts, "prompts_from": "the call" if prompts else ""})


def _texts(name: str, value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) and value else value or []
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InvalidRequestError(f"{name} must be a list of texts that are not empty.", param=name)
    return tuple(texts)
