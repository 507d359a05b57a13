"""Fields of the OpenAI schema that this server cannot honour yet: neutral values pass, any other is refused by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from myserve_ui.api.validation import describe
from myserve_ui.errors import InvalidRequestError

logger = logging.getLogger(__name__)

MAX_LOGGED_NAMES = 200
"""Names come from clients: what is remembered of them is bounded."""


def _is(*neutral: object) -> Callable[[Any], bool]:
    # 1 == True in Python, so the types are compared too; 0 and 0.0 are the same number.
    def check(value: Any) -> bool:
        return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in neutral)

    return check


def _is_text_format(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "text"


NEUTRAL_VALUES: dict[str, Callable[[Any], bool]] = {
    "n": _is(1),
    "best_of": _is(1),
    "logprobs": _is(False),
    "top_logprobs": _is(0),
    "prompt_logprobs": _is(0),
    "echo": _is(False),
    "suffix": _is(""),
    "presence_penalty": _is(0),
    "frequency_penalty": _is(0),
    "repetition_penalty": _is(1),
    "length_penalty": _is(1),
    "logit_bias": _is({}),
    "response_format": _is_text_format,
    "tools": _is([]),
    "tool_choice": _is("none", "auto"),
    "functions": _is([]),
    "function_call": _is("none", "auto"),
    "modalities": _is([], ["text"]),
    "audio": _is(),
    "prediction": _is(),
    "reasoning_effort": _is("none"),
    "web_search_options": _is(),
    "verbosity": _is("medium"),
    "chat_template": _is(),
    "chat_template_kwargs": _is({}),
    "documents": _is([]),
    "add_generation_prompt": _is(True),
    "use_beam_search": _is(False),
    "allowed_token_ids": _is([]),
    "bad_words": _is([]),
    "guided_json": _is(),
    "guided_regex": _is(),
    "guided_choice": _is(),
    "guided_grammar": _is(),
    "structured_outputs": _is(),
    "grammar": _is(""),
    "return_token_ids": _is(False),
}
"""Field -> whether a value asks for nothing. null always asks for nothing."""

HARMLESS_FIELDS = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "parallel_tool_calls",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "skip_special_tokens",
        "spaces_between_special_tokens",
    }
)
"""Known fields that change no token here: accepted and not used."""


def refuse_unbuilt_fields(body: dict[str, Any]) -> None:
    """Raise InvalidRequestError for the first field of `body` that asks for what is not built."""
    for name, is_neutral in NEUTRAL_VALUES.items():
        value = body.get(name)
        if value is not None and not is_neutral(value):
            raise InvalidRequestError(
                f"{name} = {describe(value)} is not supported by this server; leave {name} out.", param=name
            )


class UnknownFieldLog:
    """Names each unknown field in the log once, the first time somebody sends it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def note(self, names: Iterable[str]) -> None:
        """Log those of `names` that were never seen."""
        for name in names:
            if name not in self._seen and len(self._seen) < MAX_LOGGED_NAMES:
                self._seen.add(name)
                logger.warning("ignoring the unknown request field %r", name[:60])
