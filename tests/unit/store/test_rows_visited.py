"""What a call of one user costs doesn't depend on the others: no statement walks through their rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from store_samples import draft, entry, put_vectors

from backread.store.base import TURNS
from backread.store.history import History, Scope
from backread.store.sqlite import SqliteStore

SHARED = {"embedders", "meta", "CONSTANT"}  # a handful of rows, however many users there are
Call = Callable[[SqliteStore], object]


def _write(store: SqliteStore, user: str, number: int) -> list[str]:
    items = [
        draft(
            f"{user} keeps a lamp and a kettle {at}",
            f"s{at // 10}",
            external_id=f"m{at}" if at % 2 else None,
            supersedes="m1" if at == 7 else None,
        )
        for at in range(number)
    ]
    return [result.turn_id or "" for result in store.append(user, items)]


def _fill(store: SqliteStore, foreign: int) -> None:
    """Ann's hundred turns with entries, vectors and replies, among those of `foreign` others."""
    for number in range(foreign):
        ids = _write(store, f"u{number}", 60)
        store.commit(f"u{number}", "lean", 0, [entry(f"e{at}", "a lamp", ids[at]) for at in range(20)], state=b"1")
        put_vectors(store, f"u{number}", "m")
        store.replies.put(f"k{number}", '"fish"', user_id=f"u{number}", turn_ids=ids[:1])
    ids = _write(store, "ann", 100)
    store.commit("ann", "lean", 0, [entry(f"e{at}", "a lamp", ids[at], ids[at + 1]) for at in range(20)], state=b"1")
    put_vectors(store, "ann", "m")
    store.replies.put("own", '"lamp"', user_id="ann", turn_ids=ids[:2])


def _search(store: SqliteStore) -> object:
    corpus = History(store, "ann").corpus("turn", Scope(roles=["user"]))
    return corpus.text_scores({"lamp": 1.0}), corpus.top_text({"lamp": 1.0}, 5), corpus.turns_of([1, 2])


# In this order: the last ones change what is there.
CALLS: dict[str, Call] = {
    "sessions": lambda store: store.sessions("ann"),
    "layout": lambda store: store.layout("ann", "lean/event"),
    "turns": lambda store: list(History(store, "ann").turns()),
    "turns by id": lambda store: History(store, "ann").turns_by_id(["m1", "m3"]),
    "no such turn": lambda store: store.docs_of_turns("ann", ["absent"]),
    "successors": lambda store: History(store, "ann").successors(["m1"]),
    "search": _search,
    "vectors": lambda store: store.vectors("ann", TURNS, "m"),
    "pending": lambda store: store.pending("ann", TURNS, "m", 10),
    "pending count": lambda store: store.pending_count("ann", "m"),
    "corpora": lambda store: store.corpora("ann"),
    "entries": lambda store: store.entries("ann", "lean", "event"),
    "no such entries": lambda store: store.entries("ann", "absent"),
    "state": lambda store: store.strategy_state("ann", "lean"),
    "turns to rebuild": lambda store: store.turns_to_rebuild("ann", "lean"),
    "stats": lambda store: store.stats("ann"),
    "reply": lambda store: store.replies.get("own"),
    "append": lambda store: store.append("ann", [draft("one more lamp", external_id="m1000", supersedes="m3")]),
    "commit": lambda store: store.commit("ann", "lean", 1, [entry("e3", "a lamp")], drop=["e5"], state=b"2"),
    "delete a turn": lambda store: store.delete("ann", turn_ids=["m9"], scrub=False),
    "delete a session": lambda store: store.delete("ann", session_id="s3", scrub=False),
    "replies": lambda store: store.replies.drop("ann"),
    "text index": lambda store: store.rebuild_text_index("ann"),
    "delete the user": lambda store: store.delete("ann", scrub=False),
}


@contextmanager
def watched(store: SqliteStore) -> Iterator[tuple[sqlite3.Connection, list[str], list[int]]]:
    """The connection of a store used by one thread, what it is asked, and the steps SQLite's machine takes."""
    (connection,) = store._pool._idle
    asked: list[str] = []
    steps = [0]

    def step() -> None:
        steps[0] += 1

    connection.set_trace_callback(asked.append)
    connection.set_progress_handler(step, 1)
    yield connection, asked, steps
    connection.set_trace_callback(None)
    connection.set_progress_handler(None, 0)


def _scanned(db: sqlite3.Connection, statement: str) -> list[str]:
    """Tables with rows of users that a statement walks through from end to end."""
    if statement.split(None, 1)[0] not in ("SELECT", "INSERT", "UPDATE", "DELETE"):
        return []
    names: set[str] = set()
    for *_, detail in db.execute(f"EXPLAIN QUERY PLAN {statement}"):
        words = detail.split()
        if words[0] == "SCAN" and not words[1].startswith("(subquery"):
            names.add(words[1])
    return sorted(names - SHARED)


def test_no_statement_of_a_user_s_call_walks_through_a_table(tmp_path: Path) -> None:
    scans: dict[str, dict[str, list[str]]] = {}
    statements = set()
    with closing(SqliteStore(tmp_path / "m.db")) as store:
        _fill(store, 2)
    with closing(SqliteStore(tmp_path / "m.db")) as store:
        for name, call in CALLS.items():
            with watched(store) as (db, asked, _):
                call(store)
                for statement in list(asked):
                    statements.add(statement)
                    found = _scanned(db, statement)
                    if found:
                        scans.setdefault(name, {})[statement] = found
    assert len(statements) > 80
    assert scans == {}


def test_the_steps_of_a_call_do_not_grow_with_the_others(tmp_path: Path) -> None:
    steps: dict[str, list[int]] = {}
    for foreign in (1, 25):
        path = tmp_path / f"{foreign}.db"
        with closing(SqliteStore(path)) as store:
            _fill(store, foreign)
        with closing(SqliteStore(path)) as store:  # as a process that has just opened it
            for name, call in CALLS.items():
                with watched(store) as (_, _, counted):
                    call(store)
                    steps.setdefault(name, []).append(counted[0])
    grown = {name: (few, many) for name, (few, many) in steps.items() if many > few * 1.02 + 40}
    assert grown == {}
