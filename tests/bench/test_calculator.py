"""The roofline of a model that nobody has loaded, by hand; and devices by what their makers state."""

import json

import pytest

from myserve_ui.bench.roofline.calculator import ModelShape, calculate_roofline, parse_count
from myserve_ui.bench.roofline.device_table import DEVICES, Device, find_device
from myserve_ui.bench.roofline.documents import Room
from myserve_ui.errors import InvalidRequestError

SHAPE = ModelShape(parameters=7_000_000_000, layers=32, kv_heads=8, head_dim=128)
DEVICE = Device("a device", memory_gb=80, gb_per_s=2000, teraflops=300, source="made up")


def test_a_large_model_by_hand():
    document = calculate_roofline(SHAPE, DEVICE, context=1000)
    assert document.weight_bytes == 14_000_000_000
    assert document.kv_bytes_per_token == 131_072  # 2 x 32 x 8 x 128 x 2
    assert document.rows[0].bound_ms == pytest.approx(7.0)  # 14 GB at 2 TB/s
    assert document.rows[2].bound_ms == pytest.approx(7.0 + 8 * 1000 * 131_072 / 2e9)
    assert document.crossing_batch == 151  # 7 ms against 14 GFLOP / 300 TFLOP/s a sequence, equal at 150
    assert document.kv_budget_bytes == 72_000_000_000 - 14_000_000_000
    assert document.fits[0] == Room(length=512, sequences=58_000_000_000 // (512 * 131_072))


def test_fewer_bits_weigh_less():
    four_bits = ModelShape(7_000_000_000, 32, 8, 128, weight_bits=4.5, kv_bits=8)
    document = calculate_roofline(four_bits, DEVICE)
    assert (document.weight_bytes, document.kv_bytes_per_token) == (3_937_500_000, 65_536)


def test_weights_that_do_not_fit_leave_room_for_nothing():
    document = calculate_roofline(ModelShape(70_000_000_000, 80, 8, 128), find_device("RTX 4090"))
    assert not document.weights_fit
    assert [room.sequences for room in document.fits] == [0, 0, 0]


def test_without_a_matrix_rate_only_reading_counts_and_the_document_is_json():
    document = calculate_roofline(SHAPE, find_device("M3 Ultra"))
    assert (document.flops_per_s, document.crossing_batch) == (None, None)
    assert {row.bound_by for row in document.rows} == {"memory"}
    json.dumps(document.as_json(), allow_nan=False)


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_every_device_has_a_source_and_can_be_found_by_its_name(device):
    assert find_device(device.name.upper()) is device
    assert device.source and device.memory_bytes > 0 and device.bytes_per_s > 1e10


@pytest.mark.parametrize(("name", "words"), [("H100", "several devices"), ("banana", "no known"), ("", "no known")])
def test_a_name_that_means_no_single_device_is_refused(name, words):
    with pytest.raises(InvalidRequestError, match=words):
        find_device(name)


@pytest.mark.parametrize(
    ("text", "count"),
    [("135M", 135_000_000), ("7b", 7_000_000_000), ("1.5B", 1_500_000_000), ("134,515,008", 134_515_008)],
)
def test_parameters_are_written_as_people_do(text, count):
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "B", "many", "-7B", "nan", "inf", "1e30"])
def test_what_is_no_number_of_parameters_is_refused(text):
    with pytest.raises(InvalidRequestError):
        parse_count(text)


@pytest.mark.parametrize("field", ["parameters", "layers", "kv_heads", "head_dim", "weight_bits", "kv_bits"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_shape_of_nothing_is_refused_by_name(field, value):
    fields = {"parameters": 1, "layers": 1, "kv_heads": 1, "head_dim": 1} | {field: value}
    with pytest.raises(InvalidRequestError, match=field):
        ModelShape(**fields)
