"""Rooflines as they are written down: what a decode step takes at least, and how many sequences have room."""

from __future__ import annotations

from typing import ClassVar, Literal

from myserve_ui.documents import Document, Flag, Number, Part, Whole


class Ceiling(Part):
    """The bound of one decode step, of `batch` sequences at `context` tokens."""

    batch: Whole
    context: Whole
    bound_ms: Number
    tokens_per_s: Number
    """Of all sequences together, at most."""
    bound_by: str
    """"memory" or "arithmetic"."""


class Room(Part):
    """How many sequences of a length have their keys and values in memory."""

    length: Whole
    sequences: Whole


class Roofline(Document):
    """One model on one machine."""

    NAME: ClassVar[str] = "roofline"

    kind: Literal["roofline"] = "roofline"
    device: str
    dtype: str
    bandwidth_bytes_per_s: Number
    flops_per_s: Number | None
    """None where no matrix rate is known, so that only reading counts."""
    weight_bytes: Whole
    bytes_per_step: Whole
    """Moved for the weights."""
    num_parameters: Whole
    kv_bytes_per_token: Whole
    crossing_batch: Whole | None
    """The smallest batch whose step is bound by arithmetic."""
    rows: tuple[Ceiling, ...]


class ServedRoofline(Roofline):
    """Of a model of this app, on the machine as it was measured."""

    model: str
    precision: str
    kv_budget_bytes: Whole | None
    fits: tuple[Room, ...]


class CalculatedRoofline(Roofline):
    """From numbers alone."""

    source: str
    """Who states the device's numbers."""
    memory_bytes: Whole
    usable_share: Number
    weights_fit: Flag
    kv_budget_bytes: Whole
    fits: tuple[Room, ...]


SizedRoofline = ServedRoofline | CalculatedRoofline
"""One that knows how many sequences have room."""
