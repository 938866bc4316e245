"""Order and rounds, worked by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from store_samples import NOON, draft

from backread.store.layout import UNKNOWN_TIME, Layout
from backread.store.sqlite import SqliteStore
from backread.text.cues import turn_cues
from backread.types import Turn, TurnDraft


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        yield store


def said(store: SqliteStore, user: str = "ann") -> list[str]:
    return [turn.text for turn in store.turns_by_doc(user, store.layout(user).docs.tolist())]


def layout_of(store: SqliteStore, *speakers: str) -> Layout:
    """One session of turns; "user" and "assistant" are roles, other names are people."""
    drafts = [
        draft(f"turn {n}", role=name) if name in ("user", "assistant") else draft(f"turn {n}", "s1", "participant")
        for n, name in enumerate(speakers)
    ]
    named = [
        d if name == d.role else TurnDraft(d.session_id, d.role, d.text, name)
        for d, name in zip(drafts, speakers, strict=True)
    ]
    store.append("ann", named)
    return store.layout("ann")


@pytest.mark.parametrize(
    ("speakers", "rounds"),
    [
        (["user", "assistant", "user", "assistant"], [0, 0, 1, 1]),
        (["user", "user", "assistant", "user"], [0, 0, 0, 1]),
        (["assistant", "user", "assistant", "user"], [0, 1, 1, 2]),
        (["assistant", "assistant"], [0, 0]),
        (["user"], [0]),
        (["Ann", "Bo", "Ann", "Bo"], [0, 0, 1, 1]),
        (["Ann", "Ann", "Bo", "Bo", "Ann", "Cy", "Bo"], [0, 0, 0, 0, 1, 1, 1]),
        (["Bo", "user", "Bo", "user"], [0, 1, 1, 2]),
        ([], []),
    ],
)
def test_rounds(store: SqliteStore, speakers: list[str], rounds: list[int]) -> None:
    assert layout_of(store, *speakers).rounds.tolist() == rounds


def test_a_round_ends_with_its_session(store: SqliteStore) -> None:
    store.append("ann", [draft("a", "s1"), draft("b", "s2", "assistant"), draft("c", "s2"), draft("d", "s3")])
    assert store.layout("ann").rounds.tolist() == [0, 1, 2, 3]


def test_the_opening_side_is_found_in_each_session(store: SqliteStore) -> None:
    """In the second session no one has the role "user", so whoever speaks first opens."""
    store.append(
        "ann",
        [
            draft("a", "s1", "assistant"),
            draft("b", "s1"),
            draft("c", "s2", "assistant"),
            draft("d", "s2", "tool"),
            draft("e", "s2", "assistant"),
        ],
    )
    assert store.layout("ann").rounds.tolist() == [0, 1, 2, 2, 3]


def test_rows_of_docs_and_of_docs_that_are_not_there(store: SqliteStore) -> None:
    layout = layout_of(store, "user", "assistant", "user")
    docs = layout.docs
    assert layout.rows(docs[::-1]).tolist() == [2, 1, 0]
    assert layout.rows(np.array([docs[1], 10**9, 0, -5])).tolist() == [1, -1, -1, -1]
    assert layout.rows(np.empty(0, np.int64)).tolist() == []
    assert store.layout("nobody").rows(docs).tolist() == [-1, -1, -1]


def test_a_layout_row_by_row(store: SqliteStore) -> None:
    store.append(
        "ann",
        [
            draft("undated opening", "s2"),
            draft("I live in Ghent now", "s1", speaker="Ann", said_at=NOON),
            draft("Good", "s1", "assistant", said_at=NOON - timedelta(minutes=5)),
        ],
    )
    layout = store.layout("ann")
    first, second, third = (store.docs_of_turns("ann", [t.turn_id])[t.turn_id] for t in turns_by_arrival(store))
    assert layout.docs.tolist() == [third, second, first]
    assert layout.session.tolist() == [0, 0, 1]
    assert layout.session_ids == ("s1", "s2")
    assert layout.length.tolist() == [1, 6, 2]
    noon = int(NOON.timestamp()) * 1_000_000
    assert layout.said_us.tolist() == [noon - 300_000_000, noon, UNKNOWN_TIME]
    assert [layout.speakers[code] for code in layout.speaker] == ["assistant", "Ann", "user"]
    assert [layout.roles[code] for code in layout.role] == ["assistant", "user", "user"]
    assert layout.cues.tolist() == [turn_cues(text) for text in ("Good", "I live in Ghent now", "undated opening")]
    assert layout.supersedes == {}
    assert layout.size == 3


def turns_by_arrival(store: SqliteStore) -> list[Turn]:
    return store.turns_by_doc("ann", np.sort(store.layout("ann").docs).tolist())


def test_a_turn_can_replace_and_be_replaced(store: SqliteStore) -> None:
    for text, old in (("one", None), ("two", "m-one"), ("three", "m-two")):
        store.append("ann", [draft(text, external_id=f"m-{text}", supersedes=old)])
    one, two, three = store.layout("ann").docs.tolist()
    assert store.layout("ann").supersedes == {two: one, three: two}
    assert [rows.tolist() for rows in store.layout("ann").chains] == [[0, 1, 2], [one, one, one]]


DAT_05 = [
    ("three", "2024-05-01T10:00:02+00:00"),
    ("one", "2024-05-01T10:00:00+00:00"),
    ("two a", "2024-05-01T10:00:01+00:00"),
    ("two b", "2024-05-01T12:00:01+02:00"),
    ("unknown time", None),
    ("from the future", "2093-01-01T00:00:00+00:00"),
]


def late(text: str, at: str | None) -> TurnDraft:
    return draft(text, said_at=None if at is None else datetime.fromisoformat(at))


def test_turns_one_by_one_in_any_order_of_arrival(store: SqliteStore) -> None:  # DAT-05
    """A turn of unknown time keeps its place after the one that arrived before it."""
    for text, at in DAT_05:
        store.append("ann", [late(text, at)])
    for text, at in reversed(DAT_05):
        store.append("bo", [late(text, at)])
    assert said(store) == ["one", "two a", "two b", "unknown time", "three", "from the future"]
    assert said(store, "bo") == ["one", "two b", "two a", "three", "from the future", "unknown time"]
    assert set(said(store)) == set(said(store, "bo"))
    (session,) = store.sessions("ann")
    assert session.started_at == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert session.ended_at == datetime(2093, 1, 1, tzinfo=UTC)
    assert session.turns == 6


def test_one_batch_gives_the_order_of_single_turns(store: SqliteStore) -> None:
    store.append("ann", [late(text, at) for text, at in DAT_05])
    for text, at in DAT_05:
        store.append("bo", [late(text, at)])
    assert said(store) == said(store, "bo")


def test_times_at_the_ends_of_the_calendar(store: SqliteStore) -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    store.append("ann", [draft("last", said_at=last), draft("first", said_at=first)])
    turns = store.turns_by_doc("ann", store.layout("ann").docs.tolist())
    assert [(turn.text, turn.said_at) for turn in turns] == [("first", first), ("last", last)]


@pytest.mark.parametrize(
    "at",
    [
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
    ],
)
def test_a_time_outside_the_calendar_in_utc_is_refused(store: SqliteStore, at: datetime) -> None:
    kept, refused = store.append("ann", [draft("kept"), draft("refused", said_at=at)])
    assert kept.new
    assert "outside the years" in str(refused.problem)
    assert said(store) == ["kept"]


def test_an_offset_that_leads_out_of_the_calendar_is_shown_in_utc(store: SqliteStore) -> None:
    at = datetime(1, 1, 1, 0, 0, 0, tzinfo=timezone(-timedelta(seconds=31)))
    store.append("ann", [draft("early", said_at=at)])
    (turn,) = store.turns_by_doc("ann", store.layout("ann").docs.tolist())
    assert turn.said_at == at
