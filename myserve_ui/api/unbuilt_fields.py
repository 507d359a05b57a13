"""Fields of the OpenAI schema that a route cannot honour: neutral values pass, any other is refused by name."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Any

from myserve_ui.api.validation import describe
from myserve_ui.errors import InvalidRequestError

logger = logging.getLogger(__name__)

MAX_LOGGED_NAMES = 200
"""Names come from clients: what is remembered of them is bounded."""


NEUTRAL_VALUES: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "prompt_logprobs": (0,),
    "echo": (False,),
    "suffix": ("",),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": (
        "none",
        "auto",
    ),
    "functions": ([],),
    "function_call": (
        "none",
        "auto",
    ),
    "modalities": (
        [],
        ["text"],
    ),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "web_search_options": (),
    "verbosity": ("medium",),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "documents": ([],),
    "add_generation_prompt": (True,),
    "use_beam_search": (False,),
    "allowed_token_ids": ([],),
    "bad_words": ([],),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "grammar": ("",),
    "return_token_ids": (False,),
}
"""Field -> the values that ask for nothing. null always asks for nothing."""

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


def refuse_unbuilt_fields(body: dict[str, Any], built: Collection[str]) -> None:
    """Raise InvalidRequestError for the first field of `body` that asks for what this route has not `built`."""
    for name, neutral in NEUTRAL_VALUES.items():
        value = None if name in built else body.get(name)
        if value is not None and not _is_one_of(value, neutral):
            raise InvalidRequestError(
                f"{name} = {describe(value)} is not supported by this server; leave {name} out.", param=name
            )


def _is_one_of(value: object, neutral: tuple[object, ...]) -> bool:
    # 1 == True in Python, so the types are compared too; 0 and 0.0 are the same number.
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in neutral)


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
