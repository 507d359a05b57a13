"""Is this installation right? The engine's greedy answers against transformers' own `generate`, on every model served.

`myserve-ui selftest` prints a line for each question and ends with exit code 0 if all are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from myserve_ui.core.requests import Message
from myserve_ui.core.sampling_params import SamplingDefaults, SamplingParams
from myserve_ui.engine.engine import Engine
from myserve_ui.engine.offline import answer_all
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.model_settings import catalog_of, load_options
from myserve_ui.models.baseline import generate_plainly
from myserve_ui.models.catalog import CatalogEntry
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.loader import load_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from myserve_ui.settings import Settings, read_settings

QUESTIONS = ("What is the capital of France?", "Name three fruits.", "Write a haiku about the sea.", "Count to ten.")
MAX_TOKENS = 24


def main(arguments: list[str]) -> int:
    """Run the self-test with the app's own settings; 0 if every answer is equal, 1 if not.

    Raises SettingsError and ModelLoadError.
    """
    settings = read_settings(arguments, command="selftest")
    firsts: dict[str, CatalogEntry] = {}
    for entry in catalog_of(settings):
        firsts.setdefault(entry.source.name, entry)
    equal = [_is_right(entry, settings) for entry in firsts.values()]
    return 0 if all(equal) else 1


def _is_right(entry: CatalogEntry, settings: Settings) -> bool:
    """Whether all answers of `entry` are equal; prints a line for each."""
    expected = _answers_of_generate(_load(entry, settings, kernels="plain"))
    actual = _answers_of_engine(_load(entry, settings, kernels=settings.kernels))
    equal = [actual[question] == expected[question] for question in QUESTIONS]
    named = f"{entry.key}: " if len(settings.served) > 1 else ""
    for question, same in zip(QUESTIONS, equal, strict=True):
        print(f"{named}{'equal' if same else 'DIFFERENT'}: {question}")
    return all(equal)


def _load(entry: CatalogEntry, settings: Settings, *, kernels: str) -> LoadedModel:
    options = replace(load_options(settings), kernels=kernels)
    return load_model(entry, options=options, on_progress=_print_progress)


def render_question(loaded: LoadedModel, question: str) -> list[int]:
    """Prompt ids of one of the questions."""
    if loaded.tokenizer.has_chat_template:
        return loaded.tokenizer.render_chat([Message("user", question)])
    return loaded.tokenizer.encode(question)


def _answers_of_generate(loaded: LoadedModel) -> dict[str, list[int]]:
    generate: Callable[..., list[int]] = generate_plainly
    return {
        question: generate(
            loaded.module, render_question(loaded, question), max_tokens=MAX_TOKENS, end_token_ids=loaded.eos_token_ids
        )
        for question in QUESTIONS
    }


def _answers_of_engine(loaded: LoadedModel) -> dict[str, list[int]]:
    return answer_questions(build_engine(loaded, EngineLimits(max_num_seqs=len(QUESTIONS), debug=True)), loaded)


def answer_questions(engine: Engine, loaded: LoadedModel) -> dict[str, list[int]]:
    """Greedy ids for all questions at once, as a busy server would have them."""
    params = SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS).resolve(SamplingDefaults())
    requests = [EngineRequest(name, tuple(render_question(loaded, name)), params, arrival=0.0) for name in QUESTIONS]
    answers = answer_all(engine, requests)
    return {question: answer.token_ids for question, answer in zip(QUESTIONS, answers, strict=True)}


def _print_progress(stage: str, fraction: float | None) -> None:
    print(stage if fraction is None else f"{stage}: {fraction:.0%}")
