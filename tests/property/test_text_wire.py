"""Fences can't be closed, times round-trip, estimates add up: for any text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st

from backread.errors import TimeError
from backread.text.fencing import fence, quote, safe
from backread.text.times import format_time, parse_time
from backread.text.tokens import EstimateCounter

ANY = st.text(st.characters(codec=None, categories=None), max_size=80)
MESSY = st.text(st.sampled_from("ab'’.!:(){}-_ \t\n\r\x00\u2028é京あ한🚢\u200d\ufe0f12Ł\ud800=\"</>"), max_size=80)
TEXTS = ANY | MESSY
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=ZONES)  # noqa: DTZ001
count = EstimateCounter().count


@given(TEXTS)
def test_safe_text_encodes_and_is_safe(text: str) -> None:
    once = safe(text)
    once.encode("utf-8")
    assert safe(once) == once
    assert len(once.splitlines()) <= once.count("\n") + 1
    assert not any(char < " " and char not in "\n\t" for char in once)


@given(TEXTS)
def test_quoted_text_never_starts_a_line(text: str) -> None:
    assert all(line.startswith("    ") for line in quote(text).split("\n")[1:])
    assert all(line.startswith("    ") for line in quote(text).splitlines()[1:])


@given(st.lists(TEXTS | st.sampled_from(["</evidence>", '</evidence id="000000">', "0123456789abcdef"]), max_size=8))
def test_a_fence_is_closed_by_its_last_line_only(lines: list[str]) -> None:
    block = fence(lines)
    opening, closing = block.split("\n")[0], block.split("\n")[-1]
    identity = opening.removeprefix('<evidence id="').removesuffix('">')
    assert block.lower().count(identity) == 2
    assert closing == f'</evidence id="{identity}">'
    assert block == fence(lines)


@given(TIMES)
def test_iso_times_round_trip(at: datetime) -> None:
    for text in (at.isoformat(), at.isoformat(" "), at.isoformat().lower()):
        said = parse_time(text)
        assert said is not None
        assert (said.at, said.offset_known, said.text) == (at, True, text)
        assert said.at.utcoffset() == at.utcoffset()
    assert format_time(at) == at.isoformat(" ")[:16]


@given(TIMES)
def test_formatted_times_read_back_to_the_minute(at: datetime) -> None:
    said = parse_time(format_time(at), zone=at.tzinfo or UTC)
    assert said is not None
    assert said.at == at.replace(second=0, microsecond=0)


@given(TIMES)
def test_benchmark_formats_read_back(at: datetime) -> None:
    minute = at.replace(second=0, microsecond=0)
    zone = at.tzinfo or UTC
    months = "January February March April May June July August September October November December".split()  # noqa: SIM905
    half = "am" if at.hour < 12 else "pm"
    spoken = f"{(at.hour - 1) % 12 + 1}:{at.minute:02} {half} on {at.day} {months[at.month - 1]}, {at.year:04}"
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    slashed = f"{at.year:04}/{at.month:02}/{at.day:02} ({days[at.weekday()]}) {at.hour:02}:{at.minute:02}"
    for text in (spoken, slashed):
        said = parse_time(text, zone=zone)
        assert said is not None
        assert (said.at, said.warning) == (minute, None)


@settings(max_examples=200)
@given(TEXTS | st.integers() | st.floats() | st.booleans())
def test_any_value_is_read_or_refused(value: str | int | float) -> None:
    try:
        said = parse_time(value)
    except TimeError as error:
        str(error).encode("utf-8", "surrogatepass")
        return
    assert said is not None
    assert said.at.utcoffset() is not None
    said.at.astimezone(UTC)


@settings(max_examples=400)
@given(TEXTS, TEXTS)
def test_estimates_of_lines_add_up(one: str, other: str) -> None:
    assert count(one + "\n" + other) <= count(one + "\n") + count(other)


@settings(max_examples=400)
@given(TEXTS)
def test_an_estimate_has_no_more_tokens_than_bytes(text: str) -> None:
    assert 0 <= count(text) <= len(text.encode("utf-8", "surrogatepass"))
