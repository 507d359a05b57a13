"""Ways to break a model's folder, for tests that load it afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")

Break = Callable[[Path], object]
Tensors = dict[str, torch.Tensor]


def set_in(file: str, **values: object) -> Break:
    """Sets values of a JSON file."""

    def apply(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return apply


def write(file: str, data: bytes) -> Break:
    return lambda folder: (folder / file).write_bytes(data)


def remove(*files: str) -> Break:
    return lambda folder: [(folder / file).unlink() for file in files]


def remove_all_but(*kept: str) -> Break:
    return lambda folder: [path.unlink() for path in folder.iterdir() if path.name not in kept]


def rename(old: str, new: str) -> Break:
    return lambda folder: (folder / old).rename(folder / new)


def dangle(file: str) -> Break:
    """Puts a link to nowhere in the file's place."""

    def apply(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).symlink_to(folder / "gone" / file)

    return apply


def make_folder(file: str) -> Break:
    def apply(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).mkdir()

    return apply


def change_tensors(change: Callable[[Tensors], object]) -> Break:
    """Lets `change` alter the stored tensors."""

    def apply(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})

    return apply


def shard(folder: Path) -> None:
    """Two files and an index in the place of one."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    halves = dict(zip(SHARDS, (names[: len(names) // 2], names[len(names) // 2 :]), strict=True))
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, folder / file, metadata={"format": "pt"})
    weight_map = {name: file for file, part in halves.items() for name in part}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def in_turn(*breaks: Break) -> Break:
    return lambda folder: [each(folder) for each in breaks]
