"""A panic of the grammar library is a BaseException; it ends the request that it concerns, with a sentence."""

import pytest
from llguidance import LLMatcher

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.engine.grammars import compiler as grammar_compiler
from myserve_ui.engine.grammars.masks import fill_masks
from myserve_ui.engine.grammars.matcher import Matcher, is_panic
from myserve_ui.engine.grammars.refusals import REASONS, refusal
from myserve_ui.errors import InvalidRequestError
from tests.unit.grammar_walks import byte_compiler, compile_schema

PanicException = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})


class PanickingMatcher:
    """A library's matcher in which everything from `first` on panics."""

    def __init__(self, first: str) -> None:
        self._first = first
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        def call(*_arguments: object) -> bool:
            self.calls.append(name)
            if self._first in self.calls:
                raise PanicException("index out of bounds")
            return False

        return call


@pytest.mark.parametrize("first", ["unsafe_compute_mask_ptr", "is_error"])
def test_a_panic_in_a_mask_fails_the_matcher_and_allows_nothing(first):
    failures, library = [], PanickingMatcher(first)
    matcher = Matcher(library, 40, on_failure=lambda: failures.append(1))
    assert not fill_masks([matcher]).any()
    assert "simplify the schema" in matcher.failure
    assert not matcher.is_finished
    matcher.accept(1)
    fill_masks([matcher])
    assert failures == [1] and library.calls.count(first) == 1, "what gave up must not be asked again"


@pytest.mark.parametrize("first", ["consume_token", "is_stopped"])
def test_a_panic_while_a_token_is_taken_fails_the_matcher(first):
    matcher = Matcher(PanickingMatcher(first), 40, on_failure=lambda: None)
    matcher.accept(1)
    assert not matcher.is_finished
    assert matcher.failure is not None


def test_a_panic_while_a_grammar_is_made_is_a_refusal(monkeypatch):
    def panic(*_arguments: object, **_options: object) -> LLMatcher:
        raise PanicException("overflow")

    compiler = byte_compiler()
    monkeypatch.setattr(grammar_compiler, "LLMatcher", panic)
    with pytest.raises(InvalidRequestError, match="simplify it"):
        compiler.compile(StructuredOutput.json_object())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), ValueError()])
def test_what_is_no_panic_passes(error):
    assert not is_panic(error)

    class Interrupted:
        def consume_token(self, _token_id: int) -> bool:
            raise error

    with pytest.raises(type(error)):
        Matcher(Interrupted(), 40, on_failure=lambda: None).accept(1)


@pytest.mark.parametrize("schema", [{"type": "string", "format": "iri"}, {"allOf": [{"pattern": "(?=a)"}]}])
def test_the_librarys_words_reach_nobody(schema):
    with pytest.raises(InvalidRequestError) as refused:
        compile_schema(schema)
    assert not any(word in refused.value.message for word in ("Some(", "^^^", "llguidance", "Unknown format"))


def test_a_reason_that_nobody_foresaw_is_a_sentence_too():
    assert refusal("thread 'main' panicked at None").message.endswith("simplify it.")
    assert all(reason.endswith(".") for _, reason in REASONS)
