"""What every part of a body has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A body, or a part of one: no conversion between types, unknown fields ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")
