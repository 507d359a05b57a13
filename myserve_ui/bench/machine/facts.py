"""What a run was measured on, in words for its document; no name of the machine and no path on it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import psutil
import torch

from myserve_ui.bench.roofline.roofline import MachineSpeed
from myserve_ui.documents import Number, Part, Whole

PACKAGES = ("torch", "transformers", "gradio", "bitsandbytes")
CPU_INFO = Path("/proc/cpuinfo")


class Machine(Part):
    """Facts and, once measured, speeds of the machine; None for what is not known."""

    cpu: str | None = None
    cores: Whole | None = None
    threads: Whole | None = None
    memory: Whole | None = None
    """Bytes."""
    device: str | None = None
    bytes_per_s: Number | None = None
    flops_per_s: Number | None = None
    dtype: str | None = None
    """Of the product whose rate was measured."""


def describe_machine(device: torch.device, speed: MachineSpeed | None = None) -> Machine:
    """This machine, and the speeds of `device`."""
    return Machine(
        cpu=_cpu_name(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        memory=psutil.virtual_memory().total,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        bytes_per_s=speed.bytes_per_s if speed else None,
        flops_per_s=speed.flops_per_s if speed else None,
        dtype=speed.dtype if speed else None,
    )


def _cpu_name() -> str:
    """As Linux tells it, else what Python knows."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", CPU_INFO.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()
