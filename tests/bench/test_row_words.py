"""What is told of a run's prompts and of how many answers have a time per token."""

import pytest

from myserve_ui.bench.documents.row_words import mean_prompt_tokens, prompt_words, tpot_words

ROWS = [{"completed": 3, "prompt_tokens": 100}, {"completed": 1, "prompt_tokens": 41}]


def test_the_mean_is_over_the_completed_requests_of_all_rows():
    assert mean_prompt_tokens(ROWS) == 35.25
    assert mean_prompt_tokens([{"completed": 0, "prompt_tokens": 0}]) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prompt_tokens": "32"}, "32 tokens (35.2 by usage)"),
        (
            {"prompt_tokens": "8:16", "shared_prefix_tokens": 5, "turns": 2},
            "8 to 16 tokens (35.2 by usage, 5 shared, 2 turns)",
        ),
        (
            {"prompt_tokens": "32", "prompts": {"from": "a.txt", "count": 2000}},
            "a.txt (2,000 of them, 35.2 tokens by usage)",
        ),
    ],
)
def test_prompts_are_told_with_their_real_length(settings, words):
    assert prompt_words(settings, ROWS) == words


def test_how_few_answers_a_tpot_is_of_is_told():
    assert tpot_words({"completed": 4, "tpot_ms": {"n": 4}}) == ""
    assert tpot_words({"completed": 4, "tpot_ms": {"n": 3}}).startswith("TPOT of 3 of 4 answers")
    assert tpot_words({"completed": 4, "tpot_ms": None}).startswith("TPOT of 0 of 4 answers")
    assert tpot_words({"completed": 0, "tpot_ms": None}) == ""
