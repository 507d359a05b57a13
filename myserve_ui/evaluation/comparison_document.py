"""Two answers to one prompt as one JSON document, and back: what was asked, what came, what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.outputs import FinishReason, RequestOutput
from myserve_ui.evaluation.circumstances import describe_circumstances
from myserve_ui.evaluation.plain_words import caveats, memory_words, speed_words
from myserve_ui.serving.compare_service import CompareRequest, CompareUpdate, Side, SideAnswer, Timing


def comparison_document(
    request: CompareRequest, update: CompareUpdate, infos: Mapping[Side, ModelInfo], *, memory: Mapping[str, Any]
) -> dict[str, Any]:
    """The document, but for its evidence; seconds, bytes and ids as everywhere in the code."""
    answers = {side.value: _answer_json(answer) for side, answer in update.answers.items()}
    params = request.chat.params
    return {
        "kind": "compare",
        **describe_circumstances(),
        "base": update.answers[Side.BASE].model,
        "candidate": update.answers[Side.CANDIDATE].model,
        "settings": {
            "timing": request.timing.value,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "seed": params.seed,
            "max_tokens": params.max_tokens or request.chat.default_max_tokens,
        },
        "messages": [{"role": message.role, "content": message.content} for message in request.chat.messages],
        "answers": answers,
        "memory": memory,
        "measured": _measured(request, answers, memory),
        "notes": caveats(infos[Side.BASE], infos[Side.CANDIDATE]),
    }


def _answer_json(answer: SideAnswer) -> dict[str, Any]:
    latest = answer.latest
    return {
        "model": answer.model,
        "text": answer.text,
        "token_ids": list(answer.token_ids),
        "prompt_token_ids": list(answer.prompt_token_ids),
        "finish_reason": latest.finish_reason.value if latest and latest.finish_reason else None,
        "error": answer.error,
        "usage": _usage_json(latest),
        "speed": _speed_json(latest),
    }


def _usage_json(latest: RequestOutput | None) -> dict[str, Any] | None:
    if latest is None:
        return None
    return {"prompt_tokens": latest.usage.prompt_tokens, "completion_tokens": latest.usage.completion_tokens}


def _speed_json(latest: RequestOutput | None) -> dict[str, Any] | None:
    if latest is None or latest.finish_reason is FinishReason.ERROR:
        return None
    timings = latest.timings
    return {"ttft": timings.ttft, "tpot": timings.tpot, "tokens_per_second": timings.tokens_per_second}


def _measured(request: CompareRequest, answers: Mapping[str, Any], memory: Mapping[str, Any]) -> list[str]:
    """What this very run says, in sentences."""
    speeds = [(answers[side]["speed"] or {}).get("tokens_per_second") for side in Side]
    alone = request.timing is Timing.IN_TURN
    measured = (speed_words(speeds[0], speeds[1], alone=alone), memory_words(memory))
    return [words for words in measured if words]
