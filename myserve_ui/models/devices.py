"""Which device and which dtype a setting means on this machine."""

from __future__ import annotations

import torch

from myserve_ui.errors import ModelLoadError

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
SIXTEEN_BITS = (torch.bfloat16, torch.float16)


def find_device_problem(device: str) -> str | None:
    """What keeps `device` ("auto", "cpu", "cuda", "cuda:N", "mps") from being used, as a clause; None if nothing."""
    if device == "mps" and not torch.backends.mps.is_available():
        return "this machine has no mps device"
    if not device.startswith("cuda"):
        return None
    if not torch.cuda.is_available():
        return "torch finds no CUDA device on this machine"
    index = int(device.partition(":")[2] or 0)
    count = torch.cuda.device_count()
    return f"this machine has {count} CUDA devices, so the last is cuda:{count - 1}" if index >= count else None


def resolve_device(device: str) -> torch.device:
    """The device meant: auto is CUDA if there, else the CPU. Raises ModelLoadError if it is absent."""
    if (problem := find_device_problem(device)) is not None:
        raise ModelLoadError(
            f"The device {device} cannot be used: {problem}; choose auto or cpu with --device or MYSERVE_DEVICE."
        )
    if device == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    return torch.device("cuda", 0) if device == "cuda" else torch.device(device)


def resolve_dtype(dtype: str, *, device: torch.device, checkpoint: torch.dtype | None) -> torch.dtype:
    """The dtype meant: auto is fp32 on a CPU; elsewhere the checkpoint's if it has 16 bits, else a 16-bit one."""
    if dtype != "auto":
        return DTYPES[dtype]
    if device.type == "cpu":
        return torch.float32
    if checkpoint in SIXTEEN_BITS:
        return checkpoint
    return (
        torch.bfloat16
        if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        else torch.float16
    )
