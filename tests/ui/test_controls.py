from collections.abc import Iterator

import gradio as gr
import pytest

from myserve_ui.core.sampling_params import SamplingDefaults
from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.shared.controls import PRESETS, Controls, draw_controls, read_params

VALUES = {
    "temperature": 0.7,
    "top_p": 0.95,
    "top_k": 0,
    "min_p": 0.05,
    "max_tokens": 512,
    "seed": "",
    "stop": "",
}


@pytest.fixture
def controls() -> Iterator[Controls]:
    with gr.Blocks():
        yield draw_controls([("full precision", "tiny")], "tiny", max_tokens=256)


def test_the_sidebar_becomes_sampling_params() -> None:
    params = read_params({**VALUES, "stop": "a\u2028b\x0c"})
    assert params.stop == ("a\u2028b\x0c",)
    params = read_params({**VALUES, "seed": " 42 ", "stop": "END\n\\n\\n\n"})
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.7, 0.95, 0, 0.05)
    assert (params.max_tokens, params.seed, params.stop) == (512, 42, ("END", "\n\n"))


def test_an_empty_seed_is_drawn_anew_for_each_answer() -> None:
    assert len({read_params(VALUES).seed for _ in range(20)}) > 1


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("seed", "abc", "seed must be a whole number"),
        ("seed", str(2**63), "seed must be in"),
        ("temperature", None, "temperature is empty"),
        ("temperature", 2.5, r"temperature must be a number in \[0, 2\]"),
        ("top_k", -2, "top_k must be in"),
        ("stop", "a\nb\nc\nd\ne", "at most 4"),
    ],
)
def test_a_value_out_of_range_is_refused_with_a_sentence(name: str, value: object, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        read_params({**VALUES, name: value})


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_in_range(preset: str) -> None:
    assert read_params({**VALUES, **PRESETS[preset]}).resolve(SamplingDefaults()).is_greedy == (preset == "Greedy")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "hot"),
        ("temperature", 7),
        ("top_p", [1]),
        ("top_k", 10**30),
        ("top_k", True),
        ("max_tokens", 257),
        ("preset", "Wild"),
        ("model", "gone"),
        ("stop", 5),
        ("seed", None),
        ("colour", "red"),
    ],
)
def test_a_saved_setting_that_cannot_be_shown_is_left_out_and_the_others_come_back(
    controls: Controls, name: str, value: object
) -> None:
    restored = controls.restore({"min_p": 0.1, name: value})
    assert restored == {controls.min_p: 0.1}


def test_half_of_a_surrogate_pair_is_read_as_the_sign_that_the_page_shows_for_it(controls: Controls) -> None:
    inputs = dict.fromkeys(controls.named().values(), "a\ud800b")
    assert controls.values(inputs)["system_prompt"] == "a\ufffdb"
