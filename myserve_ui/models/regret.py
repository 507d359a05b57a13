"""How much worse than the module's own choice a given answer is: parity where rounding decides between near ties."""

from __future__ import annotations

from collections.abc import Sequence

import torch


@torch.inference_mode()
def measure_regret(module: torch.nn.Module, prompt_token_ids: Sequence[int], answer: Sequence[int]) -> float:
    """Of the answer's tokens, how far the worst is below the best at its place, as a share of the largest logit.

    By one plain forward over prompt and answer; 0 if every token is the module's own greedy choice.
    """
    device = module.get_input_embeddings().weight.device  # type: ignore[operator]
    token_ids = torch.tensor([[*prompt_token_ids, *answer]], device=device)
    logits = module(input_ids=token_ids, use_cache=False).logits[0, len(prompt_token_ids) - 1 : -1].float()
    chosen = logits.gather(-1, token_ids[0, len(prompt_token_ids) :, None].to(logits.device))[:, 0]
    worst: float = ((logits.amax(-1) - chosen) / logits.abs().amax()).max().item()
    return worst
