"""Finds the files that hold a folder's weights, by transformers' own rule, and reads their headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import torch
from safetensors import SafetensorError, safe_open

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.loading.json_files import read_json_object

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD = re.compile(r".+-\d+-of-\d+\.safetensors")
AGAIN = "download or copy them again"
FIRST_BYTES = 64
NAMED = 3
"""Of many tensors or files, so many are named."""

DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
)
"""The header's words for numbers that stand for themselves; every other is a packed or an integer form."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """What a header says of one tensor."""

    file: Path
    dtype: str
    """In the words of safetensors: BF16, F8_E4M3, U8."""
    shape: tuple[int, ...]


def named(names: Iterable[str]) -> str:
    """The first few of `names` for a sentence."""
    names = sorted(names)
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def find_weight_files(folder: Path, name: str) -> list[Path]:
    """The safetensors files that transformers would read. Raises ModelLoadError that says why there are none."""
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    if not (folder / INDEX).is_file():
        raise ModelLoadError(_why_none(folder, name))
    weight_map = read_json_object(folder / INDEX, name).get("weight_map")
    shards = set(weight_map.values()) if isinstance(weight_map, dict) and _all_names(weight_map) else set()
    if not shards or not all(_stays_inside(shard) for shard in shards):
        raise ModelLoadError(f"The {INDEX} of {name} does not list the files of its weights: {AGAIN}.")
    if absent := {shard for shard in shards if not (folder / shard).is_file()}:
        raise ModelLoadError(_why_absent(folder, name, absent, len(shards)))
    return [folder / shard for shard in sorted(shards)]


def read_headers(files: Iterable[Path], name: str) -> dict[str, StoredTensor]:
    """Every tensor of `files` by its name; damage shows here, before anything big is read. Raises ModelLoadError."""
    stored = {}
    for path in files:
        try:
            with safe_open(path, framework="pt") as tensors:
                for key in tensors.keys():  # noqa: SIM118  it is no dict
                    part = tensors.get_slice(key)
                    stored[key] = StoredTensor(path, part.get_dtype(), tuple(part.get_shape()))
        except SafetensorError as error:
            raise ModelLoadError(f"{path.name} of {name} {what_it_is(path)}.") from error
    return stored


def _all_names(weight_map: dict[str, object]) -> bool:
    return all(isinstance(shard, str) for shard in weight_map.values())


def _stays_inside(shard: str) -> bool:
    path = PurePosixPath(shard)
    return shard.endswith(".safetensors") and not path.is_absolute() and ".." not in path.parts


def _why_absent(folder: Path, name: str, absent: set[str], count: int) -> str:
    if links := {shard for shard in absent if (folder / shard).is_symlink()}:
        return _dangling(named(links), name)
    return f"The weights of {name} are incomplete: {len(absent)} of {count} files missing ({named(absent)}): {AGAIN}."


def _why_none(folder: Path, name: str) -> str:
    """What stands where weights should be, and what to do about it."""
    if (folder / WHOLE).is_symlink() or (folder / INDEX).is_symlink():
        return _dangling(WHOLE if (folder / WHOLE).is_symlink() else INDEX, name)
    files = sorted(path.name for path in folder.iterdir())
    if "adapter_config.json" in files:
        return adapter_alone(name)
    stored = [file for file in files if file.endswith(".safetensors")]
    if shards := [file for file in stored if SHARD.fullmatch(file)]:
        return f"{name} has pieces of weights ({named(shards)}) without their list, {INDEX}: download or copy that too."
    if any(file.startswith("consolidated") for file in stored):
        return (
            f"The weights of {name} are in Mistral's own layout ({named(stored)}), which transformers does not read: "
            f"choose a copy that has {WHOLE}."
        )
    if WHOLE in stored:
        return f"The {WHOLE} of {name} is no file: put the weights in its place."
    if stored:
        return (
            f"{name} has no {WHOLE}, which is what transformers looks for, but {named(stored)}: "
            "rename it if it holds all weights."
        )
    if pickled := [file for file in files if file.endswith((".bin", ".pt", ".pth", ".ckpt"))]:
        return (
            f"{name} has no safetensors weights, only {named(pickled)}, a form that can run code when it is read: "
            "choose a copy that has safetensors, or load it with transformers and save it with save_pretrained."
        )
    return f"{name} has no safetensors weights: {_other_weights(files)}."


def _other_weights(files: list[str]) -> str:
    ggufs = [file for file in files if file.lower().endswith(".gguf")]
    if ggufs:
        return f"it holds {named(ggufs)}, so name that file, with its folder, in --model or MYSERVE_MODEL"
    return "choose a model that has, or copy them into its folder"


def adapter_alone(name: str) -> str:
    """The sentence for a fine-tuned difference without what it differs from."""
    return (
        f"{name} is an adapter, not a whole model: load it on its base model with the package peft, call "
        "merge_and_unload and save_pretrained, and serve the folder that this makes."
    )


def _dangling(links: str, name: str) -> str:
    return f"{links} of {name} is a link to a file that is not there: copy the file itself, or download it again."


def what_it_is(path: Path) -> str:
    """What a file that is no safetensors is in truth, with what to do."""
    with path.open("rb") as file:
        begin = file.read(FIRST_BYTES)
    if not begin:
        return "is empty: download or copy it again"
    if begin.startswith(b"version https://git-lfs"):
        return "is a pointer of Git LFS, not the weights: run `git lfs pull` in its folder, or download it"
    if begin.lstrip()[:1] == b"<":
        return "is a web page, not the weights: the download went wrong, so download it again"
    return "is damaged or incomplete: download or copy it again"
