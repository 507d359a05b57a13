"""Writes tiny seeded models as GGUF files, with whatever is to be wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import gguf
import torch
from transformers import PreTrainedModel

from myserve_ui.models.tiny import build_tiny_model
from tests.support.tiny_checkpoint import CHATML, build_tiny_tokenizer

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
}


Change = Callable[[dict[str, torch.Tensor]], None]
"""Changes tensors, by the names that they have in the file, before they are written."""


def write_tiny_gguf(
    path: Path,
    *,
    form: str = "F32",
    family: str = "qwen2",
    architecture: str | None = None,
    change: Change | None = None,
) -> Path:
    """A tiny `family` as a GGUF file with ChatML and the tiny tokenizer; matrices are stored in the type `form`."""
    model, tokenizer = build_tiny_model(family), build_tiny_tokenizer()
    writer = gguf.GGUFWriter(path, architecture or family)
    config = model.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    add_tokenizer(writer, tokenizer, config.vocab_size)
    for name, tensor in _tensors(model, change).items():
        kind = gguf.GGMLQuantizationType[form if tensor.dim() > 1 else "F32"]
        writer.add_tensor(name, gguf.quantize(tensor.numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(model: PreTrainedModel, change: Change | None) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, tensor in model.state_dict().items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        tensors[name] = tensor.clone()
    if change is not None:
        change(tensors)
    return tensors


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer, vocab_size: int) -> None:
    words = {index: word for word, index in tokenizer.get_vocab().items()}
    special = set(tokenizer.all_special_ids) | {tokenizer.convert_tokens_to_ids("<|im_start|>")}
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([words.get(index, f"[unused{index}]") for index in range(vocab_size)])
    kinds = [gguf.TokenType.CONTROL if index in special else gguf.TokenType.NORMAL for index in range(vocab_size)]
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in merges_of(tokenizer)])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_chat_template(CHATML)


def merges_of(tokenizer) -> list[tuple[str, str]]:
    return [tuple(pair) for pair in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]]
