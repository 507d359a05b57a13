"""Log-probabilities of chosen and of given tokens, with the likeliest beside them."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import torch

from myserve_ui.core.outputs import TokenLogprob
from myserve_ui.engine.device_copies import to_device
from myserve_ui.engine.module.errors import is_out_of_memory
from myserve_ui.engine.scheduler import ScheduledBatch
from myserve_ui.engine.sequence import Sequence, fail_sequence, is_fault


def score_prompts(batch: ScheduledBatch, logits: torch.Tensor) -> None:
    """Report the log-probability of every prompt token that the batch's scored chunks lead up to.

    The logits after a token score the one that follows it; what was scored before a preemption is not again.
    """
    end = 0
    for chunk in batch.chunks:
        end += chunk.num_logits
        if not chunk.scored:
            continue
        sequence = chunk.sequence
        first = max(sequence.num_scored_tokens, chunk.start + 1)
        targets = sequence.token_ids[first : min(chunk.start + chunk.length + 1, sequence.num_prompt_tokens)]
        if targets and not sequence.is_finished:
            start = end - chunk.length + (first - 1 - chunk.start)
            _report(sequence, logits[start : start + len(targets)], targets)


def _report(sequence: Sequence, logits: torch.Tensor, targets: list[int]) -> None:
    """Raises only if the memory runs out: nothing is reported then, and the step will be done again."""
    try:
        if sequence.on_logits is not None:
            sequence.on_logits(logits)
        else:
            num_top = [sequence.params.top_logprobs] * len(targets)
            sequence.add_prompt_logprobs(token_logprobs(logits, targets, num_top))
    except BaseException as error:  # the border of one sequence: the others of its step go on
        if is_out_of_memory(error) or not is_fault(error):
            raise
        fail_sequence(sequence)
    sequence.num_scored_tokens += len(targets)


def copy_reporting(logits: torch.Tensor, sequences: SequenceOf[Sequence]) -> tuple[dict[int, int], torch.Tensor | None]:
    """How many likeliest tokens a sequence reports, by its index, of those that do; and their rows of `logits`."""
    num_top = {index: each.params.top_logprobs for index, each in enumerate(sequences) if each.params.logprobs}
    return num_top, logits[to_device(list(num_top), torch.long, logits.device)] if num_top else None


def report_logprobs(
    logits: torch.Tensor | None, num_top: dict[int, int], token_ids: SequenceOf[int | None]
) -> dict[int, TokenLogprob]:
    """Of the chosen tokens, by index, from what `copy_reporting` gave."""
    if logits is None:
        return {}
    chosen = [token_ids[index] or 0 for index in num_top]
    return dict(zip(num_top, token_logprobs(logits, chosen, list(num_top.values())), strict=True))


def token_logprobs(logits: torch.Tensor, token_ids: SequenceOf[int], num_top: SequenceOf[int]) -> list[TokenLogprob]:
    """For each row of `logits` [rows, vocab]: the log-probability of its token, and its `num_top` likeliest tokens."""
    logprobs = torch.log_softmax(logits, dim=-1)
    chosen = logprobs.gather(-1, to_device(token_ids, torch.long, logits.device)[:, None])[:, 0].tolist()
    values, ids = logprobs.topk(min(max(num_top), logits.shape[-1]), dim=-1)
    rows = zip(token_ids, chosen, ids.tolist(), values.tolist(), num_top, strict=True)
    return [
        TokenLogprob(token_id, logprob, tuple(zip(top_ids[:count], top_values[:count], strict=True)))
        for token_id, logprob, top_ids, top_values, count in rows
    ]
