"""Calls a transformers module for the runners: with the keywords it takes, and what was read of its layers."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from myserve_ui.engine.module.current_batch import computing
from myserve_ui.engine.module.errors import explain_module_errors, refuse_masks, refuse_states
from myserve_ui.engine.module.mask_reading import read_masks
from myserve_ui.engine.module.positions import give_back, take_over_rotary, take_over_temperatures
from myserve_ui.engine.module.rotary_rule import RotaryRule
from myserve_ui.engine.scheduler import ScheduledBatch


class ModuleCall:
    """One module, whose attention is the function `attention_name` from now on.

    Raises ModelLoadError if it is of a kind that cannot be served.
    """

    def __init__(self, module: torch.nn.Module, attention_name: str) -> None:
        self.module = module
        refuse_states(module)
        self._own_attention: str = module.config._attn_implementation  # type: ignore[union-attr, assignment]
        self._attention = attention_name
        parameters = inspect.signature(module.forward).parameters
        self._takes = None if any(p.kind is p.VAR_KEYWORD for p in parameters.values()) else set(parameters)
        with explain_module_errors(module):
            self.masks = read_masks(module, self._forward)
        refuse_masks(module, self.masks)
        self._rotary = take_over_rotary(module)
        self.temperatures = take_over_temperatures(module)
        self._set_attention(attention_name)

    @property
    def rotary_rule(self) -> RotaryRule | None:
        """How rotary frequencies depend on a sequence's length, if they do."""
        return None if self._rotary is None else self._rotary.rule

    def rotating(self, batch: ScheduledBatch) -> AbstractContextManager[None]:
        """A block in which the forward is of `batch`, whose lengths may decide how it rotates."""
        return nullcontext() if self._rotary is None else self._rotary.of(batch)

    def logits(
        self, batch: object, tokens: tuple[torch.Tensor, torch.Tensor], keep: torch.Tensor | int, **options: Any
    ) -> torch.Tensor:
        """[kept, vocab_size] in float32 after `tokens`, ids and positions [1, num_tokens], of the attention `batch`.

        `keep` are the rows that are wanted, 0 for all.
        """
        token_ids, positions = tokens
        with computing(batch):
            output = self._forward(
                input_ids=token_ids, position_ids=positions, use_cache=False, logits_to_keep=keep, **options
            )
        logits = output.logits[0]
        if isinstance(keep, torch.Tensor) and len(logits) != len(keep):
            logits = logits[keep]  # the family computes them all, whatever is asked for
        return logits.float()

    @torch.inference_mode()
    def own_logits(self, token_ids: list[int]) -> torch.Tensor:
        """[vocab_size] after `token_ids` by the module's own attention, as if there were no engine."""
        device = self.module.get_input_embeddings().weight.device  # type: ignore[operator]
        last = torch.tensor([len(token_ids) - 1], device=device)
        self._set_attention(self._own_attention)
        give_back(self.module, self.temperatures)
        try:
            output = self._forward(
                input_ids=torch.tensor([token_ids], device=device), use_cache=False, logits_to_keep=last
            )
            return output.logits[0, -1].float()
        finally:
            take_over_temperatures(self.module)
            self._set_attention(self._attention)

    def _set_attention(self, name: str) -> None:
        self.module.set_attn_implementation(name)  # type: ignore[operator]

    def _forward(self, **options: Any) -> Any:
        takes = self._takes
        return self.module(**options if takes is None else {k: v for k, v in options.items() if k in takes})
