"""A tiny model in two precisions, both served by real engines."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from myserve_ui.evaluation.comparisons import Comparisons
from tests.support.precisions import make_comparisons


@pytest.fixture
async def comparisons() -> AsyncIterator[Comparisons]:
    """Over "tiny" and "tiny:nf4"."""
    made = make_comparisons()
    yield made
    await made.chat.shut_down()
