"""The one owner of how fast this machine is: measured once for each device and dtype, told to everybody alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import torch

from myserve_ui.bench.machine.speed import measure_machine
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelRoofline, find_cost
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.serving.step_loop import on_own_thread

Measure = Callable[[torch.device, torch.dtype], MachineSpeed]


class MachineSpeeds:
    """Speeds of the devices that models compute on. Whoever asks meanwhile waits for the one measurement."""

    def __init__(self, measure: Measure = measure_machine) -> None:
        self._measure = measure
        self._known: dict[tuple[str, str], MachineSpeed] = {}
        self._one_at_a_time = asyncio.Lock()

    async def of(self, info: ModelInfo) -> MachineSpeed | None:
        """Of the device of a loaded model, in its dtype. None for a model without a device."""
        if (key := _key(info)) is None:
            return None
        async with self._one_at_a_time:
            if key not in self._known:
                self._known[key] = await self._measured(*key)
            return self._known[key]

    async def measure_anew(self, info: ModelInfo) -> None:
        """Once more, for a measurement that was made while others worked promises too little; the better one counts."""
        if (key := _key(info)) is None:
            return
        async with self._one_at_a_time:
            found = await self._measured(*key)
            self._known[key] = self._known[key].quicker(found) if key in self._known else found

    async def roofline(self, info: ModelInfo) -> ModelRoofline | None:
        """Of a loaded model, whose machine is measured for it. None while it is not known what its steps cost."""
        return self.known_roofline(info) if find_cost(info) and await self.of(info) else None

    def known_roofline(self, info: ModelInfo) -> ModelRoofline | None:
        """The same of a machine that was measured already; None for others."""
        cost, key = find_cost(info), _key(info)
        speed = self._known.get(key) if key else None
        return ModelRoofline(speed, cost, info.weight_bytes or 0) if cost and speed else None

    async def _measured(self, device: str, dtype: str) -> MachineSpeed:
        return await on_own_thread(self._measure, torch.device(device), getattr(torch, dtype))


def _key(info: ModelInfo) -> tuple[str, str] | None:
    return (info.device, info.dtype) if info.device and info.dtype else None
