from myserve_ui.core.requests import Message
from myserve_ui.ui.chat.history import (
    Note,
    assistant_turn,
    last_question,
    messages_of,
    open_note,
    pending_note,
    read_chat,
    settle,
    spoken,
    text_in,
    user_turn,
    without_status,
)

ASKED = [user_turn("  two spaces <b>"), assistant_turn("one\n"), Note("5 tokens · 9 tok/s")]


def test_the_model_gets_the_text_unchanged_and_no_notes() -> None:
    assert spoken(ASKED) == (Message("user", "  two spaces <b>"), Message("assistant", "one\n"))


def test_content_is_a_list_of_parts_so_that_gradio_does_not_trim_it() -> None:
    assert all(isinstance(message["content"], list) for message in messages_of(ASKED))


def test_what_the_browser_gives_back_is_what_it_was_given() -> None:
    chat = [*ASKED, open_note("Not sent", "why <i>"), pending_note("waiting")]
    assert read_chat(messages_of(chat)) == chat


def test_several_content_parts_are_joined_and_foreign_keys_are_dropped() -> None:
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    message = {"role": "user", "content": parts, "options": None, "metadata": None}
    assert spoken([*read_chat([message]), assistant_turn("c")])[0] == Message("user", "a b")


def test_a_question_without_an_answer_is_not_part_of_the_conversation() -> None:
    chat = [user_turn("lost"), open_note("Not sent", "why"), user_turn("kept"), assistant_turn("yes")]
    assert [message.content for message in spoken(chat)] == ["kept", "yes"]


def test_an_empty_answer_is_an_answer() -> None:
    assert len(spoken([user_turn("x"), assistant_turn("")])) == 2


def test_the_last_question_is_found_past_its_answer() -> None:
    assert last_question([*ASKED, user_turn("x"), pending_note("waiting")]) == (3, user_turn("x"))
    assert last_question([]) is None


def test_a_note_of_a_refused_attempt_goes_and_the_numbers_of_an_answer_stay() -> None:
    assert without_status([*ASKED, open_note("Not sent", "too long")]) == ASKED
    assert without_status([user_turn("x"), pending_note("waiting")]) == [user_turn("x")]


def test_a_stopped_answer_keeps_the_numbers_it_had() -> None:
    chat = [user_turn("x"), assistant_turn("par"), pending_note("writing · 3 tokens · 5.0 tok/s")]
    settled = settle(chat, "stopped")
    assert settled == [*chat[:-1], Note("stopped · 3 tokens · 5.0 tok/s")]


def test_settling_a_finished_chat_changes_nothing() -> None:
    assert settle(ASKED, "stopped") == ASKED
    assert settle([], "stopped") == []


def test_the_text_of_odd_content_is_empty_and_no_error() -> None:
    assert text_in(None) == ""
    assert text_in([{"type": "file", "file": {}}]) == ""
