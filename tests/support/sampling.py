"""Sampling parameters as the engine takes them."""

from __future__ import annotations

from typing import Any

from myserve_ui.core.sampling_params import ResolvedSampling, SamplingDefaults, SamplingParams


def resolved(**params: Any) -> ResolvedSampling:
    """Those of a request that asks for `params`, to a model without defaults of its own."""
    return SamplingParams(**params).resolve(SamplingDefaults())
