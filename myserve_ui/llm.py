"""The offline door: a model in the process that calls, with no server and no page.

from myserve_ui import LLM, SamplingParams

llm = LLM(precision="int4")
for answer in llm.generate(["The capital of France is", "Once upon a time"], SamplingParams(max_tokens=20)):
    print(answer.text)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from pydantic import ValidationError

from myserve_ui.core.requests import Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.grammars.compiler import GrammarCompiler
from myserve_ui.engine.offline import Answer, answer_all
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.errors import InvalidRequestError, SettingsError
from myserve_ui.model_settings import catalog_of, engine_limits, load_options
from myserve_ui.models.loading.loader import load_model
from myserve_ui.serving.engine_builder import build_engine
from myserve_ui.serving.request_checks import check_encoded_ids, check_prompt, check_token_ids, fit_to_context
from myserve_ui.settings import Settings
from myserve_ui.settings.environment import prepare_environment

MODEL_SETTINGS = (
    *("model", "models", "precision", "dtype", "device", "cache", "hf_token", "trust_remote_code", "chat_template"),
    *("max_model_len", "max_num_seqs", "max_num_batched_tokens", "max_waiting", "kv_cache_gib", "kernels", "debug"),
)
"""What load_options, engine_limits and catalog_of read; the others are of the server."""
ROLES = ("system", "user", "assistant", "tool")
DEFAULT_TOKENS = 128
"""Of an answer that nobody asked a length for, as far as the context has room."""
Prompt = str | Sequence[int]


class LLM:
    """One model and its engine. Not for several threads at once: one call answers all it is given."""

    def __init__(self, model: str | None = None, **settings: Any) -> None:
        """Load `model`, the default one if None; it takes seconds.

        `settings` are those of MODEL_SETTINGS, as the app has them. The environment is not read. Raises
        SettingsError, or ModelLoadError if the model cannot be served.
        """
        prepare_environment()
        chosen = _read(settings if model is None else {**settings, "model": (model,)})
        if (count := len(chosen.served)) > 1:
            raise SettingsError(f"An LLM is one model, not {count}: make one for each.")
        entry = catalog_of(chosen).default
        self.loaded = load_model(entry, options=load_options(chosen))
        self.engine = build_engine(self.loaded, engine_limits(chosen).for_model(entry.options))
        self._grammars = GrammarCompiler(self.loaded.tokenizer.token_bytes, end_token_ids=self.loaded.eos_token_ids)
        self._numbers = itertools.count()

    def generate(self, prompts: Prompt | Sequence[Prompt], params: SamplingParams | None = None) -> list[Answer]:
        """Go on with each of `prompts`, texts or ids. Raises InvalidRequestError before anything is computed."""
        params = _checked_params(params)
        return answer_all(self.engine, [self._request(prompt, params) for prompt in _listed(prompts)])

    def chat(self, messages: Sequence[Message | Mapping[str, Any]], params: SamplingParams | None = None) -> Answer:
        """Answer a chat, messages with role and content. Raises InvalidRequestError."""
        turns = [_read_turn(index, turn) for index, turn in enumerate(_items(messages, "messages", "messages"))]
        if not turns:
            raise InvalidRequestError("messages is empty; send one at least.", param="messages")
        return self.generate(self.loaded.tokenizer.render_chat(turns), params)[0]

    def _request(self, prompt: Prompt, params: SamplingParams) -> EngineRequest:
        loaded, length = self.loaded, self.engine.config.max_model_len
        if isinstance(prompt, str):
            token_ids = loaded.tokenizer.encode(prompt)
            check_encoded_ids(token_ids, loaded, "prompt")
        else:
            token_ids = list(prompt)
            check_token_ids(token_ids, loaded.num_input_ids, "prompt")
        check_prompt(len(token_ids), length, "prompt")
        fitted = fit_to_context(params, len(token_ids), length, default=DEFAULT_TOKENS)
        grammar = None if params.structured_output is None else self._grammars.compile(params.structured_output)
        name, now = f"offline-{next(self._numbers)}", self.engine.clock()
        return EngineRequest(name, tuple(token_ids), fitted.resolve(loaded.defaults), arrival=now, grammar=grammar)


def _listed(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One prompt, a text or ids, as a list of one. Raises InvalidRequestError for anything else."""
    if (prompts and _is_prompt(prompts)) or isinstance(prompts, str):
        return [cast(Prompt, prompts)]
    listed = _items(prompts, "prompts", "texts or lists of token ids")
    for index, prompt in enumerate(listed):
        if not _is_prompt(prompt):
            raise InvalidRequestError(
                f"prompts[{index}] must be a text or a list of token ids, got {_kind(prompt)}.", param="prompts"
            )
    return listed


def _items(value: Any, name: str, what: str) -> list[Any]:
    """Those of a list, or of anything that is gone through once. Raises InvalidRequestError."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise InvalidRequestError(f"{name} must be a list of {what}, got {_kind(value)}.", param=name)
    return list(value)


def _is_prompt(value: object) -> bool:
    if isinstance(value, str):
        return True
    is_list = isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview)
    return is_list and all(isinstance(item, int) and not isinstance(item, bool) for item in cast(Sequence[Any], value))


def _checked_params(params: SamplingParams | None) -> SamplingParams:
    if params is None:
        return SamplingParams()
    if not isinstance(params, SamplingParams):
        raise InvalidRequestError(f"params must be SamplingParams(...), got {_kind(params)}.", param="params")
    return params


def _read_turn(index: int, turn: Message | Mapping[str, Any]) -> Message:
    """A message, as a Message or a mapping of its fields. Raises InvalidRequestError."""
    where = f"messages[{index}]"
    if isinstance(turn, Mapping):
        known = [each.name for each in fields(Message)]
        if unknown := [name for name in turn if name not in known]:
            raise InvalidRequestError(
                f"{where} has {str(unknown[0])[:40]!r}; a message has {', '.join(known)}.", param=where
            )
        if missing := [name for name in ("role", "content") if name not in turn]:
            raise InvalidRequestError(f"{where} has no {missing[0]}.", param=where)
        turn = Message(**turn)
    if not isinstance(turn, Message):
        raise InvalidRequestError(f"{where} must have role and content, got {_kind(turn)}.", param=where)
    if turn.role not in ROLES:
        raise InvalidRequestError(f"{where}.role must be one of {', '.join(ROLES)}.", param=where)
    if not isinstance(turn.content, str):
        raise InvalidRequestError(f"{where}.content must be a text, got {_kind(turn.content)}.", param=where)
    return turn


def _kind(value: object) -> str:
    """What somebody gave, in the words of Python."""
    return "None" if value is None else type(value).__name__


def _read(settings: Mapping[str, Any]) -> Settings:
    """Raises SettingsError for what is no setting of a model, or out of range."""
    try:
        if unknown := sorted(set(settings).difference(MODEL_SETTINGS)):
            raise SettingsError(f"These are no settings of a model: {', '.join(unknown)}.")
        return Settings(**settings)
    except ValidationError as error:
        names = sorted({str(detail["loc"][0]) for detail in error.errors(include_input=False)})
        raise SettingsError(f"These settings are out of range: {', '.join(names)}.") from None
