"""A converted GGUF has the numbers of the file as it is now, and a file that cannot be served is explained."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.gguf.conversion import convert_gguf
from myserve_ui.models.gguf.file import ROPE_FACTORS
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.loader import LoadOptions, load_model
from tests.support.tiny_gguf import write_tiny_gguf

EMBEDDING = "token_embd.weight"


def load(path: Path) -> LoadedModel:
    entry = build_catalog(model=str(path), precision="full", device="cpu").default
    return load_model(entry, options=LoadOptions(cache=path.parent / "cache", kernels="plain"))


def refusal(path: Path) -> str:
    with pytest.raises(ModelLoadError) as caught:
        load(path)
    assert str(path.parent) not in caught.value.message
    return caught.value.message


def embedding_of(path: Path) -> torch.Tensor:
    return load(path).module.get_input_embeddings().weight


@pytest.mark.parametrize(("form", "kept"), [("F32", torch.float32), ("BF16", torch.bfloat16)])
def test_numbers_that_float16_does_not_hold_are_kept(tmp_path, form, kept):
    values = torch.tensor([70000.0, 1.0000001, -3e38, 1e-30])

    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[EMBEDDING][300, :4] = values

    embedding = embedding_of(write_tiny_gguf(tmp_path / "tiny.gguf", form=form, change=change))
    assert torch.equal(embedding[300, :4], values.to(kept).float())


def test_what_is_expanded_from_blocks_is_float16_and_its_norms_keep_every_digit(tmp_path):
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["output_norm.weight"][:] = 1.0000001

    path = write_tiny_gguf(tmp_path / "tiny.gguf", form="Q8_0", change=change)
    module = load(path).module
    weight = module.model.layers[0].mlp.up_proj.weight
    assert torch.equal(weight.half().float(), weight)
    assert (module.model.norm.weight == torch.tensor(1.0000001)).all()


def test_a_file_written_anew_under_its_name_and_size_and_time_is_converted_anew(tmp_path):
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    before = path.stat()
    first, data = embedding_of(path), bytearray(path.read_bytes())
    old = first[300].numpy().tobytes()
    assert data.count(old) == 1
    data[data.index(old) : data.index(old) + 4] = torch.tensor([0.5]).numpy().tobytes()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    second = embedding_of(path)
    assert second[300, 0] == 0.5
    assert torch.equal(second[:300], first[:300])


def test_the_stretched_positions_of_llama_3_are_read_and_others_refused(tmp_path):
    exponents = torch.arange(8, dtype=torch.float64) / 8
    smooth = ((8192 / (2 * torch.pi * 10000.0**exponents) - 1) / 3).clamp(0, 1)
    factors = (1 / ((1 - smooth) / 32 + smooth)).float()

    def stretched_by(values: torch.Tensor) -> Path:
        def change(tensors: dict[str, torch.Tensor]) -> None:
            tensors[ROPE_FACTORS] = values

        return write_tiny_gguf(tmp_path / "tiny.gguf", family="llama", change=change)

    assert factors.max() > 30
    rope = load(stretched_by(factors)).module.config.rope_parameters
    assert (rope["rope_type"], rope["factor"]) == ("llama3", 32.0)
    assert "stretches its positions" in refusal(stretched_by(factors.flip(0)))


def extra_layer(tensors: dict[str, torch.Tensor]) -> None:
    tensors.update(
        {name.replace("blk.2.", "blk.3."): part.clone() for name, part in tensors.items() if "blk.2." in name}
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors: tensors[EMBEDDING].__setitem__((300, 0), float("nan")), "not numbers (model.embed_tokens"),
        (
            lambda tensors: tensors["blk.1.attn_norm.weight"].__setitem__(0, float("inf")),
            "not numbers (model.layers.1.",
        ),
        (extra_layer, "more layers than the 3 that it counts"),
        (lambda tensors: tensors.pop("blk.1.ffn_up.weight"), "without 1 tensors (model.layers.1.mlp.up_proj.weight)"),
        (
            lambda tensors: tensors.update({"blk.1.ffn_up.weight": torch.zeros(32, 64)}),
            "other sizes than its head says (model.layers.1.mlp.up_proj.weight)",
        ),
    ],
)
def test_a_file_that_would_be_served_wrong_is_refused_by_name(tmp_path, change, words):
    assert words in refusal(write_tiny_gguf(tmp_path / "tiny.gguf", change=change))


def test_what_is_no_whole_gguf_of_a_known_kind_is_told_apart(tmp_path):
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    whole = path.read_bytes()
    for begin, words in (
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (b"<html>", "web page"),
        (b"", "empty"),
        (b"PK", "no GGUF file"),
        (whole[:10], "damaged or cut short"),
        (whole[:5000], "damaged or cut short"),
        (whole[:-5000], "damaged or cut short"),
    ):
        path.write_bytes(begin)
        assert words in refusal(path)
    assert "architecture hyperloop9" in refusal(write_tiny_gguf(path, architecture="hyperloop9"))


def test_a_digest_is_remembered_only_while_the_file_is_the_same(tmp_path, monkeypatch):
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    monkeypatch.setattr("myserve_ui.models.gguf.checksums.SETTLED_SECONDS", -1.0)
    read: list[Path] = []
    from myserve_ui.models.gguf import checksums

    whole = checksums.digest_of
    monkeypatch.setattr(checksums, "digest_of", lambda each: read.append(each) or whole(each))
    folders = [convert_gguf(path, cache=tmp_path / "cache", on_progress=lambda *_: None) for _ in range(2)]
    assert folders[0] == folders[1]
    assert read.count(path) == 1
    path.touch()
    convert_gguf(path, cache=tmp_path / "cache", on_progress=lambda *_: None)
    assert read.count(path) == 2
