import json

import pytest

from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.chat.history import (
    Note,
    assistant_turn,
    messages_of,
    open_note,
    pending_note,
    read_chat,
    spoken,
    user_turn,
)
from myserve_ui.ui.chat.saved_chat import from_json, from_store, to_json, to_markdown, to_store

CHAT = [
    user_turn("  What is <b>?\n"),
    assistant_turn("It is $5 & `x`.\n"),
    Note("7 tokens · 3.0 tok/s"),
]
CONTROLS = {"temperature": 0.2, "system_prompt": "Be brief."}


def test_a_chat_that_was_saved_as_json_opens_again_word_for_word() -> None:
    chat, controls = from_json(to_json(CHAT, CONTROLS))
    assert chat == CHAT
    assert controls == CONTROLS


def test_the_json_file_holds_plain_text_for_other_tools() -> None:
    document = json.loads(to_json(CHAT, CONTROLS))
    assert document["messages"] == [
        {"role": "user", "content": "  What is <b>?\n"},
        {"role": "assistant", "content": "It is $5 & `x`.\n", "numbers": "7 tokens · 3.0 tok/s"},
    ]


def test_the_markdown_file_has_a_heading_per_turn_and_the_text_untouched() -> None:
    text = to_markdown(CHAT, CONTROLS)
    assert text.startswith("# Chat\n\n## System\n\nBe brief.\n\n## You\n\n  What is <b>?\n")
    assert "## Assistant\n\nIt is $5 & `x`.\n\n\n*7 tokens · 3.0 tok/s*" in text


def test_errors_and_running_statuses_are_not_saved_to_files() -> None:
    chat = [*CHAT, open_note("Not sent", "too long"), pending_note("waiting")]
    assert from_json(to_json(chat, {}))[0] == CHAT


def test_the_store_is_never_falsy_so_that_the_browser_writes_it() -> None:
    assert to_store([], used_tokens=0, controls={})


def test_a_reload_keeps_the_part_of_a_running_answer_and_says_so() -> None:
    running = [user_turn("x"), assistant_turn("par"), pending_note("writing · 2 tokens")]
    chat, used, controls = from_store(to_store(running, used_tokens=9, controls=CONTROLS))
    assert chat[:2] == running[:2]
    assert chat[2] == Note("interrupted when the page was left · 2 tokens")
    assert (used, controls) == (9, CONTROLS)


def test_what_the_browser_adds_to_a_message_is_not_stored() -> None:
    noisy = [{**message, "options": None} for message in messages_of(CHAT)]
    assert to_store(read_chat(noisy), used_tokens=0, controls={})["chat"] == messages_of(CHAT)
    assert from_store({"version": 1, "chat": noisy})[0] == CHAT


def test_a_chat_kept_by_an_earlier_version_fetches_no_image_when_the_page_opens() -> None:
    image = "![x](http://a.example/p.png)"
    kept = [
        {"role": role, "content": content}
        for role, content in (("user", image), ("assistant", [{"type": "text", "text": image}]))
    ]
    noted = {**kept[1], "metadata": {"title": image, "status": "done"}}
    chat, _, _ = from_store({"version": 1, "chat": [*kept, noted]})
    assert "![" not in json.dumps(messages_of(chat))
    assert [message.content for message in spoken(chat)] == [image, image]


@pytest.mark.parametrize("stored", [None, {}, [], "x", {"version": 99, "chat": [{}]}, {"version": 1, "chat": None}])
def test_an_unknown_store_is_an_empty_chat(stored: object) -> None:
    assert from_store(stored)[0] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\xff\xfe{", "not JSON"),
        ("[1]", "no saved chat"),
        ('{"format": "myserve-chat", "version": 2}', "version 2"),
        ('{"format": "myserve-chat", "version": 1}', "no list"),
        ('{"format": "myserve-chat", "version": 1, "messages": [{"role": "boss", "content": "x"}]}', "Message 1"),
        ('{"format": "myserve-chat", "version": 1, "messages": [{"role": "user", "content": 5}]}', "Message 1"),
        ("[" * 20_000, "not JSON"),
        ("", "not JSON"),
        ('{"messages":[', "not JSON"),
        ('{"format": "myserve-chat", "version": 1, "messages": [], "settings": {"top_p": NaN}}', "not JSON"),
        ('{"format": "myserve-chat", "version": 1, "messages": [{"role": "user", "content": "\\ud800"}]}', "half of a"),
        ('{"format": "myserve-chat", "version": 1, "messages": [], "settings": {"stop": "\\udfff"}}', "half of a"),
    ],
)
def test_a_file_that_is_no_saved_chat_is_refused_with_a_sentence(text: str | bytes, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        from_json(text)


def test_an_opened_chat_can_be_continued() -> None:
    assert [message.role for message in spoken(from_json(to_json(CHAT, {}))[0])] == ["user", "assistant"]
