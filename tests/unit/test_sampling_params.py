"""Values out of range are refused by name; neutral and absent are the same."""

import math

import pytest

from myserve_ui.core.sampling_params import SamplingDefaults, SamplingParams
from myserve_ui.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1), ("temperature", 2.1), ("temperature", math.nan), ("temperature", math.inf),
        ("temperature", True),
        ("top_p", 1.1), ("top_p", -1), ("min_p", 2), ("top_k", -2), ("top_k", 0.5), ("seed", 2**63), ("seed", 1.5),
        ("repetition_penalty", 0.0), ("repetition_penalty", 1e300), ("repetition_penalty", float("inf")),
        ("repetition_penalty", -1.0), ("presence_penalty", 2.01), ("frequency_penalty", -2.01), ("logprobs", 21),
        ("logit_bias", ((3, 101.0),)), ("logit_bias", ((3, math.nan),)),
        ("max_tokens", -1), ("max_tokens", 1.5), ("max_tokens", True), ("max_tokens", 2**63),
        ("min_tokens", -1),
        ("stop", ("",)), ("stop", ("a", "b", "c", "d", "e")),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_refused_by_name(name, value):
    with pytest.raises(InvalidRequestError) as caught:
        SamplingParams(**{name: value})
    assert caught.value.param == name
    assert name in caught.value.message


def test_min_tokens_is_at_most_max_tokens():
    with pytest.raises(InvalidRequestError, match="min_tokens"):
        SamplingParams(max_tokens=3, min_tokens=4)


def test_the_model_fills_what_the_request_left_open():
    resolved = SamplingParams(top_p=0.5).resolve(SamplingDefaults(temperature=0.6, top_p=0.9, top_k=40))
    assert (resolved.temperature, resolved.top_p, resolved.top_k, resolved.min_p) == (0.6, 0.5, 40, 0.0)


def test_zero_is_not_absent():
    assert SamplingParams(temperature=0.0).resolve(SamplingDefaults(temperature=0.7)).is_greedy


def test_nothing_is_open_once_resolved():
    resolved = SamplingParams(top_k=-1).resolve(SamplingDefaults(top_k=40), room=7)
    assert (resolved.top_k, resolved.max_tokens, resolved.logprobs, resolved.top_logprobs) == (0, 7, False, 0)
    asked = SamplingParams(logprobs=0, max_tokens=3).resolve(SamplingDefaults(), room=7)
    assert (asked.max_tokens, asked.logprobs, asked.top_logprobs) == (3, True, 0)
