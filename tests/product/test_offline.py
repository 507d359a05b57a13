"""The offline door on the real default model: no server, the same tokens."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from myserve_ui import LLM, SamplingParams
from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.errors import ContextLengthExceededError, InvalidRequestError, SettingsError
from myserve_ui.model_settings import catalog_of, load_options
from myserve_ui.models.baseline import generate_plainly
from myserve_ui.models.loading.loader import load_model
from myserve_ui.settings import Settings, read_settings

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]
GREEDY = SamplingParams(temperature=0.0, max_tokens=12)
TEXTS = ["The capital of France is", "Once upon a time", "def add(a, b):"]


@pytest.fixture(scope="module")
def llm():
    return LLM(cache=read_settings().cache, debug=True)


def test_texts_and_ids_are_gone_on_with_as_generate_does(llm):
    settings = Settings(cache=read_settings().cache, kernels="plain")
    plain = load_model(catalog_of(settings).default, options=load_options(settings))
    prompts = [llm.loaded.tokenizer.encode(text) for text in TEXTS]
    expected = [
        generate_plainly(plain.module, prompt, max_tokens=12, end_token_ids=plain.eos_token_ids) for prompt in prompts
    ]
    assert [answer.token_ids for answer in llm.generate(TEXTS, GREEDY)] == expected
    assert [answer.token_ids for answer in llm.generate(prompts, GREEDY)] == expected
    (one,) = llm.generate(TEXTS[0], GREEDY)
    assert (one.token_ids, one.text) == (expected[0], llm.loaded.tokenizer.decode(expected[0]))
    assert (one.usage.prompt_tokens, one.finish_reason) == (len(prompts[0]), "length")


def test_a_chat_is_answered_and_a_form_is_kept_to(llm):
    answer = llm.chat([{"role": "user", "content": "What is the capital of France?"}], GREEDY)
    assert "Paris" in answer.text
    form = StructuredOutput('{"enum": ["yes", "no"]}')
    chosen = llm.chat([{"role": "user", "content": "Is water wet?"}], SamplingParams(structured_output=form))
    assert chosen.text in ('"yes"', '"no"')


def test_what_cannot_be_answered_is_refused_before_anything_runs(llm):
    for wrong, error in (
        ("", InvalidRequestError),
        ([10**9], InvalidRequestError),
        ([5] * 9000, ContextLengthExceededError),
    ):
        with pytest.raises(error):
            llm.generate([TEXTS[0], wrong], GREEDY)
    assert not llm.engine.has_work
    with pytest.raises(SettingsError, match="precison"):
        LLM(precison="full")


def test_the_script_of_the_readme_runs_as_it_stands(capsys, tmp_path, monkeypatch):
    script = tmp_path / "offline.py"
    script.write_text((Path(__file__).parents[2] / "assets" / "examples" / "offline.py.txt").read_text())
    monkeypatch.setattr(sys, "argv", [str(script)])
    cache = read_settings().cache
    monkeypatch.setattr("myserve_ui.settings.fields.own_folder", lambda *_: cache)
    runpy.run_path(str(script), run_name="__main__")
    assert "Paris" in capsys.readouterr().out
