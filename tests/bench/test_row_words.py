"""What is told of a run's prompts and of how many answers have a time per token."""

import pytest

from myserve_ui.bench.documents.row_words import mean_prompt_tokens, prompt_words, tpot_words
from myserve_ui.bench.documents.run import PromptSource
from myserve_ui.bench.workload import Lengths
from tests.bench.made_runs import one_row_run

RUN = one_row_run()


def row(**fields):
    return RUN.rows[0].model_copy(update=fields)


ROWS = [row(completed=3, prompt_tokens=100), row(completed=1, prompt_tokens=41)]


def test_the_mean_is_over_the_completed_requests_of_all_rows():
    assert mean_prompt_tokens(ROWS) == 35.25
    assert mean_prompt_tokens([row(completed=0, prompt_tokens=0)]) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "32 tokens (35.2 by usage)"),
        (
            {"prompt_tokens": Lengths(8, 16), "shared_prefix_tokens": 5, "turns": 2},
            "8 to 16 tokens (35.2 by usage, 5 shared, 2 turns)",
        ),
        (
            {"prompts": PromptSource(source="a.txt", count=2000, sha256="")},
            "a.txt (2,000 of them, 35.2 tokens by usage)",
        ),
    ],
)
def test_prompts_are_told_with_their_real_length(settings, words):
    assert prompt_words(RUN.settings.model_copy(update=settings), ROWS) == words


def test_how_few_answers_a_tpot_is_of_is_told():
    found = RUN.rows[0].tpot_ms
    four, three = (found.model_copy(update={"n": number}) for number in (4, 3))
    assert tpot_words(row(completed=4, tpot_ms=four)) == ""
    assert tpot_words(row(completed=4, tpot_ms=three)).startswith("TPOT of 3 of 4 answers")
    assert tpot_words(row(completed=4, tpot_ms=None)).startswith("TPOT of 0 of 4 answers")
    assert tpot_words(row(completed=0, tpot_ms=None)) == ""
