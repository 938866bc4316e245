"""Reading times: the exact values, and refusing what can't be read."""

from __future__ import annotations

import locale
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from backread.errors import InvalidInputError, TimeError
from backread.text.times import SaidAt, format_time, parse_time

BERLIN = ZoneInfo("Europe/Berlin")


def naive(*parts: int) -> datetime:
    """A datetime without a zone, in one place only."""
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


def read(value: Any, **kwargs: Any) -> SaidAt:
    said = parse_time(value, **kwargs)
    assert said is not None
    return said


def test_none_is_unknown() -> None:
    assert parse_time(None) is None
    assert format_time(None) == "unknown time"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("12:09 am on 13 September, 2023", naive(2023, 9, 13, 0, 9)),
        ("12:30 pm on 1 March, 2023", naive(2023, 3, 1, 12, 30)),
        ("1:05 pm on 9 May, 2023", naive(2023, 5, 9, 13, 5)),
        ("1:56 pm on 8 May, 2023", naive(2023, 5, 8, 13, 56)),
        ("11:59 PM on 31 Dec 2023", naive(2023, 12, 31, 23, 59)),
        ("8 May, 2023", naive(2023, 5, 8)),
        ("2023/05/30 (Tue) 23:40", naive(2023, 5, 30, 23, 40)),
        ("2023/05/30 (Tue)", naive(2023, 5, 30)),
        ("2023/05/30", naive(2023, 5, 30)),
        ("2023/05/30 23:40:59", naive(2023, 5, 30, 23, 40, 59)),
        ("2023-05-30T23:40", naive(2023, 5, 30, 23, 40)),
        ("2023-05-30 23:40", naive(2023, 5, 30, 23, 40)),
        ("2023-05-30", naive(2023, 5, 30)),
        ("20230530", naive(2023, 5, 30)),
        ("2023-W22-2", naive(2023, 5, 30)),
        (" 2023-05-30 ", naive(2023, 5, 30)),
    ],
)
def test_dat_03_times_without_a_zone(value: str, expected: datetime) -> None:
    assert read(value) == SaidAt(expected.replace(tzinfo=UTC), False, value, None)


@pytest.mark.parametrize("name", ["C", "de_DE.UTF-8", "tr_TR.UTF-8"])
def test_dat_03_the_locale_changes_nothing(name: str) -> None:
    before = locale.setlocale(locale.LC_TIME)
    try:
        try:
            locale.setlocale(locale.LC_TIME, name)
        except locale.Error:
            pytest.skip(f"no locale {name} here")
        assert read("12:09 am on 13 September, 2023").at == datetime(2023, 9, 13, 0, 9, tzinfo=UTC)
        assert read("2023/05/30 (Tue) 23:40").warning is None
    finally:
        locale.setlocale(locale.LC_TIME, before)


def test_dat_03_a_wrong_day_name_is_a_warning() -> None:
    said = read("2023/05/30 (Wed) 23:40")
    assert said.at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert said.warning is not None
    assert "Tuesday" in said.warning


@pytest.mark.parametrize(
    "value",
    [
        "2:09 pm on 31 June, 2023",
        "soon",
        "",
        " ",
        "13:09 am on 13 September, 2023",
        "0:09 am on 13 September, 2023",
        "12:60 am on 13 September, 2023",
        "1:05 pm on 9 Foo, 2023",
        "2023/02/30 (Tue) 23:40",
        "2023/05/30 (Foo) 23:40",
        "2023/05/30 (T) 23:40",
        "2023/13/01",
        "2023",
        "12345678901234567890",
        "1e9",
        "nan",
        "0000-01-01",
        "10000-01-01",
        "٢٠٢٣-٠١-٠١",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-23:00",
        "2023-05-30T10:00:00Z; DROP TABLE",
        "\ud800",
        True,
        False,
        float("nan"),
        float("inf"),
        float("-inf"),
        1e300,
        10**400,
        10**5000,
        -(10**17),
        date(2023, 5, 30),
        b"2023-05-30",
        ["2023-05-30"],
    ],
    ids=lambda value: type(value).__name__,
)
def test_dat_03_what_cannot_be_read_is_an_error(value: Any) -> None:
    with pytest.raises(TimeError, match="not a time that can be read") as caught:
        parse_time(value)
    assert isinstance(caught.value, InvalidInputError)
    assert caught.value.hint
    assert len(str(caught.value)) < 150


def test_the_error_names_the_value() -> None:
    with pytest.raises(TimeError, match="'soon'"):
        parse_time("soon")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, naive(1970, 1, 1)),
        (1685400000, naive(2023, 5, 29, 22, 40)),
        (1685400000.5, naive(2023, 5, 29, 22, 40, 0, 500_000)),
        (1685400000000, naive(2023, 5, 29, 22, 40)),
        (99_999_999_999, naive(5138, 11, 16, 9, 46, 39)),  # the last second
        (100_000_000_000, naive(1973, 3, 3, 9, 46, 40)),  # the first millisecond
        ("1685400000", naive(2023, 5, 29, 22, 40)),
        ("1685400000123", naive(2023, 5, 29, 22, 40, 0, 123_000)),
        (-86400, naive(1969, 12, 31)),
    ],
)
def test_epochs(value: Any, expected: datetime) -> None:
    said = read(value, zone=BERLIN)
    assert said.at == expected.replace(tzinfo=UTC)
    assert said.offset_known


@pytest.mark.parametrize("text", ["2023-05-30T10:00:00Z", "2023-05-30t10:00:00z", "2023-05-30 12:00:00+02:00"])
def test_offsets_are_kept(text: str) -> None:
    said = read(text, zone=BERLIN)
    assert said.at == datetime(2023, 5, 30, 10, tzinfo=UTC)
    assert (said.offset_known, said.text, said.warning) == (True, text, None)
    assert format_time(said.at) == text[:16].replace("T", " ").replace("t", " ")


def test_datetimes() -> None:
    aware = datetime(2023, 5, 30, 10, tzinfo=timezone(timedelta(hours=9)))
    assert read(aware) == SaidAt(aware, True, None, None)
    assert read(naive(2023, 5, 30, 10), zone=BERLIN) == SaidAt(
        datetime(2023, 5, 30, 10, tzinfo=BERLIN), False, None, None
    )


def test_dat_05_mixed_times_compare() -> None:
    values = ["2024-05-01T10:00:02Z", "2024-05-01T10:00:00Z", "2024-05-01T10:00:01", "2024-05-01T12:00:01+02:00"]
    times = [read(value).at for value in values]
    assert sorted(range(4), key=lambda i: times[i]) == [1, 2, 3, 0]
    assert times[2] == times[3]
    assert read("2093-01-01T00:00:00Z").at.year == 2093


def test_a_local_time_that_never_was_moves_forward() -> None:
    # Berlin, 31 March 2024: 02:00 became 03:00, so 02:30 in the old offset is 03:30 in the new one.
    said = read("2024-03-31T02:30", zone=BERLIN)
    assert said.at.astimezone(UTC) == datetime(2024, 3, 31, 1, 30, tzinfo=UTC)
    assert format_time(said.at) == "2024-03-31 03:30"
    assert said.warning is not None
    assert "never happened" in said.warning


def test_a_local_time_that_was_twice_is_the_first() -> None:
    said = read("2024-10-27T02:30", zone=BERLIN)
    assert said.at.astimezone(UTC) == datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    assert said.warning is not None
    assert "first" in said.warning
    second = read(naive(2024, 10, 27, 2, 30).replace(fold=1), zone=BERLIN)
    assert second.at.astimezone(UTC) == datetime(2024, 10, 27, 1, 30, tzinfo=UTC)


def test_format_pads_years() -> None:
    assert format_time(datetime(33, 4, 3, 15, 0, tzinfo=UTC)) == "0033-04-03 15:00"
