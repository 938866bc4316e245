"""Pages of a history: complete, in order, and undisturbed by what is added or deleted while somebody reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backread.errors import NotFoundError
from backread.store.history import History, Scope
from backread.store.sqlite import SqliteStore
from backread.text.times import parse_time
from backread.types import TurnDraft


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    yield opened
    opened.close()


def add(store: SqliteStore, *texts: str, session: str = "s", at: str | None = None) -> None:
    said = parse_time(at)
    drafts = [TurnDraft(session, "user", text, external_id=text, said_at=said.at if said else None) for text in texts]
    store.append("ann", drafts)


def walk(history: History, size: int, scope: Scope | None = None) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        turns, cursor = history.page(size, cursor=cursor, scope=scope)
        pages.append([turn.text for turn in turns])
        if cursor is None:
            return pages


def test_pages_in_history_order(store: SqliteStore) -> None:
    add(store, "c", "d", session="late", at="2024-05-02")
    add(store, "a", "b", session="early", at="2024-05-01")
    add(store, "e", session="late", at="2024-05-03")
    history = History(store, "ann")
    assert walk(history, 2) == [["a", "b"], ["c", "d"], ["e"]]
    assert walk(history, 5) == [["a", "b", "c", "d", "e"]]
    assert walk(history, 4, Scope(session_ids=["late"])) == [["c", "d", "e"]]
    assert walk(History(store, "nobody"), 3) == [[]]


def test_superseded_turns_are_there(store: SqliteStore) -> None:
    add(store, "a")
    store.append("ann", [TurnDraft("s", "user", "b", supersedes="a")])
    assert walk(History(store, "ann"), 1) == [["a"], ["b"]]


def test_what_is_added_meanwhile_neither_repeats_nor_hides_a_turn(store: SqliteStore) -> None:
    add(store, "b", "c", "d", at="2024-05-02")
    history = History(store, "ann")
    first, cursor = history.page(2)
    add(store, "a", at="2024-05-01")  # before the page that was read
    add(store, "e", at="2024-05-03")
    second, last = history.page(9, cursor=cursor)
    assert [turn.text for turn in first + second] == ["b", "c", "d", "e"]
    assert last is None


def test_either_turn_of_a_cursor_is_enough(store: SqliteStore) -> None:
    add(store, "a", "b", "c", "d")
    history = History(store, "ann")
    _, cursor = history.page(2)
    store.delete("ann", turn_ids=["b"])
    assert [turn.text for turn in history.page(2, cursor=cursor)[0]] == ["c", "d"]
    add(store, "b")
    _, cursor = history.page(1)
    store.delete("ann", turn_ids=["c"])
    assert [turn.text for turn in history.page(3, cursor=cursor)[0]] == ["d", "b"]
    store.delete("ann", turn_ids=["a"])
    with pytest.raises(NotFoundError, match="are gone"):
        history.page(3, cursor=cursor)


def test_a_cursor_of_another_user_is_no_cursor(store: SqliteStore) -> None:
    add(store, "a", "b")
    _, cursor = History(store, "ann").page(1)
    store.append("bo", [TurnDraft("s", "user", "mine")])
    with pytest.raises(NotFoundError):
        History(store, "bo").page(1, cursor=cursor)


def test_every_turn_once_for_every_size(store: SqliteStore) -> None:
    texts = [f"t{number}" for number in range(12)]
    add(store, *texts)
    history = History(store, "ann")
    for size in range(1, 14):
        pages = walk(history, size)
        assert [text for page in pages for text in page] == texts
        assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
        assert 1 <= len(pages[-1]) <= size


def test_a_stretch_by_its_places(store: SqliteStore) -> None:
    add(store, "c", "d", "e", session="late", at="2024-05-02")
    add(store, "a", "b", session="early", at="2024-05-01")
    history = History(store, "ann")
    late = Scope(session_ids=["late"], superseded=True)
    assert [turn.text for turn in history.turns(start=1, stop=4)] == ["b", "c", "d"]
    assert [turn.text for turn in history.turns(late, start=1)] == ["d", "e"]
    assert [turn.position for turn in history.turns(late, start=1)] == [1, 2]
    assert list(history.turns(late, start=3, stop=9)) == []


def test_what_replaces_a_turn(store: SqliteStore) -> None:
    add(store, "a", at="2024-05-01")
    for number, (old, new, at) in enumerate((("a", "b", "2024-05-02"), ("b", "c", "2024-05-03"))):
        said = parse_time(at)
        assert said is not None
        store.append("ann", [TurnDraft(f"s{number}", "user", new, external_id=new, supersedes=old, said_at=said.at)])
    history = History(store, "ann")
    assert {name: turn.text for name, turn in history.successors(["a", "b", "c", "z"]).items()} == {"a": "b", "b": "c"}
    then = parse_time("2024-05-02")
    assert then is not None
    assert list(History(store, "ann", as_of=then.at).successors(["a", "b"])) == ["a"]
    assert history.successors([]) == {}
