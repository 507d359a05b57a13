"""What a user says reaches the model in the form its chat template wants, or the chat is refused; never dropped."""

from __future__ import annotations

import pytest

from myserve_ui.core.requests import Message
from myserve_ui.errors import InvalidRequestError
from myserve_ui.models.tokenizers.chat_template import read_chat_template
from myserve_ui.models.tokenizers.tokenizer import HuggingFaceTokenizer
from tests.support.tiny_checkpoint import CHATML, END_OF_TURN, build_tiny_tokenizer

LLAMA_GUARD = """\
{% for message in messages %}{% if message['role'] == 'user' %}User: {% else %}Agent: {% endif %}
{%- for content in message['content'] %}{% if content['type'] == 'text' %}{{ content['text'] | trim }}{% endif %}
{%- endfor %}
{% endfor %}{% if add_generation_prompt %}Agent:{% endif %}"""
EITHER = """\
{% for message in messages %}{{ message.role }}: {% if message.content is string %}{{ message.content }}{% else %}
{%- for part in message.content %}[{{ part.text }}]{% endfor %}{% endif %};
{%- endfor %}"""
USER_IN_PARTS = """\
{% for message in messages %}{% if message.role == 'user' %}{% for part in message.content %}{{ part.text }}{% endfor %}
{%- else %}{{ message.content.strip() }}{% endif %}
{% endfor %}"""
UPPER = "{% for message in messages %}{{ message.content | upper }}{% endfor %}"
ONE_PART = "{% for message in messages %}{{ message.content[0].text }}{% endfor %}"
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + LLAMA_GUARD
FORGETFUL = "{% for message in messages %}{{ message.role }}{% endfor %}"
OTHER_PARTS = "{% for m in messages %}{% for part in m.content %}{{ part.words }}{% endfor %}{% endfor %}"
REFUSES = "{{ raise_exception('never') }}"
DIVIDES = "{{ 1 // 0 }}"
RECURSES = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"

TALK = [
    Message("system", "be brief"),
    Message("user", "a question"),
    Message("assistant", "words"),
    Message("user", "x"),
]


def tokenizer_with(template: str) -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(build_tiny_tokenizer(chat_template=template), vocab_size=320)


def render(template: str, *messages: Message, **options: bool) -> str:
    tokenizer = tokenizer_with(template)
    return tokenizer.decode(tokenizer.render_chat(messages, **options))


@pytest.mark.parametrize("template", [LLAMA_GUARD, EITHER, ONE_PART, USER_IN_PARTS, CHATML])
def test_all_that_is_said_is_in_the_prompt(template: str) -> None:
    prompt = render(template, *TALK)
    assert all(message.content in prompt for message in TALK)


def test_a_template_that_takes_both_gets_strings() -> None:
    assert render(EITHER, *TALK).startswith("system: be brief;user: a question;")


def test_a_template_that_changes_the_case_is_no_template_that_drops_text() -> None:
    assert render(UPPER, Message("user", "hello")) == "HELLO"


def test_a_template_that_takes_no_system_message_still_gets_parts() -> None:
    assert "a question" in render(NO_SYSTEM, Message("user", "a question"))
    with pytest.raises(InvalidRequestError, match="no system"):
        render(NO_SYSTEM, *TALK)


def test_a_control_token_in_a_part_stays_text() -> None:
    tokenizer = tokenizer_with(LLAMA_GUARD)
    prompt = tokenizer.render_chat([Message("user", f"a{END_OF_TURN}b")])
    assert not set(prompt) & set(tokenizer.special_tokens)
    assert f"a{END_OF_TURN}b" in tokenizer.decode(prompt)


def test_a_last_message_in_parts_can_be_gone_on_with() -> None:
    prompt = render(LLAMA_GUARD, Message("user", "x"), Message("assistant", "half of"), continue_final_message=True)
    assert prompt.endswith("half of")


@pytest.mark.parametrize("template", [FORGETFUL, OTHER_PARTS])
def test_a_template_that_drops_what_the_user_says_is_refused_in_words(template: str) -> None:
    with pytest.raises(InvalidRequestError, match="drops what the user says") as refused:
        render(template, Message("user", "hello"))
    assert refused.value.param == "messages"


@pytest.mark.parametrize(("template", "words"), [(REFUSES, "never"), (DIVIDES, "zero"), (RECURSES, "recursion")])
def test_a_template_that_fails_is_refused_in_words(template: str, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        render(template, Message("user", "hello"))


def test_transformers_own_tag_is_read_in_the_setting() -> None:
    template = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    assert read_chat_template(template) == template
    assert render(template, Message("user", "hello")) == "hello"


FIRST_ONLY = "{% for m in messages %}{% if loop.first %}{{ m.content }}{% endif %}{{ m.role }}{% endfor %}"


def test_a_template_that_drops_the_last_question_of_a_longer_chat_is_refused_for_that_chat() -> None:
    assert render(FIRST_ONLY, Message("user", "hello")).startswith("hello")
    with pytest.raises(InvalidRequestError, match="drops the last thing"):
        render(FIRST_ONLY, *TALK)


def test_a_template_that_writes_a_message_otherwise_drops_nothing() -> None:
    template = "{% for m in messages %}{{ m.content.split() | join('_') }}{% endfor %}"
    assert render(template, Message("user", "one two")) == "one_two"
