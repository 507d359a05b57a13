"""The answers in OpenAI's shape: the frame that all pieces of one answer share, and the dictionaries in it."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

from myserve_ui import __version__
from myserve_ui.api.wire_json import JsonObject
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.outputs import FinishReason, RequestOutput, Usage
from myserve_ui.errors import GenerationFailedError, MyServeError

ENDED_EARLY = "The server ended this request before the answer was complete; send it again."


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


def new_frame(prefix: str, model: ModelInfo, created: float) -> ReplyFrame:
    """A frame with a fresh id, `prefix` in front."""
    return ReplyFrame(f"{prefix}-{uuid.uuid4().hex}", int(created), model.id, fingerprint(model))


def fingerprint(model: ModelInfo) -> str:
    """Changes with whatever may change a seeded answer: the server's version, the weights, where and how they run."""
    parts = (__version__, model.id, model.dtype, model.device)
    return "fp_" + hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:12]


def usage_json(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def chat_completion(frame: ReplyFrame, text: str, last: RequestOutput) -> JsonObject:
    """The whole answer at once; `last` is the output that ended it."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": last.finish_reason}
    return {**frame.as_json("chat.completion"), "choices": [choice], "usage": usage_json(last.usage)}


def text_completion(frame: ReplyFrame, text: str, last: RequestOutput) -> JsonObject:
    """The same for /v1/completions."""
    choice = text_choice(text, last.finish_reason)
    return {**frame.as_json("text_completion"), "choices": [choice], "usage": usage_json(last.usage)}


def chat_opening() -> JsonObject:
    """The first choice of a chat stream: the role, once."""
    return _chunk_choice({"role": "assistant", "content": ""}, None)


def chat_choice(text: str, finish_reason: FinishReason | None = None) -> JsonObject:
    """A later choice of a chat stream: more text, or the end."""
    return _chunk_choice({"content": text} if text else {}, finish_reason)


def text_choice(text: str, finish_reason: FinishReason | None = None) -> JsonObject:
    """A choice of /v1/completions, streamed or not."""
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _chunk_choice(delta: JsonObject, finish_reason: FinishReason | None) -> JsonObject:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def failure_of(output: RequestOutput) -> MyServeError | None:
    """What went wrong if `output` ended its request for a reason that is no answer; never a made-up "stop"."""
    if output.finish_reason is FinishReason.ERROR:
        return GenerationFailedError(output.error or ENDED_EARLY)
    if output.finish_reason is FinishReason.ABORT:
        return GenerationFailedError(ENDED_EARLY)
    return None
