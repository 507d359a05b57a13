"""How many tokens of keys and values the memory may hold."""

from __future__ import annotations

from dataclasses import dataclass

import psutil
import torch

from myserve_ui.core.container_limits import read_container_limits
from myserve_ui.engine.blocks.tables import BLOCK_SIZE
from myserve_ui.errors import NotEnoughMemoryError

CPU_SHARE, CUDA_SHARE = 0.3, 0.9
"""Share of the memory that is free once the weights are loaded. A CPU's memory belongs to others too."""

MIN_TOKENS = 64
ROUND_TO = 64


@dataclass(frozen=True, slots=True)
class CacheBudget:
    max_model_len: int
    """Tokens of one sequence: the model's context, or less if the memory is short."""
    max_cache_tokens: int
    """Tokens of all sequences together."""


def plan_cache(
    *, kv_bytes_per_token: int, context_length: int, max_num_seqs: int, device: torch.device, kv_cache_gib: float | None
) -> CacheBudget:
    """Share out the memory: tokens for all rows, and how long one row may become.

    On a CPU, memory counts when it is written, and on CUDA rows take blocks, of which the last may be nearly empty.
    On other devices the rows stand in full, so that the longest sequence may be as long as the budget divided by them.

    Raises NotEnoughMemoryError if not even a short prompt fits.
    """
    wanted = _rounded_up(context_length) * max_num_seqs
    budget = int(kv_cache_gib * 2**30) if kv_cache_gib is not None else _free_share(device)
    ends = max_num_seqs * BLOCK_SIZE if device.type == "cuda" else 0
    tokens = min(wanted, budget // kv_bytes_per_token - ends) if kv_bytes_per_token else wanted
    longest = tokens if device.type in ("cpu", "cuda") else tokens // max_num_seqs
    if longest < MIN_TOKENS:
        raise NotEnoughMemoryError(
            f"The memory for keys and values is too small: {budget / 2**20:.0f} MiB, where one token takes "
            f"{kv_bytes_per_token / 2**10:.0f} KiB and {max_num_seqs} requests may run. "
            "Raise --kv-cache-gib or lower --max-num-seqs."
        )
    max_model_len = min(context_length, longest // ROUND_TO * ROUND_TO)
    return CacheBudget(max_model_len, max(tokens, _rounded_up(max_model_len)))


def _free_share(device: torch.device) -> int:
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        return int(free * CUDA_SHARE)
    return int(read_container_limits().bound_memory(psutil.virtual_memory().available) * CPU_SHARE)


def _rounded_up(num_tokens: int) -> int:
    return -(-num_tokens // ROUND_TO) * ROUND_TO
