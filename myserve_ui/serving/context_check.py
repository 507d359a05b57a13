"""How long a context may be promised: as far as the engine was seen, or is known, to compute what the module does.

Lengths at which something begins are asked of the runner (windows, chunks and rotary switches that it honours) and of
the configuration (names that may mean more). Past each the engine is checked once, if that costs seconds. Where it
differs, the context ends there. Where a check would take minutes, it ends there too, unless the operator asked for more
by --max-model-len: but for windows and chunks, whose rule was read from the module's own masks on both sides of it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from myserve_ui.engine.blocks.runner import BlockRunner
from myserve_ui.engine.module.length_check import affordable_work, check_past, switches_of, tokens_to_check, windows_of
from myserve_ui.engine.rows.runner import ModelRunner
from myserve_ui.errors import ModelLoadError
from myserve_ui.kernels.attention_formula import configurations_of
from myserve_ui.models.facts import find_named_borders
from myserve_ui.models.loaded_model import LoadedModel

logger = logging.getLogger(__name__)

ROOM_PAST = 2
"""Tokens that must fit past a border for anything to begin there."""


@dataclass(frozen=True, slots=True)
class Context:
    """What may be promised, and a sentence if it is less than the model states."""

    length: int
    note: str | None = None


def settle_context(
    loaded: LoadedModel, runner: ModelRunner | BlockRunner, *, tolerance: float, asked_for: int | None
) -> Context:
    """The context of `loaded`, which may have been cut to what the operator `asked_for`.

    Raises ModelLoadError if nothing of use is left.
    """
    longest = min(loaded.context_length, asked_for or loaded.context_length)
    borders = sorted(border for border in _find_borders(loaded, runner) if border + ROOM_PAST <= longest)
    differences = _check(loaded, runner, borders, longest)
    known = windows_of(runner) if not runner.call.masks.unread else set()
    forgotten = _forgotten_window(loaded, runner)
    for border in borders:
        if border == forgotten:
            return _capped(runner, border, "beyond, its own generate forgets tokens that its mask shows")
        difference = differences.get(border)
        if difference is not None and difference <= tolerance:
            continue
        if difference is not None:
            return _capped(runner, border, f"beyond, logits differ from the model's own forward by {difference:.2%}")
        if border in known:
            logger.info("What begins at %d tokens was read from the model's masks; to try it takes too long.", border)
        elif asked_for is None:
            reason = (
                "what begins beyond is too long to check here; --max-model-len or MYSERVE_MAX_MODEL_LEN asks for it"
            )
            return _capped(runner, border, reason)
        else:
            logger.warning("Beyond %d tokens %s is served unchecked, as asked for.", border, loaded.info.name)
    return Context(longest)


def _forgotten_window(loaded: LoadedModel, runner: ModelRunner | BlockRunner) -> int | None:
    """A window that is in no mask: the cache of `generate` keeps to it, and the model's forward does not."""
    text = getattr(loaded.module, "config", None)
    text = None if text is None else text.get_text_config()
    if getattr(text, "layer_types", None):
        return None
    windows = (getattr(layer, "sliding_window", None) for layer in configurations_of(text))
    known = windows_of(runner)
    return min((window for window in windows if isinstance(window, int) and window not in known), default=None)


def _find_borders(loaded: LoadedModel, runner: ModelRunner | BlockRunner) -> set[int]:
    own = windows_of(runner) | switches_of(runner)
    if (forgotten := _forgotten_window(loaded, runner)) is not None:
        own.add(forgotten)
    config = getattr(loaded.module, "config", None)
    if config is None:
        return own
    return own | find_named_borders(config, windows_are_known=not runner.call.masks.unread)


def _check(
    loaded: LoadedModel, runner: ModelRunner | BlockRunner, borders: list[int], longest: int
) -> dict[int, float]:
    """By border: how far the engine is from the module; only those whose check is affordable."""
    differences = loaded.verdicts.recall() if loaded.verdicts is not None else {}
    size = loaded.info.num_parameters or sum(parameter.numel() for parameter in runner.module.parameters())
    left, found = affordable_work(runner.device), False
    for border in borders:
        left -= size * tokens_to_check(border)
        if border not in differences and left >= 0:
            differences[border] = check_past(runner, border, loaded.num_common_ids, longest=longest)
            found = True
    if found and loaded.verdicts is not None:
        loaded.verdicts.remember(differences)
    return differences


def _capped(runner: ModelRunner | BlockRunner, border: int, reason: str) -> Context:
    architecture = type(runner.module).__name__
    if border < ROOM_PAST:
        raise ModelLoadError(f"{architecture} cannot be served: at {border} tokens something begins; {reason}.")
    note = f"The context ends at {border} tokens: {reason}."
    logger.warning("%s: %s", architecture, note)
    return Context(border, note)
