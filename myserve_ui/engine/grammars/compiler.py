"""Turns a shape that was asked for into a grammar over one model's tokens. Slow work, done off the hot path."""

from __future__ import annotations

from collections.abc import Callable, Sequence as SequenceOf
from functools import cached_property

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from myserve_ui.core.tool_call_output import AnswerForm
from myserve_ui.engine.grammars.matcher import Matcher, is_panic
from myserve_ui.engine.grammars.refusals import GAVE_UP, refusal
from myserve_ui.engine.grammars.text import write_grammar
from myserve_ui.engine.grammars.vocabulary import Vocabulary
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
        self._end_token_ids = end_token_ids
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
        for oldest in list(self._cached)[: -self._max_cached]:
            self._cached.pop(oldest, None)
        return grammar

    def find(self, output: AnswerForm) -> CompiledGrammar | None:
        """The grammar of `output` if it is at hand."""
        grammar = self._cached.pop(output, None)
        if grammar is None or grammar.is_spent:
            return None
        self._cached[output] = grammar
        return grammar

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Raises InvalidRequestError for a model that grammars cannot be made for."""
        return Vocabulary.of(self._read_token_bytes(), self._end_token_ids)

    def _build(self, output: AnswerForm) -> CompiledGrammar:
        return compile_grammar(self._tree, write_grammar(output), self.vocabulary.mask_bytes)

    @cached_property
    def _tree(self) -> LLTokenizer:
        return self.vocabulary.as_tree()


def compile_grammar(tree: LLTokenizer, text: str, mask_bytes: int) -> CompiledGrammar:
    """The grammar that `text` is. Raises InvalidRequestError if it is none, costs too much, or allows no answer."""
    try:
        prototype = LLMatcher(tree, text, log_level=0, limits=_limits())
    except BaseException as error:
        if not is_panic(error):
            raise
        raise refusal(GAVE_UP) from None
    if prototype.is_error():
        raise refusal(prototype.get_error())
    grammar = CompiledGrammar(prototype, mask_bytes)
    if (failure := grammar.start().try_first_token()) is not None:
        raise refusal(failure)
    return grammar


def _limits() -> LLParserLimits:
    return LLParserLimits(
        max_items_in_row=MAX_ITEMS_IN_ROW,
        max_lexer_states=MAX_LEXER_STATES,
        step_lexer_fuel=STEP_LEXER_FUEL,
        verbose_errors=False,
    )
