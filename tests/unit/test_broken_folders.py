"""Whoever broke a model's folder is told in one sentence what is wrong, where, and the way out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from myserve_ui.core.sampling_params import SamplingDefaults
from myserve_ui.errors import ModelLoadError, PrecisionUnavailableError
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.checkpoint import read_checkpoint
from myserve_ui.models.loading.loader import LoadOptions, load_model
from tests.support.broken_folders import (
    INDEX,
    SHARDS,
    WEIGHTS,
    Break,
    change_tensors,
    dangle,
    in_turn,
    make_folder,
    remove,
    remove_all_but,
    rename,
    set_in,
    shard,
    write,
)
from tests.support.tiny_checkpoint import save_tiny_model

UP = "model.layers.1.mlp.up_proj.weight"
CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer.json"
SETTINGS = "tokenizer_config.json"
UNEXPLAINED = "the log has the details"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("whole") / "tiny", "llama", dtype=torch.bfloat16)


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "tiny")


def load(folder: Path, precision: str = "full") -> LoadedModel:
    entry = build_catalog(model=str(folder), precision=precision, device="cpu").default
    return load_model(entry, options=LoadOptions(cache=folder.parent / "cache", kernels="plain"))


def refusal(folder: Path, precision: str = "full") -> str:
    with pytest.raises(ModelLoadError) as caught:
        load(folder, precision)
    message = caught.value.message
    assert not {"\n", str(folder.parent), UNEXPLAINED, "Error", "<class"} & {
        part for part in ("\n", str(folder.parent), UNEXPLAINED, "Error", "<class") if part in message
    }
    return message


def logits(model: LoadedModel) -> torch.Tensor:
    with torch.inference_mode():
        return model.module(torch.tensor([[5, 70, 200, 31]])).logits


def quantized(**values: object) -> Break:
    return set_in(CONFIG, quantization_config=values)


def as_eight_bits(tensors: dict[str, torch.Tensor]) -> None:
    for name in [name for name in tensors if "proj" in name]:
        tensors[name] = tensors[name].to(torch.float8_e4m3fn)
        tensors[f"{name}_scale_inv"] = torch.ones(1, 1)


ADAPTER = in_turn(
    remove_all_but(), write("adapter_config.json", b'{"peft_type": "LORA"}'), write("adapter_model.safetensors", b"")
)
INTEGERS = change_tensors(lambda tensors: tensors.update({UP: torch.ones(96, 64, dtype=torch.int8)}))
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"

BROKEN: dict[str, tuple[Break, str]] = {
    "awq": (quantized(quant_method="awq", bits=4), "`pip install gptqmodel`"),
    "gptq": (quantized(quant_method="gptq", bits=4), "`pip install gptqmodel`"),
    "compressed": (quantized(quant_method="compressed-tensors"), "`pip install compressed-tensors`"),
    "unknown form": (quantized(quant_method="wonder"), "does not know (wonder)"),
    "form without a name": (quantized(bits=4), "quant_method"),
    "form that is a list": (set_in(CONFIG, quantization_config=[1]), "quant_method"),
    "fp8 without a word": (change_tensors(as_eight_bits), "_scale_inv belongs to that"),
    "integers": (INTEGERS, f"whole numbers in 8 or 16 bits ({UP})"),
    "fewer layers": (set_in(CONFIG, num_hidden_layers=2), "set num_hidden_layers there, which is 2, to 3"),
    "no layers": (set_in(CONFIG, num_hidden_layers=0), "set num_hidden_layers there, which is 0, to 3"),
    "more layers": (set_in(CONFIG, num_hidden_layers=4), "without 9 tensors (model.layers.3.input_layernorm.weight"),
    "extra tensor": (change_tensors(lambda t: t.update({"model.wonder": torch.ones(2)})), "1 tensor that its config"),
    "no head": (change_tensors(lambda t: t.pop("lm_head.weight")), "without 1 tensor (lm_head.weight)"),
    "larger vocabulary": (set_in(CONFIG, vocab_size=400), "320 x 64 and should be 400 x 64"),
    "other sizes": (change_tensors(lambda t: t.update({UP: t[UP].t().contiguous()})), "64 x 96 and should be 96 x 64"),
    "activation": (set_in(CONFIG, hidden_act="wonder"), "its hidden_act is 'wonder'"),
    "rope": (set_in(CONFIG, rope_parameters={"rope_type": "wonder"}), "rope_type is 'wonder'"),
    "rope without a factor": (set_in(CONFIG, rope_parameters={"rope_type": "yarn"}), "{'factor'}"),
    "unknown kind": (set_in(CONFIG, model_type="hyperloop9"), "hyperloop9"),
    "kind that is a list": (set_in(CONFIG, model_type=["llama"]), "as model_type, which should be a name"),
    "architectures": (set_in(CONFIG, architectures="Llama"), "as architectures, which should be a list of names"),
    "heads as a word": (set_in(CONFIG, num_attention_heads="four"), "'num_attention_heads' expected int"),
    "not a number": (set_in(CONFIG, rms_norm_eps=float("nan")), "'NaN' as rms_norm_eps"),
    "config is a list": (write(CONFIG, b"[1]"), "config.json of tiny is damaged (it holds no object"),
    "config is cut": (write(CONFIG, b'{"model_type": '), "damaged (line 1, column 16"),
    "config is bytes": (write(CONFIG, b"{\xff}"), "no text in UTF-8"),
    "config with a mark": (write(CONFIG, b"\xef\xbb\xbf{}"), "byte order mark"),
    "config is deep": (write(CONFIG, b"[" * 100_000), "nested too deep"),
    "config is a folder": (make_folder(CONFIG), "config.json of tiny is a folder"),
    "config is a link": (dangle(CONFIG), "config.json of tiny is a link"),
    "no config": (remove(CONFIG), "no config.json"),
    "empty": (remove_all_but(), "tiny is empty"),
    "only gguf": (in_turn(remove_all_but(), write("m.gguf", b"GGUF")), "GGUF files (m.gguf)"),
    "own layout": (in_turn(remove_all_but(), write("params.json", b"{}")), "maker's own layout"),
    "adapter": (ADAPTER, "merge_and_unload"),
    "adapter beside a config": (in_turn(remove(WEIGHTS), write("adapter_config.json", b"{}")), "merge_and_unload"),
    "shard missing": (in_turn(shard, remove(SHARDS[1])), f"1 of 2 files missing ({SHARDS[1]})"),
    "shard is a link": (in_turn(shard, dangle(SHARDS[1])), f"{SHARDS[1]} of tiny is a link"),
    "no index": (in_turn(shard, remove(INDEX)), f"without their list, {INDEX}"),
    "index is cut": (in_turn(shard, write(INDEX, b"{")), f"The {INDEX} of tiny is damaged"),
    "index without a map": (in_turn(shard, write(INDEX, b"{}")), "does not list the files"),
    "index of numbers": (in_turn(shard, set_in(INDEX, weight_map={"a": 3})), "does not list the files"),
    "index elsewhere": (in_turn(shard, set_in(INDEX, weight_map={"a": "../../etc/x.safetensors"})), "does not list"),
    "weights are a link": (dangle(WEIGHTS), "model.safetensors of tiny is a link"),
    "weights are a folder": (make_folder(WEIGHTS), "is no file"),
    "weights are empty": (write(WEIGHTS, b""), "model.safetensors of tiny is empty"),
    "weights are a pointer": (write(WEIGHTS, LFS_POINTER), "git lfs pull"),
    "weights are a page": (write(WEIGHTS, b"<html>"), "web page"),
    "weights with a huge head": (write(WEIGHTS, (1 << 60).to_bytes(8, "little") + b"{}"), "damaged or incomplete"),
    "weights by another name": (rename(WEIGHTS, "weights.safetensors"), "but weights.safetensors: rename it"),
    "consolidated": (rename(WEIGHTS, "consolidated.safetensors"), "Mistral's own layout (consolidated.safetensors)"),
    "pickled": (rename(WEIGHTS, "pytorch_model.bin"), "only pytorch_model.bin"),
    "no weights": (remove(WEIGHTS), "no safetensors weights"),
    "end token": (set_in(GENERATION, eos_token_id="x"), "'x' as eos_token_id"),
    "defaults are a list": (write(GENERATION, b"[1]"), "generation_config.json of tiny is damaged"),
    "an empty tokenizer": (write(TOKENIZER, b"{}"), "is not a whole one (it lacks model and added_tokens)"),
    "no tokenizer": (remove(TOKENIZER, SETTINGS), "no tokenizer (tokenizer.json)"),
    "tokenizer in pieces": (
        in_turn(remove(TOKENIZER), write("tokenizer.model", b"\n\x05abc")),
        "`pip install sentencep",
    ),
    "tokenizer with code": (
        set_in(SETTINGS, tokenizer_class="Mine", auto_map={"AutoTokenizer": ["mine.Mine", None]}),
        "The tokenizer of tiny needs code",
    ),
    "template is a number": (in_turn(remove("chat_template.jinja"), set_in(SETTINGS, chat_template=5)), "is no text"),
}


@pytest.mark.parametrize(("how", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_folder_says_what_is_wrong(folder, how, words):
    how(folder)
    assert words in refusal(folder)


HARMLESS: dict[str, Break] = {
    "null form": set_in(CONFIG, quantization_config=None),
    "two files": shard,
    "consolidated beside them": in_turn(shard, write("consolidated.safetensors", b"not looked at")),
    "tables of positions": change_tensors(
        lambda t: t.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)})
    ),
    "draft head": change_tensors(lambda t: t.update({"mtp.layers.0.weight": torch.ones(2, 2)})),
    "draft layer": in_turn(
        set_in(CONFIG, num_nextn_predict_layers=1),
        change_tensors(lambda t: t.update({"model.layers.3.eh_proj.weight": torch.ones(2, 2)})),
    ),
    "scales of a cache in 8 bits": change_tensors(
        lambda t: t.update({"model.layers.0.self_attn.k_scale": torch.ones(1)})
    ),
    "a bias of zeros": change_tensors(lambda t: t.update({UP.replace("weight", "bias"): torch.zeros(96)})),
    "sampling defaults that are a link to nowhere": dangle("generation_config.json"),
    "an attention that is not here": set_in(CONFIG, attn_implementation="flash_attention_2"),
}


@pytest.mark.parametrize("how", HARMLESS.values(), ids=HARMLESS)
def test_what_is_harmless_is_served_as_before(whole, folder, how):
    how(folder)
    assert torch.equal(logits(load(folder)), logits(load(whole)))


def test_a_file_in_a_folders_place_is_told_from_a_folder_that_is_missing(folder):
    for name, words in ((WEIGHTS, "is a file: give the folder"), ("nothing", "There is no folder")):
        entry = build_catalog(model=str(folder / name), precision="full", device="cpu").default
        with pytest.raises(ModelLoadError, match=words):
            load_model(entry, options=LoadOptions(cache=folder.parent / "cache"))


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% for m in messages %}{{ m.content {% endfor %}", "cannot be used (expected token 'end of print statement'"),
        ("{{ messages[0].foo.bar.baz }}", "cannot be used ('dict object' has no attribute 'foo')"),
        ("{{ raise_exception('no chats here') }}", "refuses these messages: no chats here"),
    ],
)
def test_a_template_that_can_render_nothing_is_told_when_the_model_loads(folder, caplog, template, words):
    (folder / "chat_template.jinja").write_text(template)
    load(folder)
    (told,) = [record.getMessage() for record in caplog.records if "cannot chat" in record.getMessage()]
    assert words in told


def test_files_that_are_not_read_are_not_counted(folder):
    in_turn(shard, lambda at: shutil.copy(at / SHARDS[0], at / "consolidated.safetensors"))(folder)
    checkpoint = read_checkpoint(folder, "tiny", trust_remote_code=False)
    tensors = [part for file in SHARDS for part in load_file(folder / file).values()]
    assert checkpoint.num_parameters == sum(part.numel() for part in tensors)
    assert checkpoint.weight_bytes == sum((folder / file).stat().st_size for file in SHARDS)
    assert checkpoint.dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("precision", "name", "value"),
    [
        ("full", UP, "nan"),
        ("full", "model.norm.weight", "inf"),
        ("nf4", UP, "nan"),
        ("int8", UP, "inf"),
        ("int8", "model.layers.2.input_layernorm.weight", "nan"),
        ("int4", "model.embed_tokens.weight", "nan"),
    ],
)
def test_weights_that_are_no_numbers_are_named_in_every_precision(folder, precision, name, value):
    change_tensors(lambda tensors: tensors[name].view(-1).__setitem__(17, float(value)))(folder)
    assert f"hold values that are not numbers ({name})" in refusal(folder, precision)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.float64])
def test_weights_that_are_no_numbers_are_found_in_every_dtype(folder, dtype):
    change_tensors(lambda tensors: tensors.update({UP: torch.full((96, 64), float("nan")).to(dtype)}))(folder)
    assert f"hold values that are not numbers ({UP})" in refusal(folder)


def test_weights_that_int8_cannot_hold_are_refused_there_alone(folder):
    change_tensors(lambda tensors: tensors[UP].__setitem__((0, 0), 70000.0))(folder)
    assert "too large for int8" in refusal(folder, "int8")
    assert load(folder, "nf4").module is not None


def test_packed_layers_of_other_sizes_are_refused_too(folder):
    change_tensors(lambda tensors: tensors.update({UP: torch.ones(128, 64)}))(folder)
    for precision in ("nf4", "int8"):
        assert f"{UP} is 128 x 64 and should be 96 x 64" in refusal(folder, precision)


def test_sampling_defaults_out_of_range_are_left_out_with_a_line_that_names_them(folder, caplog):
    set_in(GENERATION, temperature=5.0, top_p="hot", top_k=-3, min_p=True, repetition_penalty=0)(folder)
    assert load(folder).defaults == SamplingDefaults()
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty"):
        assert f"tiny: what its generation_config.json sets is left out: {name} must be" in caplog.text


def test_a_folder_saved_in_nf4_loads_as_it_is_and_in_no_other_precision(folder, monkeypatch):
    packed = load(folder, "nf4")
    packed.module.save_pretrained(folder)
    monkeypatch.setattr("bitsandbytes.nn.modules.has_avx512bf16", lambda: True)
    again = load(folder)
    assert torch.equal(logits(again), logits(packed))
    layers = [part for part in again.module.modules() if hasattr(part, "support_avx512bf16_for_cpu")]
    assert len(layers) == 21
    assert not any(layer.support_avx512bf16_for_cpu for layer in layers)
    with pytest.raises(PrecisionUnavailableError, match=r"fewer bits already \(bitsandbytes\)"):
        load(folder, "int8")


def test_the_hubs_own_cache_of_links_is_a_folder_as_any_other(whole, tmp_path):
    (tmp_path / "tiny").mkdir()
    for path in whole.iterdir():
        (tmp_path / "tiny" / path.name).symlink_to(path)
    assert torch.equal(logits(load(tmp_path / "tiny")), logits(load(whole)))


def test_an_index_whose_tensors_are_in_another_file_is_read_all_the_same(whole, folder):
    shard(folder)
    index = json.loads((folder / INDEX).read_text())
    moved = min(index["weight_map"])
    index["weight_map"][moved] = SHARDS[1]
    (folder / INDEX).write_text(json.dumps(index))
    assert torch.equal(logits(load(folder)), logits(load(whole)))
    parts = load_file(folder / SHARDS[0])
    parts.pop(moved)
    save_file(parts, folder / SHARDS[0], metadata={"format": "pt"})
    assert f"without 1 tensor ({moved})" in refusal(folder)
