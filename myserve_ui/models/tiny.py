"""Seeded models of a few layers, one per family: what the tests serve, with no download and no weights on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GenerationConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PhiConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.tokenizers.byte_tokenizer import BOS_TOKEN_ID, EOS_TOKEN_ID, ByteTokenizer

CONTEXT_LENGTH = 512
VOCAB_SIZE = 320
SLIDING_WINDOW = 8
"""Short enough that every test prompt of a sliding-window family leaves it."""

HIDDEN_GAIN, OUTPUT_GAIN = 2.5, 4.0
"""Less, and greedy text soon runs in a short circle."""

COMMON = MappingProxyType(
    {
        "vocab_size": VOCAB_SIZE,
        "max_position_embeddings": CONTEXT_LENGTH,
        "bos_token_id": BOS_TOKEN_ID,
        "eos_token_id": EOS_TOKEN_ID,
        "pad_token_id": EOS_TOKEN_ID,
        "tie_word_embeddings": False,
    }
)
"""Untied: a random model with tied embeddings only repeats the token before."""


def _llama_like(config_class: type[PretrainedConfig], **sizes: object) -> Callable[[], PretrainedConfig]:
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
    return lambda: config_class(**{**COMMON, **shape, "num_key_value_heads": 2, **sizes})


FAMILIES: Mapping[str, Callable[[], PretrainedConfig]] = MappingProxyType(
    {
        "llama": _llama_like(LlamaConfig),
        "qwen2": _llama_like(Qwen2Config, num_key_value_heads=1),
        "qwen3": _llama_like(Qwen3Config, head_dim=32),
        "gemma2": _llama_like(
            Gemma2Config,
            head_dim=24,
            query_pre_attn_scalar=24,
            sliding_window=SLIDING_WINDOW,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=10.0,
        ),
        "gemma3": _llama_like(
            Gemma3TextConfig,
            head_dim=32,
            query_pre_attn_scalar=32,
            sliding_window=SLIDING_WINDOW,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        ),
        "mistral": _llama_like(MistralConfig, head_dim=16, sliding_window=SLIDING_WINDOW),
        "gpt2": lambda: GPT2Config(**COMMON, n_embd=48, n_layer=2, n_head=3, n_positions=CONTEXT_LENGTH, n_inner=96),
        "gpt_neox": _llama_like(GPTNeoXConfig, hidden_size=48, num_attention_heads=3, rotary_pct=0.5),
        "phi": _llama_like(PhiConfig, num_key_value_heads=4, partial_rotary_factor=0.5),
        "phi3": _llama_like(Phi3Config, num_attention_heads=2, num_key_value_heads=1),
    }
)
"""Head sizes 16, 24 and 32, one to four query heads for a key head, with and without windows, caps and biases."""


def build_tiny_model(family: str, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A seeded causal LM of `family` on the CPU, in eval mode. The global random state is left as it was."""
    config = FAMILIES[family]()
    with torch.random.fork_rng(devices=[]):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    _scale_weights(model, torch.Generator().manual_seed(seed))
    for parameter in model.parameters():  # not the buffers: rotary frequencies stay in fp32, as in a loaded model
        parameter.data = parameter.data.to(dtype)
    model.generation_config = GenerationConfig(
        bos_token_id=BOS_TOKEN_ID, eos_token_id=EOS_TOKEN_ID, pad_token_id=EOS_TOKEN_ID
    )
    return model.eval().requires_grad_(False)


def build_tiny_loaded_model(family: str, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> LoadedModel:
    """A tiny model of `family` with a byte tokenizer, as the loader would hand it over."""
    return LoadedModel(
        info=ModelInfo(id=f"tiny-{family}", name=f"tiny-{family}", precision="full", state=LoadState.READY),
        module=build_tiny_model(family, seed=seed, dtype=dtype),
        tokenizer=ByteTokenizer(VOCAB_SIZE),
        eos_token_ids=frozenset({EOS_TOKEN_ID}),
        context_length=CONTEXT_LENGTH,
        bos_token_id=BOS_TOKEN_ID,
        dtype=dtype,
    )


def _scale_weights(model: PreTrainedModel, generator: torch.Generator) -> None:
    """Weights large enough that the argmax moves with the context and wins by far more than rounding."""
    output = model.get_output_embeddings().weight
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() < 2:
            parameter.data += 0.1 * noise
        else:
            gain = OUTPUT_GAIN if parameter is output else HIDDEN_GAIN
            parameter.data = gain * noise / parameter.shape[-1] ** 0.5
