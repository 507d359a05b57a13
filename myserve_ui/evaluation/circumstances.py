"""What a measurement depends on beside the models: versions, processor, threads, and when it was made."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any

import torch

from myserve_ui.core.machine import describe_versions

PACKAGES = ("torch", "transformers", "bitsandbytes")


def describe_circumstances() -> dict[str, Any]:
    """Facts for a JSON document; no name of the machine and no path on it."""
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": describe_versions(PACKAGES),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        },
    }


def find_peak_bytes(device: torch.device) -> int | None:
    """The most memory that was taken so far, by everything: on a GPU, or by this process; None where nobody counts."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows has no such count
        return None
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
