"""A report on the default model, through the serving engine, says what a plain float32 forward says, to 4 digits."""

from __future__ import annotations

import math

import pytest
import torch

from myserve_ui.evaluation.fidelity import FidelityRequest
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.server.service_builder import build_services
from myserve_ui.settings import read_settings
from tests.product.conftest import ROOT

pytestmark = [pytest.mark.model, pytest.mark.timeout(400)]
WINDOW, STRIDE = 256, 128
NUM_CHARACTERS = 1500


async def test_the_reports_perplexity_is_that_of_a_plain_forward():
    settings = read_settings()
    text = (ROOT / "assets" / "held_out.txt").read_text(encoding="utf-8")[:NUM_CHARACTERS]
    services = build_services(settings)
    request = FidelityRequest(text, base="full", window=WINDOW, stride=STRIDE)
    document = [step async for step in services.comparisons.perplexity(request)][-1].document
    await services.chat.shut_down()
    entry = build_catalog(model=settings.served[0].model, precision="full", device="cpu").default
    plain = load_model(entry, options=LoadOptions(cache=settings.cache, device="cpu", kernels="plain"))
    assert document.perplexity.value == pytest.approx(plain_perplexity(plain, text), rel=5e-5)


@torch.inference_mode()
def plain_perplexity(loaded, text: str) -> float:
    """By windows that each score what the one before them did not reach, in a loop of its own."""
    ids = torch.tensor(loaded.tokenizer.encode(text))
    losses = []
    reached = 1
    while reached < len(ids):
        end = min(len(ids), WINDOW if reached == 1 else reached + STRIDE)
        start = max(0, end - WINDOW)
        logits = loaded.module(input_ids=ids[None, start:end], use_cache=False).logits[0].double()
        before = logits[reached - start - 1 : end - start - 1]
        losses.append(torch.nn.functional.cross_entropy(before, ids[reached:end], reduction="none"))
        reached = end
    scored = torch.cat(losses)
    assert len(scored) == len(ids) - 1
    return math.exp(scored.mean().item())
