"""A GGUF is converted once, atomically; a damaged copy is made again; two at once do not break each other."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.cache_folder import LOCK, NO_ROOM
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.gguf.checksums import MANIFEST, is_whole
from myserve_ui.models.gguf.conversion import CHECKING, HASHING, STAGE, WRITING, convert_gguf
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.models.tiny import build_tiny_model
from tests.support.tiny_checkpoint import build_tiny_tokenizer
from tests.support.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def convert(gguf_file: Path, cache: Path) -> tuple[Path, list[str]]:
    """The converted folder, and the stages that were reported."""
    stages: list[str] = []
    folder = convert_gguf(gguf_file, cache=cache, on_progress=lambda stage, fraction: stages.append(stage))
    return folder, stages


def unhidden(cache: Path) -> list[str]:
    """What a conversion leaves: everything but the locks."""
    return [path.name for path in (cache / "models").iterdir() if not path.name.startswith(LOCK)]


def test_a_gguf_file_is_served_like_the_model_it_was_made_from(tiny_gguf, tmp_path):
    catalog = build_catalog(model=str(tiny_gguf), precision="full", device="cpu")
    loaded = load_model(catalog.default, options=LoadOptions(cache=tmp_path))
    tokenizer = build_tiny_tokenizer()
    token_ids = loaded.tokenizer.encode("Hello world and the user")
    assert token_ids == tokenizer.encode("Hello world and the user")
    assert loaded.eos_token_ids == {tokenizer.eos_token_id}
    assert loaded.info.has_chat_template
    with torch.inference_mode():
        expected = build_tiny_model("qwen2")(torch.tensor([token_ids])).logits
        actual = loaded.module(torch.tensor([token_ids])).logits
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_the_second_time_the_copy_is_only_checked(tiny_gguf, tmp_path):
    folder, stages = convert(tiny_gguf, tmp_path)
    again, second_stages = convert(tiny_gguf, tmp_path)
    assert again == folder
    assert len(stages) > len(second_stages) == 1
    assert unhidden(tmp_path) == [folder.name]


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "no manifest"])
def test_a_damaged_copy_is_noticed_and_made_again(tiny_gguf, tmp_path, damage):
    folder, _ = convert(tiny_gguf, tmp_path)
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    if damage == "flip":
        weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "truncate":
        weights.write_bytes(data[:-9])
    else:
        (weights if damage == "remove" else folder / MANIFEST).unlink()
    assert not is_whole(folder)
    convert(tiny_gguf, tmp_path)
    assert weights.read_bytes() == data
    assert is_whole(folder)


def test_a_conversion_that_fails_leaves_nothing_behind(tiny_gguf, tmp_path, monkeypatch):
    monkeypatch.setattr("myserve_ui.models.gguf.conversion.write_manifest", lambda folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        convert(tiny_gguf, tmp_path)
    assert unhidden(tmp_path) == []


def test_each_stage_is_told_and_nothing_is_drawn(tiny_gguf, tmp_path, capfd):
    told: list[tuple[str, float | None]] = []
    convert_gguf(tiny_gguf, cache=tmp_path, on_progress=lambda *progress: told.append(progress))
    assert list(dict(told)) == [CHECKING, STAGE, WRITING, HASHING]
    fractions = [fraction for stage, fraction in told if stage == STAGE]
    assert fractions == sorted(set(fractions))
    assert len(fractions) > 10
    assert capfd.readouterr() == ("", "")


def test_a_disk_that_is_full_names_the_way_out(tiny_gguf, tmp_path, caplog):
    resource = pytest.importorskip("resource")
    catalog = build_catalog(model=str(tiny_gguf), precision="full", device="cpu")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with caplog.at_level(logging.INFO), pytest.raises(ModelLoadError) as caught:
            load_model(catalog.default, options=LoadOptions(cache=tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.message == NO_ROOM
    assert caplog.records == []
    assert unhidden(tmp_path) == []


def test_two_processes_at_once_both_get_the_whole_copy(tiny_gguf, tmp_path):
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from pathlib import Path\n"
        "from myserve_ui.models.gguf.conversion import convert_gguf\n"
        f"print(convert_gguf(Path({str(tiny_gguf)!r}), cache=Path({str(tmp_path)!r}), on_progress=lambda *_: None))\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    folders = {Path(output.strip()) for output, _ in outputs}
    assert len(folders) == 1
    assert is_whole(folders.pop())
    assert len(unhidden(tmp_path)) == 1


def test_a_gguf_that_is_missing_or_damaged_is_refused_in_a_sentence(tiny_gguf, tmp_path):
    (tmp_path / "cut.gguf").write_bytes(tiny_gguf.read_bytes()[:5000])
    for name in ("absent", "cut"):
        catalog = build_catalog(model=str(tmp_path / f"{name}.gguf"), precision="full", device="cpu")
        with pytest.raises(ModelLoadError, match=name) as caught:
            load_model(catalog.default, options=LoadOptions(cache=tmp_path / "cache"))
        assert str(tmp_path) not in caught.value.message


def test_a_cache_that_cannot_be_written_names_the_setting(tiny_gguf, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    catalog = build_catalog(model=str(tiny_gguf), precision="full", device="cpu")
    with pytest.raises(ModelLoadError, match="MYSERVE_CACHE"):
        load_model(catalog.default, options=LoadOptions(cache=tmp_path / "cache"))
