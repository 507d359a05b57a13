"""A configuration of a few thousand parameters for any causal type that transformers knows, from its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

CONTEXT = 512
WINDOW, CHUNK = 24, 32
LAYERS = 4
HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 64, 4, 2, 16

SIZES: Mapping[str, Any] = {
    name: size
    for names, size in (
        ("hidden_size hidden_size_global d_model n_embd dim embedding_size emb_dim word_embed_proj_dim", HIDDEN),
        ("intermediate_size ffn_dim n_inner dff d_ff ffn_hidden_size intermediate_size_mlp", 96),
        ("encoder_ffn_dim decoder_ffn_dim shared_expert_intermediate_size", 96),
        ("moe_intermediate_size expert_ffn_hidden_size shared_intermediate_size", 32),
        ("num_hidden_layers n_layer num_layers n_layers decoder_layers encoder_layers", LAYERS),
        ("num_attention_heads n_head n_heads num_heads decoder_attention_heads encoder_attention_heads", HEADS),
        ("num_key_value_heads swa_num_key_value_heads num_global_key_value_heads", KV_HEADS),
        ("head_dim attention_head_dim kv_channels global_head_dim swa_head_dim swa_v_head_dim", HEAD_DIM),
        ("qk_nope_head_dim v_head_dim kv_lora_rank", 16),
        ("qk_rope_head_dim rotary_dim index_head_dim index_n_heads hidden_size_per_layer_input", 8),
        ("qk_head_dim q_lora_rank", 24),
        ("num_experts num_local_experts n_routed_experts moe_num_experts", 4),
        ("num_experts_per_tok moe_topk moe_k num_experts_per_token top_k_experts", 2),
        ("n_group topk_group first_k_dense_replace zero_expert_num", 1),
        ("sliding_window attention_window_size", WINDOW),
        ("attention_chunk_size", CHUNK),
        ("max_position_embeddings n_positions n_ctx max_sequence_length", CONTEXT),
        ("vocab_size vocab_size_per_layer_input", 320),
        ("query_pre_attn_scalar", HEAD_DIM),
    )
    for name in names.split()
}
"""Given to whatever has such a field that is set by default."""

LISTS = ("layer_types", "mlp_layer_types", "no_rope_layers", "moe_layers", "attention_types", "layers_block_type")
SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "bailing_hybrid": {"n_group": 1, "topk_group": 1},
    "bamba": {"attn_layer_indices": [1, 3]},
    "cohere_compass_text": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("full_attention", "sliding_attention")
        },
    },
    "dbrx": {
        "attn_config": {"rope_theta": 1e4, "kv_n_heads": KV_HEADS, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 32},
    },
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dory": {"n_input_layers": 1, "n_output_layers": 1, "n_recurrent_layers": 2, "layer_types": None},
    "dots1": {"n_shared_experts": 1},
    "dots3_note": {
        "vision_config": {"adapter_in_dim": HIDDEN, "adapter_out_dim": HIDDEN},
        "audio_config": {"adapter_input_size": HIDDEN, "adapter_out_dim": HIDDEN},
    },
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": KV_HEADS},
    "gemma3n_text": {"num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": WINDOW},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 2},
    "inkling2_loop_text": {"unpadded_vocab_size": 320},
    "inkling2_text": {"unpadded_vocab_size": 320},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "mamba2": {"num_heads": 8},
    "phimoe": {"sliding_window": 30},
    "qwen2": {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2, "layer_types": None},
    "qwen2_moe": {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2, "layer_types": None},
    "qwen3": {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2, "layer_types": None},
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": HEAD_DIM,
        "indexer_budget": 32,
        "indexer_compress_ratio": 4,
        "ngram_vocab_size_base": 64,
    },
    "reformer": {"axial_pos_embds_dim": (32, 32), "axial_pos_shape": (16, 32)},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}
"""What the rules above do not hit. Decoders that come out as encoders by default are asked to be decoders."""

DECODERS = ("is_decoder",)
TOKENS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
"""Lower than any token of a prompt."""


def causal_types() -> list[str]:
    """Every type that AutoModelForCausalLM of the installed transformers takes."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def tiny_config(model_type: str, *, fill: bool = False) -> PretrainedConfig:
    """A small configuration of `model_type`; raises whatever its class says of sizes that do not fit.

    With `fill`, sizes that the defaults leave open are stated too.
    """
    config_class = CONFIG_MAPPING[model_type]
    config = config_class(**_shrunk(config_class, SPECIAL.get(model_type, {}), fill=fill), **TOKENS)
    for each in (config, *(getattr(config, name) for name in config_class.sub_configs)):
        if isinstance(each, PretrainedConfig):
            each.tie_word_embeddings = False
    return config


def _shrunk(config_class: type[PretrainedConfig], special: Mapping[str, Any], *, fill: bool) -> dict[str, Any]:
    default = config_class()
    stated = default.to_dict()
    values = {name: size for name, size in SIZES.items() if stated.get(name) is not None or (fill and name in stated)}
    if "qk_rope_head_dim" in stated and "head_dim" in values:
        values["head_dim"] = values["qk_rope_head_dim"]  # what is turned is all that these families call a head
    if stated.get("num_key_value_heads") is not None and stated.get("num_key_value_heads") == stated.get(
        "num_attention_heads"
    ):
        values["num_key_value_heads"] = HEADS
    values |= {name: True for name in DECODERS if name in stated and not config_class.sub_configs}
    for name in config_class.sub_configs:
        if isinstance(sub := getattr(default, name, None), PretrainedConfig):
            inner = {**SPECIAL.get(sub.model_type, {}), **special.get(name, {})}
            values[name] = _shrunk(type(sub), inner, fill=fill)
            values[name] |= {each: id_ for each, id_ in TOKENS.items() if each in sub.to_dict() and each not in inner}
    values |= {name: _cut(stated[name]) for name in LISTS if isinstance(stated.get(name), list) and name not in special}
    return {**values, **{name: value for name, value in special.items() if name not in config_class.sub_configs}}


def _cut(values: list[Any]) -> list[Any]:
    """As many as there are layers, with each kind among them."""
    kinds = list(dict.fromkeys(values)) if values and not isinstance(values[0], list) else []
    if not kinds or len(kinds) > LAYERS:
        return values[:LAYERS]
    if len(set(values[:LAYERS])) == len(kinds):
        return values[:LAYERS]
    return (kinds * LAYERS)[:LAYERS]
