"""Tokens beside their text: characters over several tokens, text that lags, text that is cut, spaces that go."""

from __future__ import annotations

import pytest

from myserve_ui.api.logprobs import AlignedToken, TokenAligner

WORDS = [b"Hel", b"lo", b" world", b"", *(bytes([byte]) for byte in "🙂".encode()), b"!\xf0", b"\x9f\x99\x82."]
HEL, LO, WORLD, END, SMILE, OPENS, CLOSES = 0, 1, 2, 3, (4, 5, 6, 7), 8, 9


def feed(aligner: TokenAligner, *news: tuple[str, tuple[int, ...]]) -> list[list[AlignedToken]]:
    return [aligner.add(text, [(token_id, None) for token_id in token_ids]) for text, token_ids in news]


def shown(tokens: list[AlignedToken]) -> list[tuple[int, bytes, int]]:
    return [(token.token_id, token.data, token.offset) for token in tokens]


def test_tokens_come_with_their_text() -> None:
    first, second = feed(TokenAligner(WORDS), ("Hello", (HEL, LO)), (" world", (WORLD, END)))
    assert shown(first) == [(HEL, b"Hel", 0), (LO, b"lo", 3)]
    assert shown(second) == [(WORLD, b" world", 5), (END, b"", 11)]


def test_tokens_wait_for_text_that_is_held_back() -> None:
    aligner = TokenAligner(WORDS)
    held, released = feed(aligner, ("", (HEL, LO)), ("Hello", ()))
    assert (held, shown(released)) == ([], [(HEL, b"Hel", 0), (LO, b"lo", 3)])
    assert aligner.finish(is_cut=False) == []


def test_the_tokens_of_one_character_come_together() -> None:
    *early, last = feed(TokenAligner(WORDS), *(("", (token_id,)) for token_id in SMILE[:3]), ("🙂", SMILE[3:]))
    assert early == [[], [], []]
    assert [token.token_id for token in last] == list(SMILE)
    assert b"".join(token.data for token in last).decode() == "🙂"


def test_a_token_that_begins_a_character_waits_for_its_end() -> None:
    first, second = feed(TokenAligner(WORDS), ("!", (OPENS,)), ("🙂.", (CLOSES,)))
    assert first == []
    assert shown(second) == [(OPENS, b"!\xf0", 0), (CLOSES, b"\x9f\x99\x82.", 1)]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Hello w", [(WORLD, b" w", 5)]),
        ("Hello", []),
        ("He", [(HEL, b"He", 0)]),
        ("", []),
    ],
)
def test_a_stop_string_cuts_the_tokens_where_the_text_ends(text: str, left: list[tuple[int, bytes, int]]) -> None:
    aligner = TokenAligner(WORDS)
    (ready,) = feed(aligner, (text, (HEL, LO, WORLD, END)))
    rest = aligner.finish(is_cut=True)
    assert shown(rest) == left
    assert b"".join(token.data for token in ready + rest).decode() == text


def test_a_leading_space_that_the_tokenizer_drops_is_dropped_from_the_token() -> None:
    (tokens,) = feed(TokenAligner(WORDS), ("world", (END, WORLD)))
    assert shown(tokens) == [(END, b"", 0), (WORLD, b"world", 0)]
    (tokens,) = feed(TokenAligner(WORDS), (" world", (WORLD,)))
    assert shown(tokens) == [(WORLD, b" world", 0)]


def test_half_a_character_at_the_end_keeps_its_bytes() -> None:
    aligner = TokenAligner(WORDS)
    feed(aligner, ("Hel", (HEL, *SMILE[:2])))
    assert feed(aligner, ("\ufffd", ()))[0] + aligner.finish(is_cut=False) == [
        AlignedToken(token_id, WORDS[token_id], 3, None) for token_id in SMILE[:2]
    ]


def test_offsets_begin_after_an_echoed_prompt() -> None:
    (tokens,) = feed(TokenAligner(WORDS, offset=10), ("Hel", (HEL,)))
    assert shown(tokens) == [(HEL, b"Hel", 10)]
