"""What the errors of a module mean: it cannot be served, for a reason in a sentence, or the memory ran out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from myserve_ui.engine.module.mask_reading import MaskReading
from myserve_ui.errors import ModelLoadError, MyServeError
from myserve_ui.kernels.attention_formula import configurations_of

STATES = ("linear", "mamba", "recurrent", "conv", "kda", "gdn", "ssm")
NOT_GIVEN = "its layers expect something that the engine does not give them"

CPU_WORDS = ("can't allocate memory", "not enough memory", "Cannot allocate memory")
"""What torch's CPU allocator says; it raises a plain RuntimeError."""


def is_out_of_memory(error: BaseException) -> bool:
    """True if less work at once might succeed where this failed."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in CPU_WORDS)


@contextmanager
def explain_module_errors(module: torch.nn.Module, *, reason: str = NOT_GIVEN) -> Iterator[None]:
    """Raise ModelLoadError with `reason` for what a module raises that is called in a way it does not know."""
    try:
        yield
    except MyServeError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        line = next(iter(str(error).splitlines()), "")[:120]
        raise ModelLoadError(f"{_name(module)} cannot be served: {reason} ({type(error).__name__}: {line}).") from error


def refuse_states(module: torch.nn.Module) -> None:
    """Raise ModelLoadError for a family that remembers more of a text than keys and values."""
    config: Any = module.config
    kinds = [kind for kind in _layer_types(config) if any(word in str(kind) for word in STATES)]
    if kinds or getattr(module, "_is_stateful", False):
        which = f" ({', '.join(sorted(set(map(str, kinds))))})" if kinds else ""
        raise ModelLoadError(
            f"{_name(module)} cannot be served: some of its layers{which} keep a state of the text outside attention, "
            "and the engine keeps keys and values only. Choose a model whose layers all attend."
        )


def refuse_masks(module: torch.nn.Module, reading: MaskReading) -> None:
    """Raise ModelLoadError for what the masks of a module say that no cache of keys and values can do."""
    config: Any = module.config
    chooses = any(getattr(layer, "index_topk", None) for layer in configurations_of(config.get_text_config()))
    reasons = (
        (chooses, "some layers choose which tokens are seen by what these say (a sparse index)"),
        (reading.is_unnumbered, "a part of it attends that is no layer with a number"),
        (reading.ahead, "its tokens see those that come after them, as in an encoder"),
        (reading.repeated, "a layer attends more than once for each token"),
        (
            reading.unread,
            "what a token sees is decided by what the tokens say, or by a rule that the engine cannot read",
        ),
    )
    for holds, reason in reasons:
        if holds:
            raise ModelLoadError(f"{_name(module)} cannot be served: {reason}. Choose another model.")
    if not reading.sights:
        raise ModelLoadError(
            f"{_name(module)} cannot be served: its layers do not use the shared attention interface of transformers, "
            "so the engine cannot keep its keys and values."
        )


def _layer_types(config: Any) -> Iterable[object]:
    text = config.get_text_config()
    for name in ("layer_types", "layers_block_type", "block_types"):
        if isinstance(kinds := getattr(text, name, None), list | tuple):
            yield from kinds


def _name(module: torch.nn.Module) -> str:
    return type(module).__name__
