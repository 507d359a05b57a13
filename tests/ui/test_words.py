from dataclasses import replace

import pytest

from myserve_ui.core.model_info import LoadProgress, LoadState
from myserve_ui.core.number_words import seconds
from myserve_ui.core.outputs import FinishReason, RequestOutput, RequestState, RequestTimings, Usage
from myserve_ui.ui.chat.view import context_meter, header_badges
from myserve_ui.ui.shared.words import (
    NOT_READY,
    answer_details,
    answer_line,
    load_line,
    model_choices,
    ordinal,
    progress_line,
)
from tests.ui.scripted_service import FULL, INT8, NF4

TIMINGS = RequestTimings(10.0, scheduled=10.002, first_token=10.05, last_token=12.65, num_output_tokens=49)
DONE = RequestOutput(
    "req-1", RequestState.FINISHED, Usage(35, 49, cached_tokens=12), TIMINGS, finish_reason=FinishReason.STOP
)
WAITING = RequestOutput("req-1", RequestState.WAITING, Usage(512, 0), RequestTimings(10.0))


@pytest.mark.parametrize(("value", "words"), [(None, "–"), (0.0484, "48 ms"), (0.9996, "1.0 s"), (2.64, "2.6 s")])
def test_durations_have_a_unit(value: float | None, words: str) -> None:
    assert seconds(value) == words


@pytest.mark.parametrize(
    ("number", "words"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_ordinals_are_english(number: int, words: str) -> None:
    assert ordinal(number) == words


def test_the_line_below_an_answer_has_all_its_numbers() -> None:
    assert answer_line(DONE) == (
        "49 tokens · 18.5 tok/s · first token 50 ms (queue 2 ms + prefill 48 ms)"
        " · 12 of 35 prompt tokens cached · finished"
    )


def test_a_cut_answer_and_a_single_token_say_so() -> None:
    output = replace(DONE, usage=Usage(35, 1), timings=replace(TIMINGS, num_output_tokens=1))
    line = answer_line(replace(output, finish_reason=FinishReason.LENGTH))
    assert line.startswith("1 token · first token")
    assert line.endswith("cut at the token limit")


def test_details_name_the_model_and_the_seed() -> None:
    details = answer_details(replace(DONE, stop_reason="END"), FULL, 7)
    assert "tiny, full precision (fp32 on cpu)" in details
    assert "Seed 7" in details
    assert "'END'" in details


def test_a_waiting_request_shows_its_place_and_a_reading_one_its_progress() -> None:
    assert progress_line(replace(WAITING, queue_position=2)) == "waiting, 2nd in the queue"
    prefill = replace(WAITING, state=RequestState.PREFILL, num_computed_tokens=128)
    assert progress_line(prefill) == "reading the prompt 128/512"
    decode = replace(DONE, state=RequestState.DECODE, finish_reason=None)
    assert progress_line(decode) == "writing · 49 tokens · 18.5 tok/s"


def test_a_load_shows_stage_and_share() -> None:
    assert load_line(LoadProgress("m", "reading weights", 0.4)) == "loading m: reading weights, 40 %"
    assert load_line(LoadProgress("m", "self-check")) == "loading m: self-check"


def test_the_choice_of_a_precision_says_what_it_costs_to_choose() -> None:
    assert model_choices((FULL, NF4, INT8), telling=NOT_READY) == [
        ("full precision", "tiny"),
        ("4-bit NF4 (not loaded yet)", "tiny:nf4"),
        ("8-bit LLM.int8 (not possible here)", "tiny:int8"),
    ]


def test_with_several_models_a_choice_names_its_model() -> None:
    labels = [label for label, _ in model_choices((FULL, replace(FULL, id="big", name="big")))]
    assert labels == ["tiny, full precision", "big, full precision"]


def test_the_header_escapes_what_it_shows_and_gives_the_reason() -> None:
    html = header_badges(replace(INT8, name="<script>", reason="a < b"))
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a &lt; b" in html


def test_while_a_model_loads_the_header_says_once_what_is_done() -> None:
    stage = "reading the weights"
    html = header_badges(replace(NF4, state=LoadState.LOADING, reason=stage), LoadProgress("tiny:nf4", stage))
    assert html.count(stage) == 1


def test_the_meter_shows_both_numbers_and_nothing_while_unknown() -> None:
    assert "250 / 256 tokens" in context_meter(250, 256)
    assert "full" in context_meter(250, 256)
    assert context_meter(0, 256) == context_meter(5, None) == ""


def test_the_header_shows_state_and_memory() -> None:
    html = header_badges(replace(FULL, state=LoadState.LOADING), LoadProgress("tiny", "reading", 0.5))
    assert "loading tiny: reading, 50 %" in html
    assert "513 MiB" in html
