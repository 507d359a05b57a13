"""The frame that all pieces of one answer share: its id, its time, its model, and what made it."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

from myserve_ui import __version__
from myserve_ui.api.wire_json import JsonObject
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.outputs import Usage
from myserve_ui.settings import Settings

SETTINGS_THAT_CHANGE_ANSWERS = {
    "model",
    "dtype",
    "device",
    "trust_remote_code",
    "chat_template",
    "force_echo",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "kv_cache_gib",
    "threads",
}
"""Some only through rounding: a sum in another order is another sum."""


@dataclass(frozen=True, slots=True)
class ReplyFrame:
    """What every piece of one answer repeats."""

    id: str
    created: int
    """Unix seconds."""
    model: str
    system_fingerprint: str

    def as_json(self, object_name: str) -> dict[str, object]:
        return {
            "id": self.id,
            "object": object_name,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.system_fingerprint,
        }


class FrameMaker:
    """Makes the frames of one server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.model_dump_json(include=SETTINGS_THAT_CHANGE_ANSWERS)

    def new_frame(self, prefix: str, model: ModelInfo, created: float) -> ReplyFrame:
        """A frame with a fresh id, `prefix` in front."""
        return ReplyFrame(f"{prefix}-{uuid.uuid4().hex}", int(created), model.id, self.fingerprint(model))

    def fingerprint(self, model: ModelInfo) -> str:
        """Changes with what may change a seeded answer: version, settings, the weights, where and how they run."""
        parts = (__version__, self._settings, model.id, model.dtype, model.device)
        return "fp_" + hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:12]


def usage_json(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
