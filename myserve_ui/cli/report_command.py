"""`fidelity` and `perplexity`: a report made in this process, through the same engines that serve users."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

from myserve_ui.cli.report_arguments import ReportArguments
from myserve_ui.errors import GenerationFailedError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.evaluation.documents import Measurement
from myserve_ui.evaluation.fidelity import FidelityRequest, Progress
from myserve_ui.server.service_builder import Services

D = TypeVar("D", bound=Measurement)
Tell = Callable[[str], None]
Report = Callable[[Comparisons, FidelityRequest], AsyncGenerator[Progress[D], None]]


async def make_report(services: Services, report: Report[D], asked: ReportArguments, text: str, tell: Tell) -> D:
    """The report's document; `tell` hears how far it is. The engines are ended whatever happens."""
    request = FidelityRequest(text, asked.base, asked.candidate, asked.window, asked.stride)
    try:
        tell("loading the models")
        async with aclosing(report(services.comparisons, request)) as steps:
            async for step in steps:
                if step.document is not None:
                    return step.document
                tell(f"{step.tokens_done:,} of {step.tokens_total:,} tokens scored")
    finally:
        await services.chat.shut_down()
    raise GenerationFailedError("The report ended early.")
