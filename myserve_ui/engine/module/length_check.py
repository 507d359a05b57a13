"""What begins only in a longer text than the self-check's, such as a window or other rotary frequencies: is it right?

For each such border a prompt that goes past it runs through the runner, in uneven chunks beside a short neighbour, and
then alone, and is held against the module's own plain forward.
"""

from __future__ import annotations

import random

import torch

from myserve_ui.engine.blocks.runner import BlockRunner
from myserve_ui.engine.module.errors import explain_module_errors
from myserve_ui.engine.module.self_check import relative_difference, run_chunks
from myserve_ui.engine.rows.runner import ModelRunner

PAST = 21
"""Tokens beyond the border."""
PIECES = (97, 251, 64)
"""Lengths of the chunks, in turn: none is a whole of the others, of a cache's blocks or of a window."""
NEIGHBOUR = (0, 4, 8, 9)
WORK_PER_THREAD, WORK_ON_DEVICE = 5e11, 1e15
"""Parameters times tokens that all checks of a model may take: about half a minute."""
PASSES = 3
"""Times that the tokens of such a prompt are computed: by the module, in company, and alone."""


def windows_of(runner: ModelRunner | BlockRunner) -> set[int]:
    """Windows and chunks of the module's masks."""
    return runner.call.masks.lengths


def switches_of(runner: ModelRunner | BlockRunner) -> set[int]:
    """Lengths beyond which queries or keys are turned or scaled in another way."""
    rule = runner.rotary_rule
    scales = {int(temperature.floor_scale) for temperature in runner.call.temperatures.values()}
    return scales | (set() if rule is None else rule.borders)


def tokens_to_check(border: int) -> int:
    """How many tokens are computed to check what is past `border`."""
    return PASSES * (border + PAST)


def affordable_work(device: torch.device) -> float:
    """Parameters times tokens that may be computed on `device` to check one model."""
    return WORK_PER_THREAD * torch.get_num_threads() if device.type == "cpu" else WORK_ON_DEVICE


@torch.inference_mode()
def check_past(runner: ModelRunner | BlockRunner, border: int, vocab_size: int, *, longest: int) -> float:
    """Largest difference from the module's own logits past `border`, as a share of the largest logit.

    The prompt has at most `longest` tokens. Raises ModelLoadError if the module cannot be run so.
    """
    generator = random.Random(border)
    prompt = [generator.randrange(vocab_size) for _ in range(min(border + PAST, longest))]
    neighbour = [generator.randrange(vocab_size) for _ in range(NEIGHBOUR[-1])]
    split = _split(len(prompt), border)
    with explain_module_errors(runner.module):
        expected = runner.call.own_logits(prompt)
        in_company = run_chunks(runner, [neighbour, prompt], [NEIGHBOUR, split])[1]
        alone = run_chunks(runner, [prompt], [split])[0]
    return max(relative_difference(in_company, expected), relative_difference(alone, expected))


def _split(length: int, border: int) -> list[int]:
    """Where chunks of PIECES begin and end; the last but one goes over the border, and the last is one token."""
    ends = [0]
    while ends[-1] < border - PIECES[0]:
        ends.append(ends[-1] + PIECES[len(ends) % len(PIECES)])
    return [*(end for end in ends if end < min(border, length - 1)), length - 1, length]
