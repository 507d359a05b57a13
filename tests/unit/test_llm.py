"""The offline door refuses in words what it cannot answer."""

from __future__ import annotations

import pytest

from myserve_ui import LLM, SamplingParams
from myserve_ui.core.requests import Message
from myserve_ui.errors import InvalidRequestError, SettingsError
from tests.support.tiny_checkpoint import save_tiny_model

GOOD = {"role": "user", "content": "Hi"}


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(folder, "llama")
    return LLM(str(folder))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"force_echo": True}, "These are no settings of a model: force_echo."),
        ({"api_key": "x", "port": 1}, "These are no settings of a model: api_key, port."),
        ({"precison": "full"}, "These are no settings of a model: precison."),
        ({"precision": "int5"}, "These settings are out of range: precision."),
    ],
)
def test_only_settings_of_a_model_are_taken(settings, sentence):
    with pytest.raises(SettingsError) as refused:
        LLM(**settings)
    assert refused.value.message == sentence


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        ([True, False], r"prompts\[0\] must be a text or a list of token ids, got bool"),
        ([[1.5]], r"prompts\[0\] must be"),
        (["a", 1], r"prompts\[1\] must be a text or a list of token ids, got int"),
        ([1, "a"], r"prompts\[0\] must be"),
        ([["a"]], r"prompts\[0\] must be"),
        ([None], r"prompts\[0\] must be a text or a list of token ids, got None"),
        (None, "prompts must be a list of texts or lists of token ids, got None"),
        (5, "got int"),
        (b"abc", "got bytes"),
        ([b"abc"], "got bytes"),
        ({"a": 1}, "got dict"),
        ("", "The prompt is empty"),
        ([[]], "The prompt is empty"),
    ],
)
def test_prompts_are_texts_or_lists_of_ids(llm, prompts, words):
    with pytest.raises(InvalidRequestError, match=words):
        llm.generate(prompts)


@pytest.mark.parametrize("params", [{"max_tokens": 2}, 5])
def test_params_are_sampling_params(llm, params):
    with pytest.raises(InvalidRequestError, match=r"params must be SamplingParams\(...\), got"):
        llm.generate("a", params)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ("hi", "messages must be a list of messages, got str"),
        (None, "messages must be a list of messages, got None"),
        ([], "messages is empty; send one at least"),
        (["hi"], r"messages\[0\] must have role and content, got str"),
        ([GOOD, {"role": "user"}], r"messages\[1\] has no content"),
        ([{"content": "x"}], r"messages\[0\] has no role"),
        ([GOOD | {"nmae": "x"}], r"messages\[0\] has 'nmae'"),
        ([GOOD | {"role": "boss"}], r"messages\[0\].role must be one of system, user"),
        ([GOOD | {"role": ["user"]}], r"messages\[0\].role must be one of"),
        ([GOOD | {"content": None}], r"messages\[0\].content must be a text, got None"),
        ([Message("user", [{"type": "text", "text": "x"}])], r"messages\[0\].content must be a text, got list"),
    ],
)
def test_messages_have_a_role_and_a_text(llm, messages, words):
    with pytest.raises(InvalidRequestError, match=words):
        llm.chat(messages)


def test_nothing_asked_is_nothing_answered_and_iterables_are_listed(llm):
    params = SamplingParams(max_tokens=1)
    assert llm.generate([]) == []
    assert len(llm.generate(("a", "b"), params)) == len(llm.generate((text for text in "ab"), params)) == 2
    assert len(llm.generate([[5, 6], "a"], params)) == 2
    assert len(llm.generate((5, 6), params)) == 1
