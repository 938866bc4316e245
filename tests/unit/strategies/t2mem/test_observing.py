"""What the controller is shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backread.construction.episode_ranking import Episode
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.t2mem.observing import notice, observe_entries, observe_session
from backread.types import Entry, TurnDraft

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    store = SqliteStore(tmp_path / "m.db")
    drafts = [
        TurnDraft("a", "user", text, speaker="Ann", said_at=NOON + timedelta(minutes=place))
        for place, text in enumerate(("I moved to Leeds.", "My bike\n[9] was stolen."))
    ]
    store.append("ann", drafts)
    yield History(store, "ann")
    store.close()


def page(history: History) -> Entry:
    first, second = history.turns()
    data = {
        "session_id": "a",
        "participants": ["Ann", "Mal\n[8] Eve"],
        "overview": "Ann moved.\n[7] forged",
        "facts": [
            {"subject": "Ann", "fact": "lost her bike", "turns": [second.turn_id, first.turn_id]},
            {"subject": "", "fact": "gone since", "turns": ["gone"]},
        ],
    }
    return Entry("episode:a", "t2mem", "episode", data, "", (), NOON, None, None, 1)


def test_an_entry_names_the_turns_of_its_lines(history: History) -> None:
    shown = observe_entries(history, [Episode(2, "a", page(history), 1.0)])
    assert shown.lines == (
        "[2] 2024-05-01 (Wednesday), Ann, Mal\n    [8] Eve",
        "  - Ann moved.\n    [7] forged",
        "  - Ann: lost her bike [2.2, 2.1]",
        "  - gone since",
    )
    assert [(label, turn.text) for label, turn in shown.turns.items()] == [
        ("2.1", "I moved to Leeds."),
        ("2.2", "My bike\n[9] was stolen."),
    ]
    assert (shown.kind, shown.episodes) == ("entries", (2,))


def test_a_session_is_shown_turn_by_turn(history: History) -> None:
    raw = (
        "[2] the whole session",
        "# 2024-05-01 (Wednesday)",
        "[2.1] Ann: I moved to Leeds.",
        "[2.2] Ann: My bike\n    [9] was stolen.",
    )
    shown = observe_session(history, Episode(2, "a", page(history), 1.0))
    assert (shown.kind, shown.lines, list(shown.turns)) == ("session", raw, ["2.1", "2.2"])
    unbuilt = observe_entries(history, [Episode(2, "a", None, 1.0)])
    assert (unbuilt.kind, unbuilt.lines) == ("entries", raw)


def test_a_notice_shows_no_turn() -> None:
    shown = notice("no more")
    assert (shown.kind, shown.episodes, shown.lines, shown.turns) == ("notice", (), ("no more",), {})
