from myserve_ui.core.requests import Message
from myserve_ui.ui.chat.history import (
    assistant_message,
    is_note,
    is_pending,
    last_question,
    note,
    open_note,
    settle,
    spoken,
    text_of,
    title_of,
    user_message,
    without_status,
)

ASKED = [user_message("  two spaces <b>"), assistant_message("one\n"), note("5 tokens · 9 tok/s")]


def test_the_model_gets_the_text_unchanged_and_no_notes() -> None:
    assert spoken(ASKED) == (Message("user", "  two spaces <b>"), Message("assistant", "one\n"))


def test_content_is_a_list_of_parts_so_that_gradio_does_not_trim_it() -> None:
    assert all(isinstance(message["content"], list) for message in ASKED)


def test_several_content_parts_are_joined_and_foreign_keys_are_dropped() -> None:
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    message = {"role": "user", "content": parts, "options": None, "metadata": None}
    assert spoken([message, assistant_message("c")])[0] == Message("user", "a b")


def test_a_question_without_an_answer_is_not_part_of_the_conversation() -> None:
    chat = [user_message("lost"), open_note("Not sent", "why"), user_message("kept"), assistant_message("yes")]
    assert [message.content for message in spoken(chat)] == ["kept", "yes"]


def test_an_empty_answer_is_an_answer() -> None:
    assert len(spoken([user_message("x"), assistant_message("")])) == 2


def test_the_last_question_is_found_past_its_answer() -> None:
    assert last_question([*ASKED, user_message("x"), note("waiting", pending=True)]) == 3
    assert last_question([]) is None


def test_a_note_of_a_refused_attempt_goes_and_the_numbers_of_an_answer_stay() -> None:
    assert without_status([*ASKED, open_note("Not sent", "too long")]) == ASKED
    assert without_status([user_message("x"), note("waiting", pending=True)]) == [user_message("x")]


def test_a_stopped_answer_keeps_the_numbers_it_had() -> None:
    chat = [user_message("x"), assistant_message("par"), note("writing · 3 tokens · 5.0 tok/s", pending=True)]
    settled = settle(chat, "stopped")
    assert title_of(settled[-1]) == "stopped · 3 tokens · 5.0 tok/s"
    assert not is_pending(settled[-1])
    assert is_note(settled[-1])
    assert settled[:-1] == chat[:-1]


def test_settling_a_finished_chat_changes_nothing() -> None:
    assert settle(ASKED, "stopped") == ASKED
    assert settle([], "stopped") == []


def test_the_text_of_odd_content_is_empty_and_no_error() -> None:
    assert text_of({"content": None}) == ""
    assert text_of({"content": [{"type": "file", "file": {}}]}) == ""
