"""Which device and which dtype a setting means on this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from myserve_ui.core.container_limits import read_container_limits
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


def bound_threads(threads: int | None) -> None:
    """Let CPU products of this thread, and of those not begun, use `threads` threads.

    None leaves torch's choice, a thread for each core, unless the container has less processor time than that.
    """
    current = torch.get_num_threads()  # asked first: a new thread would take the number of the process instead
    if threads is None:
        threads = read_container_limits().bound_threads(current)
    if threads != current:
        torch.set_num_threads(threads)


def product_workers(number: int, name: str) -> ThreadPoolExecutor:
    """`number` workers whose CPU products use as many threads as those of the thread that calls.

    Left alone, a new thread uses as many as any thread of the process was bound to last.
    """
    return ThreadPoolExecutor(number, name, initializer=bound_threads, initargs=(torch.get_num_threads(),))


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
