"""Which kind of rotary frequencies a token gets: by its own sequence, and never mixed up by a prefix."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from myserve_ui.engine.module.rotary_rule import RotaryRule


@dataclass
class Text:
    token_ids: list[int]
    num_prompt_tokens: int

    @property
    def num_tokens(self):
        return len(self.token_ids)


def text(prompt, answer=0):
    return Text(list(range(prompt + answer)), prompt)


SWITCH, ANEW, GROWS = RotaryRule((64,)), RotaryRule((64,), restarts=True), RotaryRule(grows_from=64)


@pytest.mark.parametrize(
    ("rule", "sequence", "kinds"),
    [
        (SWITCH, text(64), {0}),
        (SWITCH, text(65), {65}),
        (SWITCH, text(64, 2), {0, 65}),
        (ANEW, text(64, 1), {65}),
        (ANEW, text(60, 4), {0}),
        (GROWS, text(70, 2), {70, 71, 72}),
        (GROWS, text(10, 4), {0}),
    ],
)
def test_a_prompt_is_turned_by_its_whole_length_and_a_decoded_token_by_the_length_with_it(rule, sequence, kinds):
    assert set(rule.kinds(sequence, 0, sequence.num_tokens)) == kinds


def test_a_part_has_the_kinds_of_the_whole():
    sequence = text(66, 10)
    for rule in (SWITCH, ANEW, GROWS):
        whole = rule.kinds(sequence, 0, 76)
        for start, end in ((0, 1), (3, 70), (66, 76), (70, 71)):
            assert rule.kinds(sequence, start, end) == whole[start:end]


def test_prompts_on_both_sides_of_a_switch_share_no_prefix():
    assert SWITCH.prefix_keys(text(64), 0, 10) != SWITCH.prefix_keys(text(65), 0, 10)
    assert SWITCH.prefix_keys(text(65), 0, 10) == SWITCH.prefix_keys(text(90), 0, 10)


def test_without_a_switch_tokens_are_known_by_their_ids():
    assert RotaryRule().prefix_keys(text(5), 1, 4) == [1, 2, 3]
