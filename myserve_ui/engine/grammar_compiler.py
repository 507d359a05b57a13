"""Turns a shape that was asked for into a grammar over one model's tokens. Slow work, done off the hot path."""

from __future__ import annotations

from collections.abc import Callable, Sequence as SequenceOf
from functools import cached_property

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from myserve_ui.core.tool_call_output import AnswerForm
from myserve_ui.engine.grammar_matcher import Matcher
from myserve_ui.engine.grammar_refusals import refusal
from myserve_ui.engine.grammar_text import write_grammar
from myserve_ui.errors import InvalidRequestError

MAX_CACHED = 16
MAX_LEXER_STATES = 20_000
"""One or two kB each, kept with the grammar: with MAX_CACHED, half a gigabyte if every schema is malicious."""
MAX_ITEMS_IN_ROW = 6000
"""An object of a thousand optional properties needs four thousand."""
STEP_LEXER_FUEL = 100_000
"""For one mask, some ten milliseconds."""


class CompiledGrammar:
    """One shape over one vocabulary. Its matchers share what they learn, so that a mask is computed once."""

    def __init__(self, prototype: LLMatcher, mask_bytes: int) -> None:
        self._prototype = prototype
        self._mask_bytes = mask_bytes
        self.is_spent = False
        """True once a matcher ran into a limit: what they share is full, and the grammar must be made anew."""

    def start(self) -> Matcher:
        """A matcher at the beginning of an answer, for one sequence."""
        return Matcher(self._prototype.deep_copy(), self._mask_bytes, on_failure=self._mark_spent)

    def _mark_spent(self) -> None:
        self.is_spent = True


class GrammarCompiler:
    """Compiles shapes for one model, the last few of them kept.

    Any thread may call `compile`, also at the same time: the library lets go of the interpreter while it works, its
    vocabulary is frozen, and the worst that two threads can do is to make the same grammar twice.
    """

    def __init__(
        self,
        read_token_bytes: Callable[[], SequenceOf[bytes]],
        *,
        end_token_ids: frozenset[int],
        max_cached: int = MAX_CACHED,
    ) -> None:
        """`read_token_bytes` is called at the first use: bytes of every id, none for those that add no text."""
        self._read_token_bytes = read_token_bytes
        self._end_token_ids = sorted(end_token_ids)
        self._max_cached = max_cached
        self._cached: dict[AnswerForm, CompiledGrammar] = {}

    def compile(self, output: AnswerForm, *, param: str = "response_format") -> CompiledGrammar:
        """The grammar of `output`; takes milliseconds, half a second for the largest, and a second more the first time.

        Raises InvalidRequestError, with `param` set, if it cannot be enforced, costs too much, or allows no answer.
        """
        grammar = self._cached.pop(output, None)  # out and in again, so that the dictionary is in the order of use
        if grammar is None or grammar.is_spent:
            try:
                grammar = self._build(output)
            except InvalidRequestError as error:
                error.param = param
                raise
        self._cached[output] = grammar
        while len(self._cached) > self._max_cached:
            self._cached.pop(next(iter(self._cached)), None)
        return grammar

    def _build(self, output: AnswerForm) -> CompiledGrammar:
        prototype = LLMatcher(self._tokenizer, write_grammar(output), log_level=0, limits=_limits())
        if prototype.is_error():
            raise refusal(prototype.get_error())
        grammar = CompiledGrammar(prototype, (self._tokenizer.vocab_size + 31) // 32 * 4)
        if (failure := grammar.start().try_first_token()) is not None:
            raise refusal(failure)
        return grammar

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        """The vocabulary as a tree of bytes."""
        token_bytes = list(self._read_token_bytes())
        end_token_ids = [token_id for token_id in self._end_token_ids if token_id < len(token_bytes)]
        if not end_token_ids:
            raise InvalidRequestError(
                "This model has no end token, so an answer of a given form could not end: "
                "leave response_format and tools out.",
            )
        for token_id in end_token_ids:
            token_bytes[token_id] = b""  # an end is never part of a text, whatever its name
        table = _TokenTable(token_bytes, end_token_ids[0])
        return LLTokenizer(TokenizerWrapper(table), eos_token=end_token_ids, slices=LLTokenizer.json_slices())


class _TokenTable:
    """A vocabulary as the library reads it."""

    bos_token_id = None

    def __init__(self, tokens: list[bytes], eos_token_id: int) -> None:
        self.tokens = tokens
        self.eos_token_id = eos_token_id

    def __call__(self, text: str) -> list[int]:
        """Ids of a text are asked for only to force tokens, which the grammar switches off."""
        raise NotImplementedError


def _limits() -> LLParserLimits:
    return LLParserLimits(
        max_items_in_row=MAX_ITEMS_IN_ROW,
        max_lexer_states=MAX_LEXER_STATES,
        step_lexer_fuel=STEP_LEXER_FUEL,
        verbose_errors=False,
    )
