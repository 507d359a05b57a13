"""The text that fidelity is measured on: its length, its encoding, its variety."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from myserve_ui.models.catalog import DEFAULT_MODEL_NAME, build_catalog
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.settings import read_settings

HELD_OUT = Path(__file__).parents[2] / "assets" / "held_out.txt"


def test_it_is_utf8_in_canonical_form_without_odd_control_characters():
    text = HELD_OUT.read_bytes().decode("utf-8")
    assert {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs")} == {"\n"}
    assert unicodedata.normalize("NFC", text) == text
    assert text.endswith("\n")
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize(
    "piece", ["\"I'm", "def merge(", "#!/bin/sh", '"sensors":', "SELECT", "|------:|", "ます", "🙂"]
)
def test_it_holds_dialogue_code_tables_and_other_scripts(piece):
    assert piece in HELD_OUT.read_text(encoding="utf-8")


@pytest.mark.model
def test_it_is_three_to_four_thousand_tokens_of_the_default_model():
    entry = build_catalog(model=DEFAULT_MODEL_NAME, precision="full", device="cpu").default
    tokenizer = load_model(entry, options=LoadOptions(cache=read_settings([]).cache, device="cpu")).tokenizer
    assert 3000 <= len(tokenizer.encode(HELD_OUT.read_text(encoding="utf-8"))) <= 4000
