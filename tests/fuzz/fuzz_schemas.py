"""A schema is compiled, or refused with a plain sentence, and every answer that its masks let through validates.

Numbers at every power of two and of ten, keys that are escaped, nested references, patterns, parameters of tools.
"""

from __future__ import annotations

import ctypes
import json
import random
from typing import Any

import jsonschema_rs

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.core.tool_call_output import CallableFunction, ToolCallOutput
from myserve_ui.engine.grammars.compiler import CompiledGrammar, GrammarCompiler
from myserve_ui.engine.grammars.matcher import Matcher
from myserve_ui.errors import InvalidRequestError
from myserve_ui.models.tokenizers.byte_tokenizer import EOS_TOKEN_ID, ByteTokenizer
from myserve_ui.tools.llama3 import Llama3Format

Schema = dict[str, Any] | bool

NAMES = ("a", "b", "ab", "é", "/", "a\n", '"', "\\", "u0061", "", "const")
PATTERNS = ("^a", "^a*$", "b$", "^[0-9]{2,5}$", "(ab|c)+", "^\\w+$", ".", "", "^(a|b)*a(a|b){9}$")
FORMATS = ("date", "time", "uuid", "ipv4", "email", "iri")
RUST = ("Some(", "NoExtension", "Regex ", "::", "panicked", "%llguidance", "None,")
NUM_WALKS, MAX_BYTES = 3, 160
LIKELY, CLOSING, DIGITS = frozenset(b'{}[]:,"ab01\\u'), frozenset(b'"}]'), frozenset(b"-.0123456789")

_compilers: list[GrammarCompiler] = []


def trial(rng: random.Random) -> None:
    """One schema, as a response's form or as a tool's parameters."""
    schema = _schema(rng, 3)
    if not isinstance(schema, dict):
        return
    is_tool = rng.random() < 0.2
    try:
        form = StructuredOutput.json_schema(schema)
        grammar = _compiler().compile(_as_call(form) if is_tool else form)
    except InvalidRequestError as refused:
        message = refused.message
        assert message.startswith("The schema cannot be honoured: ") and message.endswith("."), message
        assert len(message) < 400 and not any(word in message for word in RUST), message
        return
    if (validator := _validator(schema)) is None:
        return
    for _ in range(NUM_WALKS):
        if (text := _walk(grammar, rng)) is not None:
            answer = json.loads(text)
            if "Infinity" in json.dumps(answer):  # 1e999 is a number for JSON, and none for the validator
                continue
            answer = answer["parameters"] if is_tool else answer
            fault = next((error.message for error in validator.iter_errors(answer)), None)
            assert fault is None, f"{json.dumps(schema)} let {text!r} through: {fault}"


def _as_call(form: StructuredOutput) -> ToolCallOutput:
    return ToolCallOutput(Llama3Format(), (CallableFunction("f", form),), 1, is_call_required=True)


def _compiler() -> GrammarCompiler:
    if not _compilers:
        _compilers.append(GrammarCompiler(ByteTokenizer(300).token_bytes, end_token_ids=frozenset({EOS_TOKEN_ID})))
    return _compilers[0]


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator | None:
    """None for what the standard calls no schema, such as an empty prefixItems; it has a meaning nevertheless."""
    try:
        return jsonschema_rs.Draft202012Validator(schema, validate_formats=False)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return None


# -- walks


def _walk(grammar: CompiledGrammar, rng: random.Random) -> str | None:
    """Bytes drawn under the masks, if they came to an end."""
    matcher, chosen = grammar.start(), bytearray()
    while not matcher.is_finished and len(chosen) < MAX_BYTES:
        allowed = _allowed(matcher)
        if matcher.failure is not None:
            return None
        assert allowed, f"nothing may follow {bytes(chosen)!r}"
        token_id = _choose(allowed, chosen, rng)
        matcher.accept(token_id)
        if token_id == EOS_TOKEN_ID:
            break
        chosen.append(token_id)
    return chosen.decode() if matcher.is_finished else None


def _allowed(matcher: Matcher) -> list[int]:
    buffer = (ctypes.c_uint8 * matcher.mask_bytes)()
    matcher.write_mask(ctypes.addressof(buffer))
    return [token_id for token_id in range(8 * matcher.mask_bytes) if buffer[token_id // 8] >> token_id % 8 & 1]


def _choose(allowed: list[int], chosen: bytearray, rng: random.Random) -> int:
    """A byte; rather one that ends something late, one that spells an a by its number, or one that has a meaning."""
    if EOS_TOKEN_ID in allowed and rng.random() < 0.3:
        return EOS_TOKEN_ID
    following = next(
        (byte for size, byte in enumerate(b"\\u0061") if size and chosen.endswith(b"\\u0061"[:size])), None
    )
    for wanted in (CLOSING if len(chosen) > MAX_BYTES // 3 else (), () if following is None else (following,)):
        if (found := [token_id for token_id in allowed if token_id in wanted]) and rng.random() < 0.9:
            return rng.choice(found)
    likely = [token_id for token_id in allowed if token_id in LIKELY or token_id in DIGITS]
    return rng.choice(likely if likely and rng.random() < 0.9 else allowed)


# -- schemas


def _number(rng: random.Random) -> int | float:
    """Small, or beside a power of two, or a float of any exponent, or a decimal of few digits."""
    sign = rng.choice((1, -1))
    return rng.choice(
        (
            lambda: rng.randint(-9, 9),
            lambda: sign * (2 ** rng.randint(0, 80) + rng.randint(-1, 1)),
            lambda: sign * (10 ** rng.randint(0, 30) + rng.randint(-1, 1)),
            lambda: sign * rng.random() * 10.0 ** rng.randint(-320, 300),
            lambda: sign * round(rng.random() * 100, rng.randint(0, 4)),
            lambda: rng.choice((0.0, -0.0, 1.0, 0.1, 0.3, 1e308, 5e-324, -(2**63), 2**63 - 1, 2**53 + 1)),
        )
    )()


def _data(rng: random.Random, depth: int) -> Any:
    kinds = [lambda: _number(rng), lambda: rng.choice(NAMES), lambda: rng.choice((None, True, False))]
    if depth:
        kinds.append(lambda: [_data(rng, depth - 1) for _ in range(rng.randint(0, 3))])
        kinds.append(lambda: {rng.choice(NAMES): _data(rng, depth - 1) for _ in range(rng.randint(0, 2))})
    return rng.choice(kinds)()


def _numeric(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": rng.choice(("number", "integer", ["integer", "null"]))}
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if rng.random() < 0.35:
            schema[keyword] = _number(rng)
    if rng.random() < 0.25:
        # a power of two as a divisor, since validators divide floats: 0.3 is no multiple of 0.1 for them
        schema["multipleOf"] = rng.choice((1, 3, 7, 0.5, 0.25, 1.5, 2.0, 2**40, 1e-300, abs(_number(rng)) or 1))
        if schema["multipleOf"] * 64 % 1:
            schema["multipleOf"] = 0.25
    return schema


def _string(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for keyword, chance in (("minLength", 0.2), ("maxLength", 0.3)):
        if rng.random() < chance:
            schema[keyword] = rng.choice((0, 1, 2, 5, 2.0, 2**31 - 1, 2**32, abs(_number(rng))))
    if rng.random() < 0.3:
        schema["pattern"] = rng.choice(PATTERNS)
    elif rng.random() < 0.1:
        schema["format"] = rng.choice(FORMATS)
    return schema


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if rng.random() < 0.8:
        schema["properties"] = {rng.choice(NAMES): _schema(rng, depth - 1) for _ in range(rng.randint(0, 3))}
    if rng.random() < 0.4:
        schema["required"] = [rng.choice(NAMES) for _ in range(rng.randint(0, 2))]
    if rng.random() < 0.4:
        schema["additionalProperties"] = _schema(rng, depth - 1)
    if rng.random() < 0.2:
        schema["patternProperties"] = {rng.choice(PATTERNS): _schema(rng, depth - 1)}
    return schema


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": _schema(rng, depth - 1)}
    if rng.random() < 0.3:
        schema["prefixItems"] = [_schema(rng, depth - 1) for _ in range(rng.randint(0, 2))]
    for keyword in ("minItems", "maxItems"):
        if rng.random() < 0.3:
            schema[keyword] = rng.choice((0, 1, 2, 3, abs(_number(rng))))
    return schema


def _schema(rng: random.Random, depth: int) -> Schema:
    """A schema with at most `depth` schemas inside each other."""
    kinds: list[Any] = [lambda: _numeric(rng), lambda: _string(rng), lambda: {"const": _data(rng, 2)}]
    kinds += [
        lambda: {"enum": [_data(rng, 1) for _ in range(rng.randint(1, 4))]},
        lambda: rng.choice((True, False, {})),
    ]
    if depth > 0:
        kinds += [lambda: _object(rng, depth)] * 3 + [lambda: _array(rng, depth)] * 2
        kinds += [lambda: _combined(rng, depth), lambda: _referring(rng, depth)]
    return rng.choice(kinds)()  # type: ignore[no-any-return]


def _combined(rng: random.Random, depth: int) -> Schema:
    keyword = rng.choice(("anyOf", "allOf", "oneOf"))
    return {keyword: [_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]} | (
        _numeric(rng) if rng.random() < 0.2 else {}
    )


def _referring(rng: random.Random, depth: int) -> Schema:
    inner = _schema(rng, depth - 1)
    target = rng.choice(("#/anyOf/0", "#", "#/$defs/d", "#/const", "#/enum/0", "#/properties/a"))
    return {"$defs": {"d": inner}, "anyOf": [inner, {"$ref": target}]} | (_numeric(rng) if rng.random() < 0.1 else {})
