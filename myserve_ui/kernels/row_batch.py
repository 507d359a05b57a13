"""What an engine offers a layer that computes on rows of numbers: attention for the tokens of a step."""

from __future__ import annotations

from typing import Protocol

import numpy as np

UNBOUNDED = 2**62
"""A window as wide as any context."""


class RowBatch(Protocol):
    """The keyword `row_batch` of the model's forward, in steps for which loops over rows are quickest.

    Only where the cache is in float32 on a CPU; a layer that does not know it goes through the attention interface.
    """

    def attend_rows(self, layer: int, heads: np.ndarray, num_kv_heads: int, style: tuple[float, int]) -> np.ndarray:
        """Write keys and values and attend: [tokens, heads + 2 kv_heads, head_dim] -> [tokens, heads * head_dim].

        `style` is the factor of the scores, and how many tokens are seen, the new one included.
        """
        ...
