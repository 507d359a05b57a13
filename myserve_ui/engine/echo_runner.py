"""A runner without a model: the likeliest next token is the prompt again, then the end. To try the wiring."""

from __future__ import annotations

import torch

from myserve_ui.engine.scheduler import ScheduledBatch, ScheduledChunk

LIKELY = 30.0
"""Logit of the echoed token; every other is 0, so that any temperature up to 2 still echoes."""


class EchoRunner:
    """Answers a prompt with its own tokens, one a step, then `end_token_id`."""

    kv_bytes_per_token = 0
    rotary_rule = None

    def __init__(self, vocab_size: int, end_token_id: int) -> None:
        self._vocab_size = vocab_size
        self._end_token_id = end_token_id

    def reserve(self, allocated: list[int]) -> None:
        """Nothing is kept."""

    def trim(self, allocated: list[int]) -> None:
        """Nothing is kept."""

    def forward(self, batch: ScheduledBatch) -> torch.Tensor:
        logits = torch.zeros(batch.num_logits, self._vocab_size)
        likely = [token_id for chunk in batch.chunks for token_id in self._likely_tokens(chunk)]
        logits[range(len(likely)), likely] = LIKELY
        return logits

    def _likely_tokens(self, chunk: ScheduledChunk) -> list[int]:
        """The token after each of the chunk's last `num_logits` tokens."""
        end = chunk.start + chunk.length
        following = chunk.sequence.token_ids[end - chunk.num_logits + 1 : end + 1]
        return [*following, self._next_token(chunk)][: chunk.num_logits]

    def _next_token(self, chunk: ScheduledChunk) -> int:
        sequence = chunk.sequence
        echoed = sequence.num_output_tokens
        return sequence.token_ids[echoed] if echoed < sequence.num_prompt_tokens else self._end_token_id
