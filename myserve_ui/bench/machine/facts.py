"""What a run was measured on, in words for its document; no name of the machine and no path on it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

import psutil
import torch

from myserve_ui.bench.roofline.roofline import MachineSpeed

PACKAGES = ("torch", "transformers", "gradio", "bitsandbytes")
CPU_INFO = Path("/proc/cpuinfo")


def describe_machine(device: torch.device, speed: MachineSpeed | None = None) -> dict[str, Any]:
    """Facts and, once measured, speeds of the machine; the `machine` of a benchmark's document."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory": psutil.virtual_memory().total,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "bytes_per_s": speed.bytes_per_s if speed else None,
        "flops_per_s": speed.flops_per_s if speed else None,
        "dtype": speed.dtype if speed else None,
    }


def _cpu_name() -> str:
    """As Linux tells it, else what Python knows."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", CPU_INFO.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()
