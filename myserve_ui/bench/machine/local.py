"""How fast this machine is, and so how fast the servers that run on it could be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import torch

from myserve_ui.bench.benchmark_request import NamedTarget
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.overhead import measure_client_overhead
from myserve_ui.bench.client.server_facts import list_models
from myserve_ui.bench.machine.facts import PACKAGES, describe_machine
from myserve_ui.bench.machine.speed import measure_machine
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelRoofline, find_cost
from myserve_ui.bench.sweep import Surroundings
from myserve_ui.core.machine import describe_versions, is_loopback
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.serving.step_loop import on_own_thread


@dataclass(frozen=True, slots=True)
class Measured:
    """The machine as it was found, for the servers that run on it."""

    speed: MachineSpeed | None
    rooflines: dict[str, ModelRoofline]
    """By URL and model."""

    def roofline(self, named: NamedTarget) -> ModelRoofline | None:
        return self.rooflines.get(_name(named.target))


async def measure_for(targets: Sequence[NamedTarget]) -> Measured:
    """Speeds of this machine and the rooflines of targets that run on it and tell what a step moves."""
    rooflines: dict[str, ModelRoofline] = {}
    speeds: dict[tuple[str, str], MachineSpeed] = {}
    for named in targets:
        info = await find_model(named.target) if _is_here(named.target) else None
        place = _place_of(info) if info is not None else None
        if info is None or place is None or (cost := find_cost(info)) is None:
            continue
        key = str(place[0]), str(place[1])
        if key not in speeds:
            speeds[key] = await on_own_thread(measure_machine, *place)
        rooflines[_name(named.target)] = ModelRoofline(speeds[key], cost, info.weight_bytes or 0)
    return Measured(next(iter(speeds.values()), None), rooflines)


async def surroundings_of(measured: Measured) -> Surroundings:
    """What a sweep should know; measures the client too."""
    return Surroundings(
        machine=describe_machine(torch.device(measured.speed.device if measured.speed else "cpu"), measured.speed),
        versions=describe_versions(PACKAGES),
        client_overhead_ms=(await measure_client_overhead()).as_json(),
        roofline=measured.roofline,
    )


async def find_model(target: Target) -> ModelInfo | None:
    """What the server of `target` tells of its model; None if it does not list it."""
    return next((info for info in await list_models(target) if info.id == target.model), None)


def _place_of(info: ModelInfo) -> tuple[torch.device, torch.dtype] | None:
    """Where a server says that it computes, if this machine has that; its words may be any."""
    dtype = getattr(torch, info.dtype or "", None)
    try:
        device = torch.device(info.device or "")
    except RuntimeError:
        return None
    is_here = device.type == "cpu" or (device.type == "cuda" and (device.index or 0) < torch.cuda.device_count())
    return (device, dtype) if is_here and dtype in (torch.float32, torch.float16, torch.bfloat16) else None


def _is_here(target: Target) -> bool:
    return is_loopback(urlsplit(target.url).hostname or "")


def _name(target: Target) -> str:
    return f"{target.url}#{target.model}"
