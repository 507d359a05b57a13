"""A model's folder, broken in ways that nobody planned, is refused in a sentence or served as it was.

Refused: a ModelLoadError of one line that explains itself and shows no path, class name or traceback. Served: with the
logits of the whole folder; where only settings were changed, which may make another model, with finite ones.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.loader import LoadOptions, load_model
from tests.support.broken_folders import INDEX, shard
from tests.support.tiny_checkpoint import save_tiny_model

PROMPT = (5, 70, 200, 31, 9, 8)
NEVER_SAID = ("the log has the details", "Traceback", "\n", "<class", "Error:", "object at 0x")
STRANGE = (None, True, 0, -1, 7, 2.5, float("nan"), float("inf"), 1 << 70, "", "wonder", [], [1], {}, {"a": 1}, [None])
DTYPES = (torch.float64, torch.float32, torch.float16, torch.int8, torch.int64, torch.bool, torch.float8_e4m3fn)

Break = Callable[[Path, random.Random], bool]
"""Breaks a folder in place; True if the model may be another one afterwards."""


@cache
def _whole() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="whole-")) / "tiny"
    return save_tiny_model(folder, "llama", dtype=torch.bfloat16)


@cache
def _expected() -> torch.Tensor:
    return _logits(_load(_whole()))


def trial(rng: random.Random) -> None:
    """One folder with one to three things wrong."""
    with tempfile.TemporaryDirectory(prefix="broken-") as place:
        folder = shutil.copytree(_whole(), Path(place) / "tiny")
        if rng.random() < 0.3:
            shard(folder)
        breaks = rng.choices(BREAKS, k=rng.choice((1, 1, 2, 3)))
        differing = [each(folder, rng) for each in breaks]
        try:
            logits = _logits(_load(folder))
        except ModelLoadError as error:
            _check_sentence(error.message, place)
            return
        assert logits.isfinite().all()
        if not any(differing):
            assert logits.shape == _expected().shape and torch.equal(logits, _expected()), "served as another model"


def _load(folder: Path) -> LoadedModel:
    entry = build_catalog(model=str(folder), precision="full", device="cpu").default
    return load_model(entry, options=LoadOptions(cache=folder.parent / "cache", kernels="plain"))


@torch.inference_mode()
def _logits(model: LoadedModel) -> torch.Tensor:
    return model.module(torch.tensor([PROMPT])).logits  # type: ignore[misc]


def _check_sentence(message: str, place: str) -> None:
    assert not [words for words in (*NEVER_SAID, place) if words in message], message
    assert message.endswith(".") and len(message) < 800, message


def _file(folder: Path, rng: random.Random) -> Path:
    return rng.choice(sorted(path for path in folder.iterdir() if path.is_file()) or [folder / "config.json"])


def _is_setting(path: Path) -> bool:
    """Whether other bytes there may mean another model, or none at all that anybody could tell."""
    return path.suffix != ".safetensors"


def delete(folder: Path, rng: random.Random) -> bool:
    path = _file(folder, rng)
    path.unlink(missing_ok=True)
    return _is_setting(path)


def truncate(folder: Path, rng: random.Random) -> bool:
    path = _file(folder, rng)
    data = path.read_bytes() if path.is_file() else b""
    path.write_bytes(data[: rng.randrange(len(data) + 1)])
    return _is_setting(path)


def flip(folder: Path, rng: random.Random) -> bool:
    """A byte of weights may become another number, which nobody can tell; one of the head must not go unseen."""
    path = _file(folder, rng)
    data = bytearray(path.read_bytes() if path.is_file() else b"")
    if data:
        data[rng.randrange(min(len(data), 4000))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    return True


def fill(folder: Path, rng: random.Random) -> bool:
    path = _file(folder, rng)
    begins = (b"", b"[]", b"{}", b"null", b"\xef\xbb\xbf{}", b"<html>", b"version https://git-lfs", b"\0" * 99)
    path.write_bytes(rng.choice((*begins, (1 << 62).to_bytes(8, "little"), (9).to_bytes(8, "little") + b'{"a": 1} ')))
    return _is_setting(path)


def make_folder(folder: Path, rng: random.Random) -> bool:
    path = _file(folder, rng)
    path.unlink(missing_ok=True)
    path.mkdir()
    return _is_setting(path)


def dangle(folder: Path, rng: random.Random) -> bool:
    path = _file(folder, rng)
    path.unlink(missing_ok=True)
    path.symlink_to(folder / "gone")
    return _is_setting(path)


def set_a_value(folder: Path, rng: random.Random) -> bool:
    """A setting of another type or size, at any depth."""
    path = folder / rng.choice(("config.json", "config.json", "generation_config.json", "tokenizer_config.json", INDEX))
    try:
        raw = json.loads(path.read_text())
        owner = raw if rng.random() < 0.8 else rng.choice([raw, *(v for v in raw.values() if isinstance(v, dict))])
        owner[rng.choice(sorted(owner))] = rng.choice(STRANGE)
    except (OSError, ValueError, AttributeError, IndexError, TypeError):
        return True
    path.write_text(json.dumps(raw))
    return True


def _change_tensors(folder: Path, rng: random.Random, change: Callable[[dict[str, torch.Tensor], str], None]) -> None:
    paths = [path for path in sorted(folder.glob("*.safetensors")) if path.is_file()]
    try:
        tensors = load_file(path := rng.choice(paths))
    except Exception:  # broken already
        return
    change(tensors, rng.choice(sorted(tensors)))
    save_file(tensors, path, metadata={"format": "pt"})


def drop_a_tensor(folder: Path, rng: random.Random) -> bool:
    _change_tensors(folder, rng, lambda tensors, name: tensors.__delitem__(name))
    return False


def add_a_tensor(folder: Path, rng: random.Random) -> bool:
    extra = rng.choice(("model.layers.7.mlp.up_proj.weight", "wonder", "model.norm.bias", "lm_head.weight_scale"))
    _change_tensors(folder, rng, lambda tensors, _name: tensors.update({extra: torch.ones(4, 4)}))
    return False


def resize_a_tensor(folder: Path, rng: random.Random) -> bool:
    _change_tensors(
        folder, rng, lambda tensors, name: tensors.update({name: torch.ones(rng.choice(((), (3,), (64,), (64, 96))))})
    )
    return True


def retype_a_tensor(folder: Path, rng: random.Random) -> bool:
    dtype = rng.choice(DTYPES)
    _change_tensors(folder, rng, lambda tensors, name: tensors.update({name: tensors[name].to(dtype)}))
    return dtype not in (torch.float64, torch.float32)


def spoil_a_tensor(folder: Path, rng: random.Random) -> bool:
    value = rng.choice((float("nan"), float("inf"), float("-inf")))

    def spoil(tensors: dict[str, torch.Tensor], name: str) -> None:
        if tensors[name].is_floating_point():  # another break may have made whole numbers of it
            tensors[name].view(-1)[0] = value

    _change_tensors(folder, rng, spoil)
    return False


BREAKS: tuple[Break, ...] = (
    delete,
    truncate,
    flip,
    fill,
    make_folder,
    dangle,
    set_a_value,
    set_a_value,
    set_a_value,
    drop_a_tensor,
    add_a_tensor,
    resize_a_tensor,
    retype_a_tensor,
    spoil_a_tensor,
)
