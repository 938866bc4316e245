"""The timeline: a cell for each month, a bar for each day."""

from __future__ import annotations

from datetime import UTC, datetime

from backread.server.web.timeline import HEIGHT, Bar, months
from backread.types import Session


def session(name: str, turns: int, at: datetime | None) -> Session:
    return Session(name, turns, at, at)


def test_months_without_sessions_are_there_too() -> None:
    made = months(
        [
            session("a", 4, datetime(2024, 12, 31, 23, 0, tzinfo=UTC)),
            session("b", 16, datetime(2025, 2, 1, 8, 0, tzinfo=UTC)),
            session("c", 9, datetime(2025, 2, 28, 8, 0, tzinfo=UTC)),
            session("d", 1, None),
        ]
    )
    assert [(month.name, month.days, month.sessions, month.turns, month.latest) for month in made] == [
        ("2024-12", 31, 1, 4, 0),
        ("2025-01", 31, 0, 0, None),
        ("2025-02", 28, 2, 25, 2),
    ]
    # By the root of the share: sqrt(4/16) = 1/2 and sqrt(9/16) = 3/4 of the height.
    assert made[0].bars == (Bar(30, HEIGHT // 2),)
    assert made[2].bars == (Bar(0, HEIGHT), Bar(27, HEIGHT * 3 // 4))


def test_sessions_of_one_day_share_a_bar() -> None:
    day = datetime(2025, 5, 5, 8, 0, tzinfo=UTC)
    (month,) = months([session("a", 3, day), session("b", 5, day.replace(hour=20))])
    assert month.bars == (Bar(4, HEIGHT),)
    assert (month.sessions, month.turns) == (2, 8)


def test_a_day_of_one_turn_stays_visible() -> None:
    made = months(
        [session("a", 1, datetime(2025, 5, 5, tzinfo=UTC)), session("b", 9999, datetime(2025, 5, 6, tzinfo=UTC))]
    )
    assert made[0].bars[0].height == 3


def test_nothing_dated_gives_no_timeline() -> None:
    assert months([]) == []
    assert months([session("a", 3, None)]) == []


def test_a_wrong_date_far_away_does_not_make_thousands_of_cells() -> None:
    made = months([session("a", 1, datetime(1, 1, 1, tzinfo=UTC)), session("b", 1, datetime(2025, 5, 6, tzinfo=UTC))])
    assert (len(made), made[0].name, made[-1].name) == (600, "1975-06", "2025-05")
