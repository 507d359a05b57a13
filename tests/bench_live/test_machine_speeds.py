"""One owner of machine speeds: measured once, however many ask, and the same for every page."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from myserve_ui.bench.machine.speeds import MachineSpeeds
from myserve_ui.bench.roofline.roofline import MachineSpeed
from myserve_ui.core.model_info import LoadState, ModelInfo

MODEL = ModelInfo(
    "tiny",
    "tiny",
    "full",
    LoadState.READY,
    dtype="float32",
    device="cpu",
    num_parameters=500,
    weight_bytes=2000,
    kv_bytes_per_token=8,
    bytes_per_step=2000,
)


class Machine:
    """Reads a little faster at every measurement."""

    def __init__(self) -> None:
        self.measured: list[str] = []

    def measure(self, device: object, dtype: object) -> MachineSpeed:
        self.measured.append(f"{dtype} on {device}")
        return MachineSpeed(1e9 * len(self.measured), 1e12 / len(self.measured), str(device), str(dtype))


async def test_those_who_ask_at_once_wait_for_one_measurement_and_hear_the_same() -> None:
    machine = Machine()
    speeds = MachineSpeeds(machine.measure)
    found = await asyncio.gather(*(speeds.of(MODEL) for _ in range(5)), speeds.roofline(MODEL))
    assert machine.measured == ["torch.float32 on cpu"]
    assert {speed.bytes_per_s for speed in found[:5]} == {1e9} == {found[5].machine.bytes_per_s}


async def test_each_dtype_is_measured_by_itself() -> None:
    machine = Machine()
    speeds = MachineSpeeds(machine.measure)
    for dtype in ("float32", "bfloat16", "float32"):
        await speeds.of(replace(MODEL, dtype=dtype))
    assert machine.measured == ["torch.float32 on cpu", "torch.bfloat16 on cpu"]


async def test_the_better_of_two_measurements_counts() -> None:
    speeds = MachineSpeeds(Machine().measure)
    await speeds.of(MODEL)
    await speeds.measure_anew(MODEL)
    found = speeds.known_roofline(MODEL)
    assert found is not None and (found.machine.bytes_per_s, found.machine.flops_per_s) == (2e9, 1e12)


async def test_nothing_is_measured_for_a_model_whose_steps_cost_nobody_knows_what() -> None:
    machine = Machine()
    speeds = MachineSpeeds(machine.measure)
    for unknown in (replace(MODEL, bytes_per_step=None), replace(MODEL, device=None), replace(MODEL, dtype=None)):
        assert await speeds.roofline(unknown) is None
    assert speeds.known_roofline(MODEL) is None
    assert machine.measured == []
