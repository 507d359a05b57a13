"""myserve-ui: serve a causal language model from your own machine and see what making it cheaper costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myserve_ui.core.sampling_params import SamplingParams
    from myserve_ui.llm import LLM

__version__ = "0.1.0"
__all__ = ["LLM", "SamplingParams"]


def __getattr__(name: str) -> Any:
    """The offline door, imported when it is asked for: torch takes seconds, and must find its environment prepared."""
    if name == "SamplingParams":
        from myserve_ui.core.sampling_params import SamplingParams

        return SamplingParams
    if name == "LLM":
        from myserve_ui.settings.environment import prepare_environment

        prepare_environment()
        from myserve_ui.llm import LLM

        return LLM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
