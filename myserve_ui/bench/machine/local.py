"""How fast this machine is, and so how fast the servers that run on it could be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import torch

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.overhead import measure_client_overhead
from myserve_ui.bench.client.server_facts import list_models
from myserve_ui.bench.machine.facts import PACKAGES, describe_machine
from myserve_ui.bench.machine.speeds import MachineSpeeds
from myserve_ui.bench.question.question import NamedTarget
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelRoofline
from myserve_ui.bench.sweep import Surroundings
from myserve_ui.core.machine import describe_versions, is_loopback
from myserve_ui.core.model_info import ModelInfo


async def surroundings_for(targets: Sequence[NamedTarget]) -> Surroundings:
    """Measures this machine for the targets that run on it and tell what a step moves, and the client."""
    rooflines: dict[tuple[str, str], ModelRoofline] = {}
    speeds = MachineSpeeds()
    for named in targets:
        info = await find_model(named.target) if is_loopback(urlsplit(named.target.url).hostname or "") else None
        if info is not None and _computes_here(info) and (found := await speeds.roofline(info)) is not None:
            rooflines[named.target.url, named.target.model] = found
    speed = next((found.machine for found in rooflines.values()), None)
    device = torch.device(speed.device if speed else "cpu")
    return await surroundings(device, speed, lambda named: rooflines.get((named.target.url, named.target.model)))


async def surroundings(
    device: torch.device, speed: MachineSpeed | None, roofline: Callable[[NamedTarget], ModelRoofline | None]
) -> Surroundings:
    """What a sweep should know of this machine, of whose `device` the speed is; measures the client too."""
    return Surroundings(
        machine=describe_machine(device, speed),
        versions=describe_versions(PACKAGES),
        client_overhead_ms=await measure_client_overhead(),
        roofline=roofline,
    )


async def find_model(target: Target) -> ModelInfo | None:
    """What the server of `target` tells of its model; None if it does not list it."""
    return next((info for info in await list_models(target) if info.id == target.model), None)


def _computes_here(info: ModelInfo) -> bool:
    """Whether this machine has the device that a server says it computes on; its words may be any."""
    try:
        device = torch.device(info.device or "")
    except RuntimeError:
        return False
    is_here = device.type == "cpu" or (device.type == "cuda" and (device.index or 0) < torch.cuda.device_count())
    return is_here and info.dtype in ("float32", "float16", "bfloat16")
