"""Writes a tiny seeded model with a real fast tokenizer to a folder, so that tests load it as any other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from myserve_ui.models.tiny import build_tiny_model

START_OF_TURN, END_OF_TURN = "<|im_start|>", "<|im_end|>"

CHATML = (
    "{% for message in messages %}"
    "{% if message['role'] == 'tool' %}{{ raise_exception('this model knows no tools') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

MERGED_WORDS = ("the", "and", "user", "system", "assistant", "Hello", "world")
"""Words that become one token each, so that tokens and bytes are not the same."""


def save_tiny_model(
    folder: Path, family: str, *, seed: int = 0, dtype: torch.dtype = torch.float32, chat_template: str | None = CHATML
) -> Path:
    """Write weights (safetensors), configuration and tokenizer of a tiny `family` model to `folder`."""
    tokenizer = build_tiny_tokenizer(chat_template=chat_template)
    model = build_tiny_model(family, seed=seed, dtype=dtype)
    for config in (model.config, model.generation_config):
        config.bos_token_id = config.pad_token_id = None
        config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_two_models(folder: Path) -> tuple[Path, Path]:
    """Folders `first` and `second`: tiny models whose tokenizers have as many ids, in another order."""
    first = save_tiny_model(folder / "first", "llama")
    second = save_tiny_model(folder / "second", "qwen2", seed=1)
    build_tiny_tokenizer(words=MERGED_WORDS[::-1]).save_pretrained(second)
    return first, second


def build_tiny_tokenizer(
    *, chat_template: str | None = CHATML, words: Sequence[str] = MERGED_WORDS
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of under 320 ids, with ChatML's two special tokens; it adds no BOS."""
    vocabulary, merges = _vocabulary_and_merges(words)
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(START_OF_TURN, special=True), AddedToken(END_OF_TURN, special=True)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END_OF_TURN)
    tokenizer.chat_template = chat_template
    return tokenizer


def _vocabulary_and_merges(words: Sequence[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """All bytes, then each merged word letter by letter."""
    vocabulary = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges: list[tuple[str, str]] = []
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocabulary:
                vocabulary[word[:end]] = len(vocabulary)
                merges.append((word[: end - 1], word[end - 1]))
    return vocabulary, merges
