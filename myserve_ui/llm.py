"""The offline door: a model in the process that calls, with no server and no page.

from myserve_ui import LLM, SamplingParams

llm = LLM(precision="int4")
for answer in llm.generate(["The capital of France is", "Once upon a time"], SamplingParams(max_tokens=20)):
    print(answer.text)
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from myserve_ui.core.requests import Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.grammars.compiler import GrammarCompiler
from myserve_ui.engine.offline import Answer, answer_all
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.errors import SettingsError
from myserve_ui.model_settings import catalog_of, engine_limits, load_options
from myserve_ui.models.loading.loader import load_model
from myserve_ui.serving.engine_builder import build_engine
from myserve_ui.serving.request_checks import check_encoded_ids, check_prompt, check_token_ids, fit_to_context
from myserve_ui.settings import Settings
from myserve_ui.settings.environment import prepare_environment

DEFAULT_TOKENS = 128
"""Of an answer that nobody asked a length for, as far as the context has room."""
Prompt = str | Sequence[int]


class LLM:
    """One model and its engine. Not for several threads at once: one call answers all it is given."""

    def __init__(self, model: str | None = None, **settings: Any) -> None:
        """Load `model`, the default one if None; it takes seconds.

        `settings` are those of the app that concern a model, by name: precision, dtype, device, max_model_len,
        max_num_seqs, kernels and so on. The environment is not read. Raises SettingsError, or ModelLoadError if the
        model cannot be served.
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
        params = params or SamplingParams()
        return answer_all(self.engine, [self._request(prompt, params) for prompt in _listed(prompts)])

    def chat(self, messages: Sequence[Message | Mapping[str, Any]], params: SamplingParams | None = None) -> Answer:
        """Answer a chat, messages with role and content. Raises InvalidRequestError."""
        turns = [turn if isinstance(turn, Message) else Message(**turn) for turn in messages]
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
    """One prompt, a text or ids, as a list of one."""
    if isinstance(prompts, str) or (prompts and all(isinstance(item, int) for item in prompts)):
        return [cast(Prompt, prompts)]
    return list(cast(Sequence[Prompt], prompts))


def _read(settings: Mapping[str, Any]) -> Settings:
    try:
        return Settings(**settings)
    except ValidationError as error:
        names = sorted({str(detail["loc"][0]) for detail in error.errors(include_input=False)})
        raise SettingsError(f"These are no settings of a model, or out of range: {', '.join(names)}.") from None
