"""A day that a question names is a day where the speaker was, whatever the offset and the change of clocks."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from backread import Memory
from backread.retrieval.temporal import date_match, said_around
from backread.settings import Settings
from backread.store.rows import to_us
from backread.text.cues import MONTHS, named_dates
from backread.text.times import parse_time
from backread.text.tokens import EstimateCounter

ZONES = ("UTC", "America/New_York", "Europe/Paris", "Asia/Kathmandu", "Pacific/Kiritimati", "Pacific/Niue")
OFFSETS = st.none() | st.sampled_from([-1439, -720, -300, -1, 0, 60, 345, 840, 1439]) | st.integers(-1439, 1439)
# Near midnight, on days where clocks change and at the ends of months and years.
MINUTES = st.sampled_from([0, 1, 29, 30, 59, 60, 119, 120, 150, 179, 180, 1380, 1410, 1439]) | st.integers(0, 1439)
DAYS = st.sampled_from([date(2024, 3, 10), date(2024, 3, 31), date(2024, 10, 27), date(2024, 11, 3), date(2024, 1, 1),
                        date(2023, 12, 31), date(2024, 2, 29), date(2024, 5, 8)])  # fmt: skip


def told(day: date) -> str:
    return f"What about {day.day} {MONTHS[day.month - 1].capitalize()} {day.year}?"


@settings(max_examples=40, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    said=st.lists(st.tuples(DAYS, st.integers(-1, 9), MINUTES, OFFSETS), min_size=1, max_size=6),
    day=DAYS,
)
def test_a_turn_belongs_to_its_speakers_day(
    zone: str, said: list[tuple[date, int, int, int | None]], day: date
) -> None:
    clocks = []
    messages = []
    for near, days, minutes, offset in said:
        clock = datetime.combine(near, time()) + timedelta(days=days, minutes=minutes)
        at = clock if offset is None else clock.replace(tzinfo=timezone(timedelta(minutes=offset)))
        read = parse_time(at.isoformat(), zone=ZoneInfo(zone))
        assert read is not None
        clocks.append(read.at.replace(tzinfo=None))  # another where clocks went forward over it
        messages.append({"role": "user", "content": f"kettle {len(clocks)}", "timestamp": at.isoformat()})
    with tempfile.TemporaryDirectory() as folder:
        chosen = Settings(path=Path(folder) / "m.db", embedder="none", zone=zone)
        with Memory.open(counter=EstimateCounter(), settings=chosen) as memory:
            for number, message in enumerate(messages):
                memory.add(message, user_id="ann", session_id=f"s{number}")
            corpus = memory.history("ann").corpus()
            dates = named_dates(told(day))
            shares = dict(zip(corpus.unit_ids(list(range(corpus.size))), said_around(corpus, dates), strict=True))
            for turn in memory.turns(user_id="ann"):
                clock = clocks[int(turn.text.split()[1]) - 1]
                local = np.array([to_us(clock.replace(tzinfo=UTC))])
                assert shares[turn.turn_id] == date_match(local, dates)[0]
                assert (shares[turn.turn_id] == 1) == (0 <= (clock.date() - day).days <= 7)
            for session in memory.sessions(user_id="ann"):
                clock = clocks[int(session.session_id[1:])]
                assert session.started_at is not None
                assert session.started_at.replace(tzinfo=None) == clock


@settings(max_examples=25, deadline=None)
@given(zone=st.sampled_from(ZONES), day=DAYS, minutes=MINUTES, offset=st.none() | st.integers(-720, 840))
def test_a_bare_day_of_a_filter_begins_where_the_history_is(
    zone: str, day: date, minutes: int, offset: int | None
) -> None:
    clock = datetime.combine(day, time()) + timedelta(minutes=minutes - 720)
    at = clock if offset is None else clock.replace(tzinfo=timezone(timedelta(minutes=offset)))
    midnight = datetime.combine(day, time(), tzinfo=ZoneInfo(zone))
    read = parse_time(at.isoformat(), zone=ZoneInfo(zone))
    assert read is not None
    with tempfile.TemporaryDirectory() as folder:
        chosen = Settings(path=Path(folder) / "m.db", embedder="none", zone=zone)
        with Memory.open(counter=EstimateCounter(), settings=chosen) as memory:
            memory.add({"role": "user", "content": "kettle", "timestamp": at.isoformat()}, user_id="ann")
            found = {
                name: len(memory.search("kettle", user_id="ann", **{name: day.isoformat()}))  # type: ignore[arg-type]
                for name in ("after", "before", "as_of")
            }
    later, same = (
        read.at.astimezone(UTC) > midnight.astimezone(UTC),
        read.at.astimezone(UTC) == midnight.astimezone(UTC),
    )
    assert found == {"after": later or same, "before": not (later or same), "as_of": not later}


def test_a_late_evening_west_of_utc() -> None:
    with tempfile.TemporaryDirectory() as folder:
        chosen = Settings(path=Path(folder) / "m.db", embedder="none", zone="America/New_York")
        with Memory.open(counter=EstimateCounter(), settings=chosen) as memory:
            for number, at in enumerate(
                ("2024-05-08T23:30-05:00", 1715225400, "2024-05-08T23:30", "2024-05-09T03:59Z")
            ):
                message = {"role": "user", "content": f"kettle {number}", "timestamp": at}
                memory.add(message, user_id="ann", session_id=f"s{number}")
            corpus = memory.history("ann").corpus()
            on_the_ninth = said_around(corpus, named_dates(told(date(2024, 5, 9)))) == 1
            names = [turn.text for turn in memory.history("ann").turns()]
            assert dict(zip(names, on_the_ninth.tolist(), strict=True)) == {
                "kettle 0": False,
                "kettle 1": False,  # seconds are an instant, shown where the history is
                "kettle 2": False,
                "kettle 3": True,  # said to be in UTC
            }
