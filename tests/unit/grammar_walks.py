"""Ways through a grammar: a text spelt out under its masks, and random answers."""

import random
from collections.abc import Sequence

import torch

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.engine.grammars.compiler import CompiledGrammar, GrammarCompiler
from myserve_ui.engine.grammars.masks import fill_masks, mask_to_bias
from myserve_ui.engine.grammars.matcher import Matcher
from myserve_ui.models.tokenizers.byte_tokenizer import EOS_TOKEN_ID, ByteTokenizer

COMMON = frozenset(b'{}[]:,"ab 01')
"""Bytes that a random walk prefers, or it would spend its life inside one string."""

CLOSING = frozenset(b'"}]')


def byte_compiler(**options: int) -> GrammarCompiler:
    return GrammarCompiler(ByteTokenizer(300).token_bytes, end_token_ids=frozenset({EOS_TOKEN_ID}), **options)


def compile_schema(schema: object) -> CompiledGrammar:
    return byte_compiler().compile(StructuredOutput.json_schema(schema))


def allowed_ids(matcher: Matcher) -> list[int]:
    return (mask_to_bias(fill_masks([matcher]), torch.float32)[0] == 0).nonzero()[:, 0].tolist()


def takes(grammar: CompiledGrammar, token_ids: Sequence[int]) -> bool:
    """Whether every token is allowed in its turn, and an end after them."""
    matcher = grammar.start()
    for token_id in token_ids:
        if token_id not in allowed_ids(matcher):
            return False
        matcher.accept(token_id)
        assert matcher.failure is None
    return EOS_TOKEN_ID in allowed_ids(matcher)


def random_answer(grammar: CompiledGrammar, seed: int, *, max_tokens: int = 2000) -> str:
    """Bytes drawn under the masks until the grammar is finished."""
    matcher, chosen, draw = grammar.start(), bytearray(), random.Random(seed)
    while not matcher.is_finished and len(chosen) < max_tokens:
        ids = allowed_ids(matcher)
        assert ids != [EOS_TOKEN_ID], "a complete answer was not called finished"
        closing = [token_id for token_id in ids if token_id in CLOSING] if len(chosen) > max_tokens // 4 else []
        likely = closing or [token_id for token_id in ids if token_id in COMMON and draw.random() < 0.8]
        token_id = draw.choice(likely or ids)
        matcher.accept(token_id)
        if token_id == EOS_TOKEN_ID:
            break
        chosen.append(token_id)
    assert matcher.failure is None
    return chosen.decode("utf-8")
