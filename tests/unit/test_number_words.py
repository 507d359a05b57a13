"""Numbers as people read them, letter by letter."""

import pytest

from myserve_ui.core import number_words as words


@pytest.mark.parametrize(
    ("value", "fixed", "short"),
    [
        (None, "–", "–"),
        (0, "0", "0"),
        (0.0004, "0.000", "0.0004"),
        (0.1234, "0.123", "0.123"),
        (1.5, "1.50", "1.5"),
        (12.34, "12.3", "12.3"),
        (1234.5, "1,234", "1,234"),
        (-4.56, "-4.56", "-4.56"),
    ],
)
def test_three_digits_matter(value, fixed, short):
    assert (words.decimal(value), words.short_number(value)) == (fixed, short)


def test_a_difference_has_a_sign():
    assert [words.signed(value) for value in (0.5, -3.25, 0)] == ["+0.500", "−3.25", "+0"]


@pytest.mark.parametrize(("share", "text"), [(None, "–"), (0.42, "42 %"), (1.482, "148 %"), (0.005, "0 %")])
def test_a_share_is_told_in_percent(share, text):
    assert words.percent(share) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.0484, "48 ms"), (0.9996, "1.0 s"), (2.64, "2.6 s")])
def test_a_time_has_a_unit(value, text):
    assert words.seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (185, "3 min 5 s")])
def test_a_wait_is_told_in_minutes_and_seconds(value, text):
    assert words.duration(value) == text


def test_bytes_have_binary_units():
    assert (words.kib(46_080), words.mib(538_000_000), words.gib(8 * 2**30)) == ("45.0 KiB", "513 MiB", "8.0 GiB")
    assert words.kib(None) == words.mib(None) == words.gib(None) == "–"


def test_one_is_no_plural():
    assert (words.count(1, "core"), words.count(1200, "token")) == ("1 core", "1,200 tokens")


@pytest.mark.parametrize(
    ("model", "precision", "text"),
    [
        ("tiny:nf4", "nf4", "tiny, 4-bit NF4"),
        ("tiny", "full", "tiny, full precision"),
        ("org/model", "10.0.0.1:8000", "org/model, 10.0.0.1:8000"),
        ("tiny", "", "tiny"),
    ],
)
def test_a_model_is_named_with_its_precision(model, precision, text):
    assert words.model_words(model, precision) == text
