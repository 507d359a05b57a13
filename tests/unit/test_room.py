"""A load that the container has no room for is refused before it begins, by one sentence with both numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from myserve_ui.core.container_limits import ContainerLimits
from myserve_ui.errors import NotEnoughMemoryError
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loading import placement
from myserve_ui.models.loading.checkpoint import read_checkpoint
from myserve_ui.models.loading.placement import REST, check_room, needed_bytes, room_to_load
from tests.support.tiny_checkpoint import save_tiny_model

FULL = torch.float32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "llama", "llama")


def leave_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    limits = ContainerLimits(memory=900 * 2**20, free_memory=free)
    monkeypatch.setattr(placement, "read_container_limits", lambda: limits)


@pytest.mark.parametrize("precision", ["full", "int4", "nf4"])
def test_one_byte_less_than_a_load_takes_is_refused(
    folder: Path, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = build_catalog(model=str(folder), precision=precision, device="cpu").default
    checkpoint = read_checkpoint(folder, "llama", trust_remote_code=False)
    room = room_to_load(checkpoint, entry, FULL, FULL)
    assert room >= needed_bytes(checkpoint, entry, FULL, FULL) + REST
    leave_free(monkeypatch, room)
    check_room(checkpoint, entry, device=torch.device("cpu"), read_as=FULL, served_as=FULL)
    leave_free(monkeypatch, room - 1)
    with pytest.raises(NotEnoughMemoryError) as refused:
        check_room(checkpoint, entry, device=torch.device("cpu"), read_as=FULL, served_as=FULL)
    words = refused.value.message
    assert re.search(r"takes up to \d+ MiB, and \d+ MiB of the 900 MiB of this container are free", words)
    assert ("MYSERVE_PRECISION=int4" in words) == (precision == "full")
    assert len(words.splitlines()) == 1
