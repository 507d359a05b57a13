"""How one request wants its tokens chosen. Each request's own values hold inside any mixed batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from myserve_ui.core.tool_call_output import AnswerForm
from myserve_ui.errors import InvalidRequestError

GREEDY_BELOW = 1e-2
"""Temperatures under this are greedy: logits divided by less overflow long before the choice changes."""

MAX_STOP_STRINGS = 4
MAX_TOP_LOGPROBS = 20
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "temperature": (0.0, 2.0),
        "top_p": (0.0, 1.0),
        "min_p": (0.0, 1.0),
        "presence_penalty": (-2.0, 2.0),
        "frequency_penalty": (-2.0, 2.0),
    }
)
"""The least and the most that each may be."""
MAX_REPETITION_PENALTY = 1e6
"""Far beyond what changes a choice; one that float32 takes for infinity makes a logit of 0 no number."""


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What the model's generation_config says; neutral where it says nothing."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling parameters of one request, in OpenAI's spelling; None means "the model's own default".

    Raises InvalidRequestError, with `param` set, for a value out of range.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    """Keep the k likeliest tokens; 0 and -1 are off."""
    min_p: float | None = None
    """Drop tokens less likely than min_p times the likeliest."""
    repetition_penalty: float | None = None
    """Divides positive and multiplies negative logits of every token of prompt and answer; 1 is off."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of every token of the answer so far."""
    frequency_penalty: float = 0.0
    """Subtracted once for each time that a token is in the answer so far."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """(token id, what is added to its logit)."""
    seed: int | None = None
    max_tokens: int | None = None
    """At most this many generated tokens; None: the room left in the context; 0: only the prompt is computed."""
    min_tokens: int = 0
    """No end token and no stop string counts before this many generated tokens."""
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    """Report each token's log-probability, with so many of the likeliest tokens; None: report none."""
    structured_output: AnswerForm | None = None
    """The JSON, or the calls, that the answer must be; None: any text."""
    prompt_logprobs: bool = False
    """The same for the prompt's tokens, from the second on."""

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            _check_float(name, getattr(self, name), low, high)
        _check_repetition_penalty(self.repetition_penalty)
        _check_bias(self.logit_bias)
        _check_int("logprobs", self.logprobs, 0, MAX_TOP_LOGPROBS)
        _check_int("top_k", self.top_k, -1, INT64_MAX)
        _check_int("seed", self.seed, INT64_MIN, INT64_MAX)
        _check_int("max_tokens", self.max_tokens, 0, INT64_MAX)
        _check_int("min_tokens", self.min_tokens, 0, INT64_MAX if self.max_tokens is None else self.max_tokens)
        _check_stop(self.stop)

    def resolve(self, defaults: SamplingDefaults, *, room: int = INT64_MAX) -> ResolvedSampling:
        """Settle what the request left open: by the model's defaults, and by the `room` that is left in the context."""
        return ResolvedSampling(
            temperature=defaults.temperature if self.temperature is None else self.temperature,
            top_p=defaults.top_p if self.top_p is None else self.top_p,
            top_k=max(defaults.top_k if self.top_k is None else self.top_k, 0),
            min_p=defaults.min_p if self.min_p is None else self.min_p,
            repetition_penalty=(
                defaults.repetition_penalty if self.repetition_penalty is None else self.repetition_penalty
            ),
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=self.logit_bias,
            seed=self.seed,
            max_tokens=room if self.max_tokens is None else self.max_tokens,
            min_tokens=self.min_tokens,
            stop=self.stop,
            stop_token_ids=self.stop_token_ids,
            ignore_eos=self.ignore_eos,
            logprobs=self.logprobs is not None,
            top_logprobs=self.logprobs or 0,
            prompt_logprobs=self.prompt_logprobs,
            structured_output=self.structured_output,
        )


@dataclass(frozen=True, slots=True)
class ResolvedSampling:
    """The same once the model is known, for the engine: nothing is left to ask. Made by `SamplingParams.resolve`."""

    temperature: float
    top_p: float
    top_k: int
    """0 is off."""
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: tuple[tuple[int, float], ...]
    seed: int | None
    """None: other draws every time."""
    max_tokens: int
    min_tokens: int
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    ignore_eos: bool
    logprobs: bool
    """Whether the tokens' log-probabilities are reported, with the `top_logprobs` likeliest."""
    top_logprobs: int
    prompt_logprobs: bool
    structured_output: AnswerForm | None
    """None: any text."""

    @property
    def is_greedy(self) -> bool:
        """True if the likeliest token is always taken."""
        return self.temperature < GREEDY_BELOW or self.top_p == 0.0 or self.top_k == 1

    @property
    def counts_tokens(self) -> bool:
        """Whether a penalty asks how often a token is in the answer."""
        return bool(self.presence_penalty or self.frequency_penalty)


def _check_float(name: str, value: float | None, low: float, high: float) -> None:
    if value is None:
        return
    if not _is_number(value) or not low <= value <= high:  # NaN is in no range
        raise InvalidRequestError(f"{name} must be a number in [{low:g}, {high:g}], got {value}.", param=name)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_int(name: str, value: int | None, low: int, high: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequestError(f"{name} must be a whole number, got {str(value)[:40]}.", param=name)
    if not low <= value <= high:
        raise InvalidRequestError(f"{name} must be in [{low}, {high}], got {value}.", param=name)


def _check_repetition_penalty(value: float | None) -> None:
    if value is None:
        return
    if not _is_number(value) or not 0.0 < value <= MAX_REPETITION_PENALTY:
        raise InvalidRequestError(
            f"repetition_penalty must be a number above 0 and at most {MAX_REPETITION_PENALTY:.0f}, got {value}.",
            param="repetition_penalty",
        )


def _check_bias(logit_bias: tuple[tuple[int, float], ...]) -> None:
    for token_id, bias in logit_bias:
        _check_float("logit_bias", bias, -100.0, 100.0)
        _check_int("logit_bias", token_id, 0, INT64_MAX)


def _check_stop(stop: tuple[str, ...]) -> None:
    if len(stop) > MAX_STOP_STRINGS:
        raise InvalidRequestError(f"stop takes at most {MAX_STOP_STRINGS} strings, got {len(stop)}.", param="stop")
    if any(not isinstance(text, str) or not text for text in stop):
        raise InvalidRequestError("stop strings must be non-empty text; leave stop out to have none.", param="stop")
