"""Every kind of tokenizer: the pieces joined are what decoding the whole gives, special tokens or not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from myserve_ui.engine.detokenizer import Detokenizer

Decode = Callable[[Sequence[int]], str]
SPECIAL = ("<s>", "</s>", "<pad>")
WORDS = ("▁Hello", "▁world", "▁", "▁▁▁", "ing", ",", ".", "▁日本", "語", "a", "'s")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def llama_2() -> Tokenizer:
    """SentencePiece BPE as it was converted: the first space of the whole text is stripped."""
    vocabulary = {word: index for index, word in enumerate((*SPECIAL, *BYTES, *WORDS))}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<s>", byte_fallback=True, fuse_unk=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def mistral() -> Tokenizer:
    """The same with a Metaspace, which drops the spaces of the first token."""
    tokenizer = llama_2()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", "first"), decoders.Fuse()])
    return tokenizer


def t5() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram([(word, -1.0) for word in (*SPECIAL, *WORDS)], 0, False))
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def unigram_with_bytes() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram([(word, -1.0) for word in (*SPECIAL, *BYTES, *WORDS)], 0, True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return tokenizer


def wordpiece() -> Tokenizer:
    words = (*SPECIAL, "hello", "world", "##ing", ".", ",", "'", "##s", "日", "n't")
    tokenizer = Tokenizer(models.WordPiece({word: index for index, word in enumerate(words)}, unk_token="<s>"))
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def byte_level() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: index for index, word in enumerate((*SPECIAL, *alphabet, "Ġworld", "Hello"))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


KINDS = (llama_2, mistral, t5, unigram_with_bytes, wordpiece, byte_level)


def decoder_of(build: Callable[[], Tokenizer]) -> tuple[Tokenizer, Decode]:
    tokenizer = build()
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    return tokenizer, lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=True))


def joined(decode: Decode, answer: Sequence[int], prompt: Sequence[int] = ()) -> str:
    detokenizer = Detokenizer(decode, prompt)
    return "".join([*(detokenizer.add(token_id) for token_id in answer), detokenizer.flush()])


def ids_of(tokenizer: Tokenizer, words: str) -> list[int]:
    return [tokenizer.token_to_id(word) for word in words.split()]


CASES = [
    (llama_2, "", "▁Hello </s> ▁world", "Hello world"),
    (mistral, "", "▁Hello </s> ▁world", "Hello world"),
    (t5, "", "▁Hello </s> ▁world", "Hello world"),
    (wordpiece, "", "hello </s> world ##ing .", "hello worlding."),
    (t5, "", "</s> ▁Hello <s> <s> ▁world", "Hello world"),
    (t5, "", "▁ ▁world", " world"),
    (llama_2, "▁Hello " + "</s> " * 9, "▁world", " world"),
    (wordpiece, "hello </s> </s> </s> </s> </s> </s>", "world", " world"),
    (llama_2, "▁Hello", "</s> <0xE6> <0x97> <0xA5> </s> ▁world", "日 world"),
    (byte_level, "", "Hello </s> Ġworld", "Hello world"),
]


@pytest.mark.parametrize(("build", "prompt", "answer", "text"), CASES)
def test_a_special_token_takes_no_space_from_the_next_word(
    build: Callable[[], Tokenizer], prompt: str, answer: str, text: str
) -> None:
    tokenizer, decode = decoder_of(build)
    assert joined(decode, ids_of(tokenizer, answer), ids_of(tokenizer, prompt)) == text


@pytest.mark.parametrize("build", KINDS)
def test_the_pieces_joined_are_the_whole_decoded(build: Callable[[], Tokenizer]) -> None:
    tokenizer, decode = decoder_of(build)
    generator = random.Random(build.__name__)
    for _ in range(300):
        prompt = list(words_of(tokenizer, generator, generator.randrange(12)))
        answer = list(words_of(tokenizer, generator, generator.randrange(1, 40)))
        assert joined(decode, answer) == decode(answer)
        whole, before = decode([*prompt, *answer]), decode(prompt)
        assert whole == before + joined(decode, answer, prompt), (prompt, answer)


def words_of(tokenizer: Tokenizer, generator: random.Random, count: int) -> Iterator[int]:
    """Ids of whole characters, special ones often among them."""
    pieces = [token_id for word, token_id in tokenizer.get_vocab().items() if not is_partial(word)]
    special = [tokenizer.token_to_id(word) for word in SPECIAL]
    for _ in range(count):
        if generator.random() < 0.4:
            yield generator.choice(special)
        elif generator.random() < 0.3 and (character := bytes_of(tokenizer, generator.choice("é日🙂"))):
            yield from character
        else:
            yield generator.choice(pieces)


def is_partial(word: str) -> bool:
    return word in BYTES or word in SPECIAL or (len(word) == 1 and not word.isascii())


def bytes_of(tokenizer: Tokenizer, character: str) -> list[int]:
    """A character by its bytes, where the vocabulary has them."""
    found = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in character.encode()]
    return found if None not in found else []


@pytest.mark.parametrize("build", KINDS)
def test_the_window_stays_short_however_many_special_tokens_come(build: Callable[[], Tokenizer]) -> None:
    tokenizer, decode = decoder_of(build)
    longest = 0

    def measure(ids: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return decode(ids)

    special = tokenizer.token_to_id("</s>")
    joined(measure, [special] * 500 + [5] + [special] * 500, [special] * 500)
    assert longest <= 17
