"""How numbers are written: n beside them, unknown never as 0, no sign in front of nothing."""

from __future__ import annotations

import pytest

from backread.bench.reporting.layout import (
    UNKNOWN,
    counted,
    decimal,
    interval,
    p_value,
    percent,
    seconds,
    signed,
    some,
    table,
    whole,
)
from backread.bench.stats.intervals import Interval


def about(mean: float | None, low: float | None = None, high: float | None = None, n: int = 1200) -> Interval:
    return Interval(mean, low, high, n, 8, "m")


@pytest.mark.parametrize("write", [decimal, percent, whole, seconds, signed, p_value])
def test_unknown_is_never_zero(write: object) -> None:
    assert callable(write)
    assert write(None) == UNKNOWN
    assert write(0.0) != UNKNOWN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (decimal(0.61249), "0.612"),
        (percent(0.71688), "71.69"),
        (whole(119884.4), "119,884"),
        (seconds(0.0214), "0.021"),
        (seconds(119.94), "119.9"),
        (signed(0.0124), "+0.012"),
        (signed(-0.0124), "-0.012"),
        (signed(-0.0004), "0.000"),
        (p_value(0.0494), "0.049"),
        (p_value(0.00099), "<0.001"),
        (p_value(1.0), "1.000"),
        (interval(about(0.5, 0.4, 0.6)), "0.500 [0.400, 0.600]"),
        (interval(about(0.5)), "0.500"),
        (interval(about(None)), UNKNOWN),
        (interval(about(1234.4, 1000, 1500.6), digits=0), "1,234 [1,000, 1,501]"),
        (interval(about(0.1, -0.0001, 0.2), sign=True), "+0.100 [0.000, +0.200]"),
        (interval(about(-0.0002, -0.1, 0.1), sign=True), "0.000 [-0.100, +0.100]"),
        (counted(about(0.5, 0.4, 0.6)), "0.500 [0.400, 0.600] (1,200)"),
        (counted(about(None, n=0)), UNKNOWN),
        (some(["a", "b"]), "a, b"),
        (some(["a", "b", "c"], most=2), "a, b and 1 more"),
    ],
)
def test_numbers_as_written(text: str, expected: str) -> None:
    assert text == expected


def test_columns_after_the_words_are_numbers() -> None:
    made = table("t", ["cell", "is", "n"], [["a", "better", "3"]], words=2, note="x")
    assert made.rows == (("a", "better", "3"),)
    assert made.numbers == {2}
