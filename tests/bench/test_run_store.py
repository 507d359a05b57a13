"""Kept runs: whole or not at all, bounded, by ids that are never paths; foreign and damaged files are named."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from myserve_ui.bench.benchmark_request import BenchmarkRequest, NamedTarget
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.documents.document import begin_document, read_document
from myserve_ui.bench.documents.rows import make_row, write_record
from myserve_ui.bench.documents.store import RunStore
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.summary import Limits
from myserve_ui.bench.workload import Workload
from myserve_ui.errors import InvalidRequestError

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def make_document(minutes=0):
    request = BenchmarkRequest((NamedTarget(Target("http://s/v1", "m"), "full"),), Workload(1), (ClosedLoop(1),))
    record = RequestRecord(
        0, 0.0, 0.0, Outcome.COMPLETED, 1.0, first_token=0.5, prompt_tokens=3, output_tokens=2, chunk_times=(0.5, 1.0)
    )
    names = {"precision": "full", "model": "m"}
    return begin_document(request, START + timedelta(minutes=minutes)) | {
        "machine": {"bytes_per_s": None, "flops_per_s": None},
        "versions": {},
        "rows": [names | make_row([record], ClosedLoop(1), Limits())],
        "requests": [write_record(record, 0)],
        "rooflines": {},
    }


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "data" / "runs", max_runs=3)


def test_a_run_comes_back_as_it_was(store):
    document = make_document()
    assert store.load(store.save(document)) == document


def test_an_empty_or_missing_folder_lists_nothing(store):
    assert store.listing().runs == ()


def test_the_newest_is_listed_first_and_the_oldest_makes_way(store):
    ids = [store.save(make_document(minutes)) for minutes in range(5)]
    assert [run.id for run in store.listing().runs] == ids[:1:-1]
    with pytest.raises(InvalidRequestError, match="no run"):
        store.load(ids[0])


def test_a_line_says_what_was_measured(store):
    store.save(make_document())
    (line,) = store.listing().runs
    assert (line.models, line.precisions) == (("m",), ("full",))
    assert (line.requests, line.num_rows, line.stopped) == (1, 1, False)
    assert line.best_throughput == pytest.approx(2.0)


def test_a_deleted_run_is_gone_and_deleting_twice_is_no_error(store):
    run_id = store.save(make_document())
    store.delete(run_id)
    store.delete(run_id)
    assert store.listing().runs == ()


def test_damaged_files_are_named_and_the_others_still_listed(store, tmp_path):
    run_id = store.save(make_document())
    damaged = tmp_path / "data" / "runs" / "20200101-000000-abcd.json"
    damaged.write_text('{"kind": "bench"')
    listing = store.listing()
    assert ([run.id for run in listing.runs], listing.damaged) == ([run_id], (damaged.name,))
    with pytest.raises(InvalidRequestError, match="not JSON"):
        store.load(damaged.stem)


def test_a_repaired_file_is_read_again(store, tmp_path):
    path = tmp_path / "data" / "runs" / f"{store.save(make_document())}.json"
    whole = path.read_text()
    path.write_text("x")
    assert store.listing().damaged
    path.write_text(whole)
    assert not store.listing().damaged


@pytest.mark.parametrize("run_id", ["../secret", "", "20260102-030405-abc", "/etc/passwd", "20260102-030405-abcd/.."])
def test_what_is_no_id_is_refused(store, run_id):
    for work in (store.load, store.delete, lambda name: store.save(make_document() | {"id": name})):
        with pytest.raises(InvalidRequestError, match="no id"):
            work(run_id)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequestError, match="--data"):
        RunStore(tmp_path / "file" / "runs").save(make_document())


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
        (lambda d: d | {"requests": [d["requests"][0] | {"row": 7}]}, "belongs to no row"),
    ],
)
def test_a_foreign_or_damaged_document_is_one_sentence(change, words):
    with pytest.raises(InvalidRequestError, match=words):
        read_document(json.dumps(change(make_document())))


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"5", b"null", b"[" * 50_000, b'{"kind": "bench", "id": NaN}'])
def test_what_is_no_document_at_all_is_one_sentence(data):
    with pytest.raises(InvalidRequestError, match=r"JSON"):
        read_document(data)
