"""system_fingerprint: the same for the same server, another when something may change a seeded answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from myserve_ui.api import render
from myserve_ui.api.render import Responder
from myserve_ui.settings import Settings
from tests.api.scripted_service import MODEL, SECOND


def fingerprint(model=MODEL, **settings: object) -> str:
    return Responder(Settings.model_validate(settings)).fingerprint(model)


def test_equal_servers_have_equal_fingerprints() -> None:
    assert fingerprint() == fingerprint()
    assert fingerprint().startswith("fp_")


@pytest.mark.parametrize(
    "settings",
    [{"dtype": "bf16"}, {"threads": 3}, {"max_num_seqs": 4}, {"max_model_len": 64}, {"chat_template": "x"}],
    ids=str,
)
def test_a_setting_that_may_change_answers_changes_it(settings: dict[str, object]) -> None:
    assert fingerprint(**settings) != fingerprint()


@pytest.mark.parametrize("settings", [{"port": 1}, {"api_key": "secret"}, {"request_timeout": 3}], ids=str)
def test_other_settings_leave_it(settings: dict[str, object]) -> None:
    assert fingerprint(**settings) == fingerprint()


@pytest.mark.parametrize("model", [SECOND, replace(MODEL, dtype="bfloat16"), replace(MODEL, device="cuda:0")])
def test_other_weights_change_it(model) -> None:
    assert fingerprint(model) != fingerprint()


def test_another_version_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    monkeypatch.setattr(render, "__version__", "99.0")
    assert fingerprint() != before


def test_every_setting_that_counts_is_a_setting() -> None:
    assert set(Settings.model_fields) >= render.SETTINGS_THAT_CHANGE_ANSWERS
