"""A branch begins where the page says, and only inside the answer that the page has."""

from __future__ import annotations

import json

import pytest

from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.compare.branch import Branch, read_branch
from tests.evaluation.saved import saved

WHOLE = saved("comparison")
ANSWERS = {
    "base": {"model": "tiny", "token_ids": [7, 8, 9], "prompt_token_ids": [1, 2]},
    "candidate": {"model": "tiny:nf4", "token_ids": [7, 5], "prompt_token_ids": [1, 2]},
}
DOCUMENT = {
    **WHOLE,
    "answers": {side: WHOLE["answers"][side] | answer for side, answer in ANSWERS.items()},
    "settings": {**WHOLE["settings"], "seed": 3, "max_tokens": 40},
}


def file(document: object) -> dict[str, str]:
    return {"text": json.dumps(document)}


def test_the_other_model_goes_on_behind_the_tokens_that_are_kept() -> None:
    branch = read_branch(file(DOCUMENT), "base", 3)
    assert (branch.model, branch.prompt, branch.kept) == ("tiny:nf4", (1, 2), (7, 8))
    assert (branch.params.seed, branch.params.max_tokens) == (3, 40)
    assert read_branch(file(DOCUMENT), "candidate", 1) == Branch("tiny", (1, 2), (), branch.params)


@pytest.mark.parametrize("token", [0, 4, -1, None, "2"])
def test_a_token_outside_the_answer_is_refused_with_its_length(token: object) -> None:
    with pytest.raises(InvalidRequestError, match="1 to 3"):
        read_branch(file(DOCUMENT), "base", token)


@pytest.mark.parametrize(
    "broken",
    [None, {}, {"text": "{"}, {"text": "[]"}, file({}), file({**DOCUMENT, "settings": {}}), file({"answers": 5})],
)
def test_without_a_comparison_there_is_nothing_to_branch_from(broken: object) -> None:
    with pytest.raises(InvalidRequestError, match="no comparison"):
        read_branch(broken, "base", 1)
