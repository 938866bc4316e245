"""How well a time fits a date that a question names, and which turns tell a time."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from backread.retrieval.temporal import date_match, tells_time
from backread.store.layout import UNKNOWN_TIME
from backread.store.rows import to_us
from backread.text.cues import ASKS, TELLS_TIME, NamedDate


def match(date: NamedDate | tuple[NamedDate, ...], *times: str | None) -> list[float]:
    said = [UNKNOWN_TIME if at is None else to_us(datetime.fromisoformat(at).replace(tzinfo=UTC)) for at in times]
    dates = (date,) if isinstance(date, NamedDate) else date
    out = date_match(np.array(said, dtype=np.int64), dates)
    assert out.dtype == np.float32
    return [round(float(value), 6) for value in out]


def test_a_month_fits_in_every_year() -> None:
    times = ("2023-05-01", "2024-05-31T23:59:59", "2023-04-30T23:59:59", "2023-06-01", None)
    assert match(NamedDate(5), *times) == [1, 1, 0, 0, 0]


def test_a_year_restricts_it() -> None:
    assert match(NamedDate(5, 2023), "2023-05-09", "2022-05-09", "2024-05-09") == [1, 0, 0]


@pytest.mark.parametrize("year", [None, 2023])
def test_a_day_and_the_week_after_it(year: int | None) -> None:
    times = ("2023-05-07", "2023-05-08", "2023-05-15T23:00", "2023-05-16", "2023-05-31", "2023-06-08")
    #        before         on           seven days after     eight         same month    another month
    assert match(NamedDate(5, year, 8), *times) == [0.3, 1, 1, 0.3, 0.3, 0]


def test_before_1970() -> None:
    times = ("1969-12-31T23:59", "1969-12-25", "1968-02-29", "0001-12-25")
    assert match(NamedDate(12, 1969, 25), *times) == [1, 1, 0, 0]
    assert match(NamedDate(2, 1968, 29), *times) == [0, 0, 1, 0]
    assert match(NamedDate(12, 1), *times) == [0, 0, 0, 1]


def test_no_units() -> None:
    assert match(NamedDate(5)) == []


def test_the_week_after_may_reach_into_the_next_month() -> None:
    times = ("2023-06-02", "2023-06-07", "2024-06-02", "2023-06-30")
    assert match(NamedDate(5, 2023, 30), *times) == [1, 0, 0, 0]
    assert match(NamedDate(5, None, 30), *times) == [1, 0, 1, 0]
    assert match(NamedDate(12, 2023, 30), "2024-01-03", "2023-01-03") == [1, 0]


def test_a_day_that_never_is_leaves_the_month() -> None:
    assert match(NamedDate(2, 2023, 31), "2023-02-28", "2023-03-03") == [0.3, 0]
    assert match(NamedDate(2, None, 29), "2024-02-29", "2023-02-28", "2023-03-01") == [1, 0.3, 0]


def test_the_best_of_several_dates() -> None:
    dates = (NamedDate(5, 2023, 8), NamedDate(6, 2023))
    assert match(dates, "2023-05-08", "2023-05-01", "2023-06-30", "2023-07-01") == [1, 0.3, 1, 0]
    assert match((), "2023-05-08", None) == [0, 0]


def test_tells_time() -> None:
    cues = np.array([0, ASKS, TELLS_TIME, ASKS | TELLS_TIME], dtype=np.int8)
    assert tells_time(cues).tolist() == [0, 0, 1, 1]
