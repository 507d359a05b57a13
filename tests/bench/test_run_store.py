"""Kept runs: whole or not at all, bounded, by ids that are never paths; foreign and damaged files are named."""

import json
from pathlib import Path

import pytest

from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.documents.store import RunStore
from myserve_ui.errors import InvalidRequestError
from tests.bench.made_runs import one_row_run

SAVED = sorted((Path(__file__).parent / "saved_runs").glob("*.json"))
"""Files that earlier versions wrote, and one with no more than their readers asked for."""


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "data" / "runs", max_runs=3)


def test_a_run_comes_back_as_it_was(store):
    document = one_row_run()
    assert store.load(store.save(document)) == document


def test_an_empty_or_missing_folder_lists_nothing(store):
    assert store.listing().runs == ()


def test_the_newest_is_listed_first_and_the_oldest_makes_way(store):
    ids = [store.save(one_row_run(minutes)) for minutes in range(5)]
    assert [run.id for run in store.listing().runs] == ids[:1:-1]
    with pytest.raises(InvalidRequestError, match="no run"):
        store.load(ids[0])


def test_a_line_says_what_was_measured(store):
    store.save(one_row_run())
    (line,) = store.listing().runs
    assert (line.models, line.precisions) == (("m",), ("full",))
    assert (line.requests, line.num_rows, line.stopped) == (1, 1, False)
    assert line.best_throughput == pytest.approx(2.0)


def test_a_deleted_run_is_gone_and_deleting_twice_is_no_error(store):
    run_id = store.save(one_row_run())
    store.delete(run_id)
    store.delete(run_id)
    assert store.listing().runs == ()


def test_damaged_files_are_named_and_the_others_still_listed(store, tmp_path):
    run_id = store.save(one_row_run())
    damaged = tmp_path / "data" / "runs" / "20200101-000000-abcd.json"
    damaged.write_text('{"kind": "bench"')
    listing = store.listing()
    assert ([run.id for run in listing.runs], listing.damaged) == ([run_id], (damaged.name,))
    with pytest.raises(InvalidRequestError, match="not JSON"):
        store.load(damaged.stem)


def test_a_repaired_file_is_read_again(store, tmp_path):
    path = tmp_path / "data" / "runs" / f"{store.save(one_row_run())}.json"
    whole = path.read_text()
    path.write_text("x")
    assert store.listing().damaged
    path.write_text(whole)
    assert not store.listing().damaged


@pytest.mark.parametrize("run_id", ["../secret", "", "20260102-030405-abc", "/etc/passwd", "20260102-030405-abcd/.."])
def test_what_is_no_id_is_refused(store, run_id):
    for work in (store.load, store.delete, lambda name: store.save(one_row_run().model_copy(update={"id": name}))):
        with pytest.raises(InvalidRequestError, match="no id"):
            work(run_id)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    store = RunStore(tmp_path / "file" / "runs")
    for work in (store.check, lambda: store.save(one_row_run())):
        with pytest.raises(InvalidRequestError, match="--data"):
            work()


def test_a_check_leaves_nothing_behind(store, tmp_path):
    store.check()
    assert list((tmp_path / "data" / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: {"kind": "fidelity"}, "no benchmark"),
        (lambda d: {key: value for key, value in d.items() if key != "rows"}, "has no rows"),
        (lambda d: d | {"rows": 5}, "rows should be a list"),
        (lambda d: d | {"settings": d["settings"] | {"seed": "x"}}, "settings.seed should be a number"),
        (lambda d: d | {"rows": [d["rows"][0] | {"goodput": None}]}, r"rows\[0\].goodput should be a number"),
        (lambda d: d | {"rows": [d["rows"][0] | {"load": {"kind": "closed", "concurrency": 0}}]}, "concurrency"),
        (lambda d: d | {"rows": [d["rows"][0] | {"load": {"kind": "tide"}}]}, "load of the run"),
        (lambda d: d | {"requests": [d["requests"][0] | {"outcome": "lost"}]}, "no known way"),
        (lambda d: d | {"requests": [d["requests"][0] | {"outcome": 5}]}, "no known way"),
        (lambda d: d | {"requests": [d["requests"][0] | {"row": 7}]}, "belongs to no row"),
        (lambda d: d | {"requests": [d["requests"][0] | {"row": -1}]}, "belongs to no row"),
        (lambda d: d | {"rows": [d["rows"][0] | {"load": 5}]}, "load of the run"),
        (lambda d: d | {"settings": d["settings"] | {"prompt_tokens": "few"}}, "A length is a number"),
        (lambda d: d | {"settings": d["settings"] | {"limits": {"ttft": "soon"}}}, "limits.ttft should be a number"),
        (lambda d: d | {"settings": d["settings"] | {"limits": []}}, "settings.limits should be an object"),
        (lambda d: d | {"differences": [{}]}, r"no differences\[0\].load"),
        (lambda d: d | {"version": 2}, "of version 2"),
    ],
)
def test_a_foreign_or_damaged_document_is_one_sentence(change, words):
    with pytest.raises(InvalidRequestError, match=words):
        BenchmarkRun.read(json.dumps(change(one_row_run().as_json())))


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"5", b"null", b"[" * 50_000, b'{"kind": "bench", "id": NaN}'])
def test_what_is_no_document_at_all_is_one_sentence(data):
    with pytest.raises(InvalidRequestError, match=r"JSON"):
        BenchmarkRun.read(data)


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_what_earlier_versions_kept_still_opens_and_keeps_every_number(path):
    written = json.loads(path.read_text())
    run = BenchmarkRun.read(path.read_bytes())
    assert BenchmarkRun.read(json.dumps(run.as_json())) == run
    assert holds(run.as_json(), written)


def test_no_key_of_what_must_be_there_can_be_missing():
    written = json.loads((SAVED[0].parent / "as_little_as_was_read.json").read_text())
    for place in ((), ("settings",), ("settings", "targets", 0), ("rows", 0), ("rows", 0, "ttft_ms"), ("requests", 0)):
        for key in part(written, place):
            lacking = json.loads(json.dumps(written))
            del part(lacking, place)[key]
            words = "no benchmark" if key == "kind" else f"has no .*{key}"
            with pytest.raises(InvalidRequestError, match=words):
                BenchmarkRun.read(json.dumps(lacking))


def part(document, place):
    for step in place:
        document = document[step]
    return document


def holds(document, written):
    """Whether `document` says all that `written` says."""
    if isinstance(written, dict):
        return all(key in document and holds(document[key], value) for key, value in written.items())
    if isinstance(written, list):
        return len(document) == len(written) and all(map(holds, document, written))
    return document == written
