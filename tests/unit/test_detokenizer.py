"""Text comes out whole: no half characters, nothing lost, the same however it is cut."""

import random

import pytest

from myserve_ui.engine.detokenizer import Detokenizer
from tests.support.fakes import decode_bytes

TEXTS = ["plain", "🙂🙂🙂", "日本 日本", "a\u2028b\u0085c", "é́́́ combined", "👩‍👩‍👧‍👦 family", " leading and trailing "]


def pieces(token_ids, prompt=()):
    detokenizer = Detokenizer(decode_bytes, prompt)
    return [detokenizer.add(token_id) for token_id in token_ids] + [detokenizer.flush()]


@pytest.mark.parametrize("text", TEXTS)
def test_the_pieces_joined_are_the_text(text):
    assert "".join(pieces(text.encode())) == text


@pytest.mark.parametrize("text", TEXTS)
def test_no_piece_has_a_replacement_character(text):
    assert not any("\ufffd" in piece for piece in pieces(text.encode()))


def test_an_emoji_comes_with_its_last_byte():
    assert pieces("🙂".encode()) == ["", "", "", "🙂", ""]


def test_a_character_cut_by_the_end_is_flushed_broken():
    assert pieces("ok🙂".encode()[:-1]) == ["o", "k", "", "", "", "\ufffd"]


def test_endless_broken_bytes_do_not_hold_text_back_for_ever():
    emitted = pieces([0x80] * 100)
    assert any(emitted[:20])
    assert set("".join(emitted)) == {"\ufffd"}


def test_a_piece_that_ends_in_a_true_replacement_character_is_released():
    text = "x\ufffdy"
    assert "".join(pieces(text.encode())) == text


def test_a_leading_space_after_the_prompt_is_kept():
    def decode_stripping(ids):  # as sentencepiece tokenizers do at the start of a text
        return decode_bytes(ids).removeprefix(" ")

    detokenizer = Detokenizer(decode_stripping, list(b"One, two,"))
    assert next(detokenizer.add(byte) for byte in b" three") == " "


def test_the_window_that_is_decoded_stays_short():
    longest = 0

    def decode(ids):
        nonlocal longest
        longest = max(longest, len(ids))
        return decode_bytes(ids)

    detokenizer = Detokenizer(decode, [65] * 1000)
    for byte in ("word 🙂 " * 200).encode():
        detokenizer.add(byte)
    assert longest <= 16


def test_random_bytes_give_what_decoding_in_one_go_gives():
    generator = random.Random(3)
    for _ in range(200):
        text = "".join(chr(generator.choice([65, 233, 0x65E5, 0x1F642])) for _ in range(20))
        assert "".join(pieces(text.encode())) == text
