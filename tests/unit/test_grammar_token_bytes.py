"""Token bytes are what the tokenizer's own decoder writes."""

import pytest
from tokenizers import AddedToken, Tokenizer as RustTokenizer, decoders, models

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.engine.grammars.compiler import GrammarCompiler
from myserve_ui.errors import InvalidRequestError
from myserve_ui.models.tokenizers.byte_tokenizer import ByteTokenizer
from myserve_ui.models.tokenizers.token_bytes import read_token_bytes
from myserve_ui.models.tokenizers.tokenizer import HuggingFaceTokenizer
from tests.support.tiny_checkpoint import build_tiny_tokenizer
from tests.unit.grammar_walks import allowed_ids

TEXT = '{"the": "Hello wörld 🦉", "n": [1, 2]}\n\t'


@pytest.fixture
def tiny_tokenizer() -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(build_tiny_tokenizer(), vocab_size=320)


def sentencepiece() -> RustTokenizer:
    pieces = [
        ("<unk>", 0.0),
        *((f"<0x{byte:02X}>", -9.0) for byte in range(256)),
        ("▁a", -1.0),
        ("▁", -2.0),
        ("b", -3.0),
    ]
    tokenizer = RustTokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([AddedToken("<unk>", special=True), AddedToken("</s>", special=True)])
    tokenizer.add_tokens([AddedToken("<think>", special=False)])
    return tokenizer


def byte_level() -> RustTokenizer:
    tokenizer = RustTokenizer(models.BPE({"a": 0, "Ġa": 1, "Ċ": 2, "日": 3, "ÿ": 4}, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    return tokenizer


@pytest.mark.parametrize("text", [TEXT, "".join(map(chr, range(32, 600)))])
def test_bytes_of_the_ids_of_a_text_are_the_text(tiny_tokenizer, text):
    table = tiny_tokenizer.token_bytes()
    assert b"".join(table[token_id] for token_id in tiny_tokenizer.encode(text)) == text.encode()


def test_special_tokens_and_empty_rows_have_no_bytes(tiny_tokenizer):
    table = tiny_tokenizer.token_bytes()
    assert len(table) == 320
    assert [token_id for token_id, word in enumerate(table) if word and not tiny_tokenizer.decode([token_id])] == []
    assert table[319] == b""


def test_byte_ids_are_their_bytes():
    assert ByteTokenizer(300).token_bytes()[255:259] == (b"\xff", b"", b"", b"")


def test_sentencepiece_words_are_read():
    table = read_token_bytes(sentencepiece(), 270)
    assert table[:3] == (b"", b"\x00", b"\x01")
    assert table[257:260] == (b" a", b" ", b"b")
    assert table[260:264] == (b"", b"<think>", b"", b"")


@pytest.mark.parametrize(("tokenizer", "word"), [(sentencepiece(), "b"), (byte_level(), "a")])
def test_added_words_are_read_as_the_decoder_reads_all_others(tokenizer, word):
    """Families keep runs of spaces among the added tokens (Gemma), and words of several lines."""
    before = tokenizer.token_to_id(word)  # the decoder strips a space at the very beginning
    tokenizer.add_tokens([AddedToken(text, special=False) for text in ("▁▁", "▁x", "Ġb", "日本", "c d", "<e>")])
    table = read_token_bytes(tokenizer, 280)
    for token_id in tokenizer.get_added_tokens_decoder():
        assert word + table[token_id].decode() == tokenizer.decode([before, token_id])


def test_words_without_bytes_of_their_own_are_refused():
    tokenizer = RustTokenizer(models.WordPiece({"[UNK]": 0, "##a": 1}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(InvalidRequestError, match="does not say which bytes"):
        read_token_bytes(tokenizer, 2)


def test_a_grammar_allows_words_of_several_letters_and_letters_alone(tiny_tokenizer):
    (end,) = tiny_tokenizer.encode("x")  # any id will do as an end that the text does not need
    compiler = GrammarCompiler(tiny_tokenizer.token_bytes, end_token_ids=frozenset({end}))
    matcher = compiler.compile(StructuredOutput.json_schema({"const": "the"})).start()
    matcher.accept(tiny_tokenizer.encode('"')[0])
    assert sorted(tiny_tokenizer.decode([token_id]) for token_id in allowed_ids(matcher)) == ["t", "th", "the"]
