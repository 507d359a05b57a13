"""Oracles: greedy text by the plainest means, to hold the engine against. Slow on purpose, never served."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers import PreTrainedModel
from transformers.generation.streamers import BaseStreamer

OnToken = Callable[[int], None]


def ignore_token(_token_id: int) -> None:
    """Nobody listens."""


class _Listener(BaseStreamer):
    """Hears the prompt first, in one piece, then each token."""

    def __init__(self, on_token: OnToken) -> None:
        self._on_token = on_token
        self._has_heard_prompt = False

    def put(self, value: torch.Tensor) -> None:
        if self._has_heard_prompt:
            self._on_token(int(value))
        self._has_heard_prompt = True

    def end(self) -> None:
        """Whoever called `generate` sees that by itself."""


@torch.inference_mode()
def generate_without_cache(
    model: PreTrainedModel,
    prompt_token_ids: Sequence[int],
    *,
    max_tokens: int,
    end_token_ids: frozenset[int],
    on_token: OnToken = ignore_token,
) -> list[int]:
    """Greedy ids after the prompt, by a full forward over everything so far for each; an end token is included.

    `on_token` hears each as soon as it is known.
    """
    token_ids = list(prompt_token_ids)
    for _ in range(max_tokens):
        logits = model(input_ids=torch.tensor([token_ids], device=model.device), use_cache=False).logits
        token_ids.append(int(logits[0, -1].argmax()))  # [1, len(token_ids), vocab] -> one id
        on_token(token_ids[-1])
        if token_ids[-1] in end_token_ids:
            break
    return token_ids[len(prompt_token_ids) :]


@torch.inference_mode()
def generate_plainly(
    model: PreTrainedModel,
    prompt_token_ids: Sequence[int],
    *,
    max_tokens: int,
    end_token_ids: frozenset[int],
    on_token: OnToken | None = None,
) -> list[int]:
    """Greedy ids after the prompt from transformers' own `generate`, with its cache; an end token is included.

    `on_token` hears each as soon as it is known.
    """
    return generate_padded_batch(
        model, [prompt_token_ids], max_tokens=max_tokens, end_token_ids=end_token_ids, on_token=on_token
    )[0]


@torch.inference_mode()
def generate_padded_batch(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    max_tokens: int,
    end_token_ids: frozenset[int],
    on_token: OnToken | None = None,
) -> list[list[int]]:
    """Greedy ids after each prompt, from one `generate` over all of them, shorter prompts padded on the left.

    The padding changes rounding, so a batch need not give the very ids of a prompt alone. The model's own sampling
    defaults are put aside: this is greedy, nothing else. `on_token` hears a single prompt's ids while they are made.
    """
    longest = max(len(prompt) for prompt in prompts)
    pad_id = min(end_token_ids, default=0)
    padded = [[pad_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    output = model.generate(
        input_ids=torch.tensor(padded, device=model.device),
        attention_mask=torch.tensor(mask, device=model.device),
        max_new_tokens=max_tokens,
        do_sample=False,
        temperature=None,
        top_p=None,
        top_k=None,
        repetition_penalty=1.0,
        eos_token_id=sorted(end_token_ids) or None,
        pad_token_id=pad_id,
        streamer=None if on_token is None else _Listener(on_token),
    )
    return [cut_after_end(row, end_token_ids) for row in output[:, longest:].tolist()]


def cut_after_end(token_ids: Sequence[int], end_token_ids: frozenset[int]) -> list[int]:
    """`token_ids` up to and with the first end token: what follows is padding."""
    for index, token_id in enumerate(token_ids):
        if token_id in end_token_ids:
            return list(token_ids[: index + 1])
    return list(token_ids)


@torch.inference_mode()
def measure_greedy_gap(module: torch.nn.Module, prompt_token_ids: Sequence[int], answer: Sequence[int]) -> float:
    """Of the answer's tokens, how far the worst is below the best at its place, as a share of the largest logit.

    By one plain forward over prompt and answer; 0 if every token is the module's own greedy choice.
    """
    device = module.get_input_embeddings().weight.device  # type: ignore[operator]
    token_ids = torch.tensor([[*prompt_token_ids, *answer]], device=device)
    logits = module(input_ids=token_ids, use_cache=False).logits[0, len(prompt_token_ids) - 1 : -1].float()
    chosen = logits.gather(-1, token_ids[0, len(prompt_token_ids) :, None].to(logits.device))[:, 0]
    worst: float = ((logits.amax(-1) - chosen) / logits.abs().amax()).max().item()
    return worst
