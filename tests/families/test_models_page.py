"""docs/models.md names every type of the installed transformers, and a sample of it is still so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.families.page import verdict_of
from tests.families.report import try_form
from tests.families.tiny_configs import causal_types
from tests.families.trial import Form, write_tiny_model

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| [^|]* \| (.*) \|$", re.MULTILINE)
SAMPLE = (
    *("afmoe", "gemma4_text", "stablelm", "nemotron", "mamba", "bert", "llama4_text", "phimoe", "olmoe", "gpt_oss"),
    *("dbrx", "dots3_note_text", "jamba"),
)


@pytest.fixture(scope="module")
def rows():
    return {name: (verdict, words) for name, verdict, words in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def test_every_causal_type_has_its_row(rows):
    assert sorted(rows) == causal_types()


def test_none_is_wrong_and_none_is_refused_without_a_reason(rows):
    assert not [name for name, (verdict, _) in rows.items() if verdict == "wrong"]
    assert not [name for name, (verdict, words) in rows.items() if verdict in ("refused", "not tried") and not words]
    assert not [name for name, (_, words) in rows.items() if "the log has the details" in words]


@pytest.mark.parametrize("model_type", SAMPLE)
def test_a_sample_of_the_page_is_so(rows, model_type, tmp_path):
    write_tiny_model(model_type, tmp_path)
    verdict, words = verdict_of({"forms": {"full": try_form(tmp_path, Form())}})
    stated = rows[model_type][0]
    assert verdict.startswith(stated.removesuffix(", but")), words
