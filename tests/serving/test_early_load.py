"""A model that was begun early is handed to the first who asks for it, once; others load as ever."""

from __future__ import annotations

import threading

import pytest

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.catalog import CatalogEntry, ModelSource, SourceKind
from myserve_ui.models.loaded_model import echo_model
from myserve_ui.serving.early_load import EarlyLoad

DEFAULT, OTHER = (CatalogEntry(name, ModelSource(SourceKind.DEFAULT, name, ""), "full", created=0) for name in "ab")
PATIENCE = 5


class Loads:
    """Loads that take until they are let go."""

    def __init__(self):
        self.asked, self.go, self.error = [], threading.Event(), None

    def __call__(self, entry, on_progress):
        self.asked.append(entry.key)
        on_progress("reading", 0.5)
        assert self.go.wait(PATIENCE)
        on_progress("done", None)
        if self.error is not None:
            raise self.error
        return echo_model()


def test_what_was_begun_is_handed_over_with_its_progress():
    loads, stages = Loads(), []
    early = EarlyLoad(loads)
    early.begin(DEFAULT)
    while early._stage is None:
        pass
    threading.Timer(0.05, loads.go.set).start()
    assert early(DEFAULT, lambda *stage: stages.append(stage)) is not None
    assert (loads.asked, stages) == (["a"], [("reading", 0.5), ("done", None)])


def test_another_model_and_a_second_load_begin_anew():
    loads = Loads()
    loads.go.set()
    early = EarlyLoad(loads)
    early.begin(DEFAULT)
    early(OTHER, lambda *_: None)
    early(DEFAULT, lambda *_: None)
    assert sorted(loads.asked) == ["a", "a", "b"]


def test_an_error_reaches_the_one_who_asks_and_the_next_try_is_a_new_one():
    loads = Loads()
    loads.go.set()
    loads.error = ModelLoadError("no")
    early = EarlyLoad(loads)
    early.begin(DEFAULT)
    with pytest.raises(ModelLoadError):
        early(DEFAULT, lambda *_: None)
    loads.error = None
    assert early(DEFAULT, lambda *_: None) is not None
    assert loads.asked == ["a", "a"]
