"""One request in the engine: what it is handed, then its tokens, how far they are computed, and how it ends."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence as SequenceOf
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from myserve_ui.core.outputs import FinishReason, RequestOutput, RequestState, RequestTimings, TokenLogprob, Usage
from myserve_ui.core.sampling_params import ResolvedSampling
from myserve_ui.engine.detokenizer import Detokenizer
from myserve_ui.engine.grammars.compiler import CompiledGrammar
from myserve_ui.engine.grammars.matcher import Matcher
from myserve_ui.engine.stop_checker import StopChecker

logger = logging.getLogger(__name__)

BROKEN = "The engine failed in a part of the step that was this answer's alone; other requests go on. Please try again."

OnLogits = Callable[[Any], None]
"""Called on the engine's thread with a tensor [rows, vocab_size], float32, for the next `rows` scored tokens."""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A prompt of ids and how to go on from it. Everything is validated by now."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    params: ResolvedSampling
    """max_tokens fits the context."""
    arrival: float
    """Engine clock, seconds."""
    cache_prompt: bool = True
    grammar: CompiledGrammar | None = None
    """Holds the answer to a form."""
    on_logits: OnLogits | None = None
    """Gets the logits that lead up to each prompt token, instead of their log-probabilities being reported."""
    first_scored: int = 1
    """Index of the first prompt token to score; the first token of all has none before it."""
    choice: int = 0
    """Which of several answers to one prompt; each draws from a generator of its own."""
    parent: str | None = None
    """Request id of the first of several answers: this one waits for its prompt, then copies the cache."""


class Sequence:
    """Tokens of one request, prompt and answer in one list, of which the first `num_computed_tokens` are cached."""

    def __init__(self, seq_id: int, request: EngineRequest, decode: Callable[[SequenceOf[int]], str]) -> None:
        self.seq_id = seq_id
        self.request_id = request.request_id
        self.params = request.params
        self.cache_prompt = request.cache_prompt
        self.token_ids = list(request.prompt_token_ids)
        self.num_prompt_tokens = len(self.token_ids)
        self.num_computed_tokens = 0
        self.num_cached_tokens = 0
        self.slot: int | None = None
        self.finish_reason: FinishReason | None = None
        self.stop_reason: str | int | None = None
        self.error: str | None = None
        self.timings = RequestTimings(arrival=request.arrival)
        self.random = make_generator(request.params.seed, request.choice)
        self.parent = request.parent
        self.matcher = request.grammar.start() if request.grammar is not None else None
        """This answer's place in its grammar."""
        self.output_counts: Counter[int] = Counter()
        """How often each token is in the answer; kept only where a penalty asks for it."""
        self.num_scored_tokens = request.first_scored
        """Prompt tokens that are scored, or that nobody asked about: the first at least, with no token before it."""
        self.on_logits = request.on_logits
        self._detokenizer = Detokenizer(decode, request.prompt_token_ids)
        self._stop_checker = StopChecker(request.params.stop)
        self._pending_text = ""
        self._pending_logprobs: list[TokenLogprob] = []
        self._pending_prompt_logprobs: list[TokenLogprob] = []
        self._num_reported_tokens = 0
        self._uniform: float | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_uncomputed_tokens(self) -> int:
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def is_finished(self) -> bool:
        return self.finish_reason is not None

    @property
    def state(self) -> RequestState:
        if self.is_finished:
            return RequestState.FINISHED
        if self.num_output_tokens:
            return RequestState.DECODE  # also while a preempted sequence is computed again
        return RequestState.WAITING if self.timings.scheduled is None else RequestState.PREFILL

    def mark_scheduled(self, now: float) -> None:
        """Note the first time that a part of the prompt enters a step."""
        if self.timings.scheduled is None:
            self.timings = replace(self.timings, scheduled=now)

    @property
    def wants_prompt_scores(self) -> bool:
        """True while prompt tokens are to be scored: their logits are needed, so none may come from the cache."""
        wanted = self.params.prompt_logprobs or self.on_logits is not None
        return wanted and self.num_scored_tokens < self.num_prompt_tokens

    def add_logprob(self, logprob: TokenLogprob) -> None:
        """Report the log-probability of the token that was just appended."""
        self._pending_logprobs.append(logprob)

    def add_prompt_logprobs(self, logprobs: SequenceOf[TokenLogprob]) -> None:
        """Report those of the next prompt tokens."""
        self._pending_prompt_logprobs += logprobs

    def uniform(self) -> float:
        """The random number in [0, 1) that draws the next token: the same one until a token is appended.

        So a step that fails after the draw, and is done again, changes nothing of what a seed gives.
        """
        if self._uniform is None:
            self._uniform = self.random.random()
        return self._uniform

    def append_token(self, token_id: int, eos_token_ids: frozenset[int], now: float) -> None:
        """Add a sampled token and finish if it ends the answer: an end token, a stop string, or the length."""
        self.token_ids.append(token_id)
        self._uniform = None
        if self.params.counts_tokens:
            self.output_counts[token_id] += 1
        first = now if self.timings.first_token is None else self.timings.first_token
        self.timings = replace(
            self.timings, first_token=first, last_token=now, num_output_tokens=self.num_output_tokens
        )
        if self._ends_at(token_id, eos_token_ids):
            self._conclude(FinishReason.STOP)
            return
        self._add_text(self._detokenizer.add(token_id))
        if self.matcher is not None:
            self._follow_grammar(self.matcher, token_id)
        if not self.is_finished and self.num_output_tokens >= self.params.max_tokens:
            self._conclude(FinishReason.LENGTH)

    def finish(self, reason: FinishReason, *, error: str | None = None) -> None:
        """End the sequence; text held back for a possible stop string is released."""
        if self._stop_checker.matched is None and reason is not FinishReason.ABORT:
            self._pending_text += self._stop_checker.flush()
        self.finish_reason, self.error = reason, error

    def take_output(self) -> RequestOutput:
        """News since the last call; clears them."""
        text, self._pending_text = self._pending_text, ""
        logprobs, self._pending_logprobs = tuple(self._pending_logprobs), []
        prompt_logprobs, self._pending_prompt_logprobs = tuple(self._pending_prompt_logprobs), []
        new_ids = tuple(self.token_ids[self.num_prompt_tokens + self._num_reported_tokens :])
        self._num_reported_tokens += len(new_ids)
        return RequestOutput(
            request_id=self.request_id,
            state=self.state,
            usage=Usage(self.num_prompt_tokens, self.num_output_tokens, self.num_cached_tokens),
            timings=self.timings,
            text_delta=text,
            token_ids=new_ids,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            num_computed_tokens=min(self.num_computed_tokens, self.num_prompt_tokens),
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
            error=self.error,
        )

    def _ends_at(self, token_id: int, eos_token_ids: frozenset[int]) -> bool:
        if self.num_output_tokens < self.params.min_tokens:
            return False
        if token_id in self.params.stop_token_ids:
            self.stop_reason = token_id
            return True
        return token_id in eos_token_ids and not self.params.ignore_eos

    def _follow_grammar(self, matcher: Matcher, token_id: int) -> None:
        """End as soon as the form is complete, or cannot be kept."""
        matcher.accept(token_id)
        if matcher.failure is not None:
            self.finish(FinishReason.ERROR, error=matcher.failure)
        elif matcher.is_finished and not self.is_finished:
            self._conclude(FinishReason.STOP)

    def _conclude(self, reason: FinishReason) -> None:
        self._add_text(self._detokenizer.flush())
        if not self.is_finished:
            self.finish(reason)

    def _add_text(self, text: str) -> None:
        if self.num_output_tokens < self.params.min_tokens:
            self._pending_text += text
            return
        self._pending_text += self._stop_checker.add(text)
        if self._stop_checker.matched is not None:
            self.stop_reason = self._stop_checker.matched
            self.finish(FinishReason.STOP)


def make_generator(seed: int | None, choice: int = 0) -> random.Random:
    """A generator of one sequence's own.

    Equal seeds give equal draws, negative seeds differ from positive ones, and each choice of a seed differs from the
    others; the first draws what a request for one answer would.
    """
    if seed is None:
        return random.Random()
    return random.Random(f"{seed}/{choice}" if choice else seed & 0xFFFF_FFFF_FFFF_FFFF)


def is_fault(error: BaseException) -> bool:
    """Whether `error` may be one sequence's: panics of Rust libraries are no Exception, and are faults too."""
    return not isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)


@contextmanager
def containing_faults(sequence: Sequence) -> Iterator[None]:
    """End `sequence` with an error if what is done inside, for it alone, raises."""
    try:
        yield
    except BaseException as error:  # the border of one sequence: the others of its step go on
        if not is_fault(error):
            raise
        fail_sequence(sequence)


def fail_sequence(sequence: Sequence) -> None:
    """End a sequence by the error that is being handled."""
    logger.exception("request %s failed in its own part of a step", sequence.request_id)
    sequence.finish(FinishReason.ERROR, error=BROKEN)
