"""The bound of a decode step, against numbers worked out by hand."""

from __future__ import annotations

import itertools
import json

import pytest
import torch

from myserve_ui.bench.machine.speed import Effort, measure_machine
from myserve_ui.bench.roofline.roofline import (
    MachineSpeed,
    ModelCost,
    ModelRoofline,
    count_sequences_that_fit,
    find_crossing_batch,
    predict_decode,
)
from myserve_ui.core.memory_report import MemoryReport, WeightGroup, count_weight_traffic

MACHINE = MachineSpeed(bytes_per_s=10e9, flops_per_s=100e9, device="cpu", dtype="float32")
COST = ModelCost(bytes_per_step=500_000_000, num_parameters=125_000_000, kv_bytes_per_token=50_000)
SMALL = Effort(buffer_bytes=2**16, chunk_bytes=2**14, matrix_size=8, seconds=0.0)


def test_one_short_sequence_is_bound_by_reading_the_weights():
    bound = predict_decode(MACHINE, COST, batch=1, context=0)
    assert bound.memory_seconds == pytest.approx(0.050)  # 0.5 GB at 10 GB/s
    assert bound.compute_seconds == pytest.approx(0.0025)  # 0.25 GFLOP at 100 GFLOP/s
    assert (bound.seconds, bound.is_bound_by_memory) == (bound.memory_seconds, True)
    assert bound.tokens_per_second == pytest.approx(20)


def test_keys_and_values_of_every_sequence_are_read():
    bound = predict_decode(MACHINE, COST, batch=4, context=1000)
    assert bound.memory_seconds == pytest.approx(0.070)  # 0.5 GB and 4 x 1000 x 50 kB
    assert bound.tokens_per_second == pytest.approx(4 / 0.070)


def test_many_sequences_are_bound_by_arithmetic():
    bound = predict_decode(MACHINE, COST, batch=32, context=0)
    assert bound.seconds == pytest.approx(0.080)
    assert not bound.is_bound_by_memory


@pytest.mark.parametrize("context", [0, 100, 400])
def test_the_two_terms_cross_at_the_batch_that_is_named(context):
    batch = find_crossing_batch(MACHINE, COST, context=context)
    assert not predict_decode(MACHINE, COST, batch=batch, context=context).is_bound_by_memory
    assert predict_decode(MACHINE, COST, batch=batch - 1, context=context).is_bound_by_memory


def test_the_terms_cross_at_21_and_never_at_long_contexts():
    assert find_crossing_batch(MACHINE, COST) == 21  # 50 ms / 2.5 ms = 20, where both are equal
    assert find_crossing_batch(MACHINE, COST, context=500) is None  # 2.5 ms of reading against 2.5 ms


@pytest.mark.parametrize(("batch", "context"), [(0, 0), (1, -1)])
def test_a_step_of_nothing_is_refused(batch, context):
    with pytest.raises(ValueError, match="at least"):
        predict_decode(MACHINE, COST, batch=batch, context=context)


def test_sequences_that_fit_are_whole_ones():
    assert count_sequences_that_fit(1_000_000, 100, 1000) == 10
    assert count_sequences_that_fit(999_999, 100, 1000) == 9
    assert count_sequences_that_fit(-1, 100, 1000) == 0


def group(pattern: str, format_name: str, *, parameters: int, weight_bytes: int) -> WeightGroup:
    return WeightGroup(pattern, format_name, 1, parameters, weight_bytes, 0)


def test_weights_are_read_once_but_for_a_lookup_and_for_what_is_expanded():
    embedding = group("embed", "float32", parameters=1000, weight_bytes=4000)
    packed = group("layer", "nf4", parameters=800, weight_bytes=410)
    tied = MemoryReport((embedding, packed))
    assert count_weight_traffic(tied) == 4410
    assert count_weight_traffic(MemoryReport((embedding, packed), lookup="embed")) == 410
    assert count_weight_traffic(tied, expanded_itemsize=4) == 4410 + 800 * 4 * 2  # written, then read


def test_the_document_has_the_named_keys_and_is_json():
    document = json.loads(json.dumps(ModelRoofline(MACHINE, COST, 538).document([(1, 0), (32, 0)]).as_json()))
    assert document["bandwidth_bytes_per_s"] == 10e9
    assert document["flops_per_s"] == 100e9
    assert (document["weight_bytes"], document["kv_bytes_per_token"]) == (538, 50_000)
    assert [row["bound_ms"] for row in document["rows"]] == pytest.approx([50, 80])
    assert [row["bound_by"] for row in document["rows"]] == ["memory", "arithmetic"]
    assert document["rows"][0]["tokens_per_s"] == pytest.approx(20)


def test_speeds_come_from_what_was_read_and_multiplied_over_the_time_it_took():
    ticks = itertools.count(0, 2)  # every look at the clock is two seconds later
    speed = measure_machine(torch.device("cpu"), torch.float32, effort=SMALL, clock=lambda: next(ticks))
    assert speed == MachineSpeed(2**14 / 2, 2 * 8**3 / 2, "cpu", "float32")


def test_the_quickest_repetition_counts():
    bandwidth = [0.0, 0.0, 5.0, 6.0, 6.0, 7.0, 99.0]  # it begins; a read of 5 s; a look; one of 1 s; past the limit
    products = [0.0, 0.0, 4.0, 99.0]
    times = iter(bandwidth + products)
    effort = Effort(2**16, 2**14, 8, seconds=50.0)
    speed = measure_machine(torch.device("cpu"), torch.float32, effort=effort, clock=lambda: next(times))
    assert speed == MachineSpeed(2**14, 2 * 8**3 / 4, "cpu", "float32")
