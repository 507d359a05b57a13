"""The roofline of any model on any device, from numbers alone: what to buy, before anything is loaded."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from myserve_ui.bench.roofline.device_table import Device
from myserve_ui.bench.roofline.documents import CalculatedRoofline
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelCost, ModelRoofline, room_for
from myserve_ui.errors import InvalidRequestError

USABLE_SHARE = 0.9
"""Of the memory; the rest is for activations and whatever else is on the device."""
BATCHES, LENGTHS = (1, 8, 32), (512, 2048, 8192)
UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What of a model's configuration its speed depends on."""

    parameters: int
    """Those read in a step; of a mixture of experts the active ones, which then understate the memory."""
    layers: int
    kv_heads: int
    head_dim: int
    weight_bits: float = 16.0
    """A parameter, with its share of scales: 16, 8.5, 4.5, …"""
    kv_bits: float = 16.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < 1e16:
                raise InvalidRequestError(f"{name} must be above 0, got {value}.", param=name)

    @property
    def weight_bytes(self) -> int:
        return math.ceil(self.parameters * self.weight_bits / 8)

    @property
    def kv_bytes_per_token(self) -> int:
        return math.ceil(2 * self.layers * self.kv_heads * self.head_dim * self.kv_bits / 8)


def calculate_roofline(shape: ModelShape, device: Device, *, context: int = 1024) -> CalculatedRoofline:
    """The `roofline` document of `shape` on `device`: the same numbers as a measured one, from the datasheet.

    Raises InvalidRequestError for a device with no speed, or a context without a token.
    """
    if not device.bytes_per_s > 0 or (device.flops_per_s is not None and not device.flops_per_s > 0):
        raise InvalidRequestError("A device needs a bandwidth and, if any, a matrix rate above 0.", param="device")
    if not 1 <= context <= 100_000_000:
        raise InvalidRequestError(f"context must be in [1, 100000000], got {context}.", param="context")
    speed = MachineSpeed(device.bytes_per_s, device.flops_per_s or math.inf, device.name, "16 bits")
    cost = ModelCost(shape.weight_bytes, shape.parameters, shape.kv_bytes_per_token)
    points = [(1, 0), *((batch, context) for batch in BATCHES)]
    free = int(device.memory_bytes * USABLE_SHARE) - shape.weight_bytes
    return CalculatedRoofline(
        **dict(ModelRoofline(speed, cost, shape.weight_bytes).document(points)),
        source=device.source,
        memory_bytes=device.memory_bytes,
        usable_share=USABLE_SHARE,
        weights_fit=free > 0,
        kv_budget_bytes=max(free, 0),
        fits=room_for(free, shape.kv_bytes_per_token, LENGTHS),
    )


def parse_count(text: str) -> int:
    """A number of parameters: "135M", "7b", "1.5B", "134515008". Raises InvalidRequestError."""
    word = text.strip().lower().replace("_", "").replace(",", "")
    unit = UNITS.get(word[-1:], 1.0)
    try:
        number = float(word[:-1] if word[-1:] in UNITS else word) * unit
    except ValueError:
        number = math.nan
    if not 1 <= number < 1e16:
        raise InvalidRequestError(
            f"A number of parameters is written like 135M or 7B; got {text[:40]!r}.", param="parameters"
        )
    return round(number)
