"""Keeps whole answers that would come out the same again, and gives them to whoever asks exactly the same."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace

from myserve_ui.core.model_info import ResponseCacheStatus
from myserve_ui.core.outputs import FinishReason, RequestOutput, TokenLogprob, join_outputs
from myserve_ui.engine.sequence import EngineRequest

WHOLE = frozenset({FinishReason.STOP, FinishReason.LENGTH})
"""How an answer ends that may be kept; what was aborted, failed, timed out or cut off by the shutdown is not whole."""

ENTRY_BYTES, TOKEN_BYTES, LOGPROB_BYTES, TOP_BYTES = 1000, 40, 150, 120
"""What Python takes, about: an entry itself, a token id, a log-probability, and each token beside it."""


class ResponseCache:
    """Answers by key, at most `max_entries` and about `max_bytes`; those unused for longest go first.

    For the event loop alone.
    """

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._answers: OrderedDict[str, tuple[RequestOutput, int]] = OrderedDict()
        self._num_bytes = 0
        self._hits = 0
        self._misses = 0

    def find(self, keys: Sequence[str]) -> list[RequestOutput] | None:
        """The answers of all `keys`, each as one output; None if one is missing. Counted as one look-up."""
        if not all(key in self._answers for key in keys):
            self._misses += 1
            return None
        self._hits += 1
        for key in keys:
            self._answers.move_to_end(key)
        return [self._answers[key][0] for key in keys]

    def store(self, key: str, answer: RequestOutput) -> None:
        """Keep an answer, all of it in one output."""
        size = _size(answer)
        if key in self._answers or size > self._max_bytes or not self._max_entries:
            return
        self._answers[key] = (answer, size)
        self._num_bytes += size
        while len(self._answers) > self._max_entries or self._num_bytes > self._max_bytes:
            _, (_, freed) = self._answers.popitem(last=False)
            self._num_bytes -= freed

    def status(self) -> ResponseCacheStatus:
        return ResponseCacheStatus(len(self._answers), self._num_bytes, self._hits, self._misses)


class AnswerRecorder:
    """Collects one answer while it is made, and stores it once it is whole."""

    def __init__(self, cache: ResponseCache, key: str) -> None:
        self._cache = cache
        self._key = key
        self._outputs: list[RequestOutput] = []

    def see(self, output: RequestOutput) -> None:
        """Take news of the request: every output of the engine, one after the other."""
        self._outputs.append(output)
        if output.finish_reason in WHOLE:
            self._cache.store(self._key, join_outputs(self._outputs))
        if output.finish_reason is not None:
            self._outputs = []


def response_key(request: EngineRequest, *, model: str, owner: str) -> str | None:
    """Everything that changes the answer, as a digest; None for an answer that another draw would change.

    `request.params` are resolved, so that what was left out and the default written out are the same. `owner` is who
    may see the answer again.
    """
    if request.params.seed is None and not request.params.is_greedy:
        return None
    prompt = hashlib.sha256(array("q", request.prompt_token_ids)).hexdigest()  # a long one costs little this way
    params = replace(request.params, logit_bias=tuple(sorted(request.params.logit_bias)))
    told = (model, owner, prompt, params, request.choice, request.cache_prompt)
    return hashlib.sha256(_canonical(told).encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: object) -> str:
    """Text that differs wherever `value` differs: each part has its kind and its length in front."""
    if is_dataclass(value) and not isinstance(value, type):
        value = (type(value).__name__, *((field.name, getattr(value, field.name)) for field in fields(value)))
    if isinstance(value, tuple | list):
        parts = [_canonical(part) for part in value]
        return f"({len(parts)}:{''.join(parts)})"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 0 and 0.0 are the same number, and so is -0.0
    text = str(value)
    return f"{type(value).__name__}{len(text)}:{text}"


def _size(answer: RequestOutput) -> int:
    logprobs = answer.logprobs + answer.prompt_logprobs
    return (
        ENTRY_BYTES
        + 4 * len(answer.text_delta)
        + TOKEN_BYTES * len(answer.token_ids)
        + sum(_logprob_size(entry) for entry in logprobs)
    )


def _logprob_size(entry: TokenLogprob) -> int:
    return LOGPROB_BYTES + TOP_BYTES * len(entry.top)
