"""A small store with one of everything, for tests that damage or erase it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np

from backread.store.base import TURNS, Progress, TurnStore
from backread.store.sqlite import SqliteStore
from backread.types import EntryDraft, Source, TurnDraft

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ATTACHED = ({"type": "image", "url": "https://example.org/attic.png", "size": [3, 4]},)


def draft(text: str, session_id: str = "s1", role: str = "user", **values: object) -> TurnDraft:
    """A draft with the fields a test doesn't care about filled in."""
    return TurnDraft(session_id, role, text, **values)  # type: ignore[arg-type]


def entry(name: str, text: str, *turn_ids: str, kind: str = "event") -> EntryDraft:
    """An entry of the strategy "lean" over whole turns."""
    sources = tuple(Source(turn_id, 0, 3) for turn_id in turn_ids)
    return EntryDraft(name, "lean", kind, {"name": name}, text, sources, NOON, "model-x", "abcd")


def put_vectors(store: TurnStore, user: str, embedder: str, *, corpus: str = TURNS, passages: int = 1) -> None:
    """Vectors for all units of a corpus; the first one gets `passages` of them. Rows are unit vectors."""
    docs = np.sort(store.layout(user, corpus).docs)
    owners = np.concatenate([np.full(passages, docs[0]), docs[1:]])
    matrix = np.random.default_rng(len(owners)).standard_normal((len(owners), 4)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    before = store.progress(user, corpus, embedder)
    assert store.put_vectors(user, corpus, embedder, before, owners, matrix, Progress(int(docs[-1]) + 1, 0))


def fill(store: TurnStore) -> list[str]:
    """Two users with turns of every kind, two embedders, entries and a rebuild to do; ann's turn ids in arrival order.

    Ann's last turn is the newest row of the store, and of embedder "n" only two passages of her first turn are there.
    """
    store.append("bo", [draft("A kettle of fish"), draft("Coins and stamps", "s2", "assistant")])
    ids = [
        item.turn_id or ""
        for turn in (
            draft(
                "The blue kettle is in the attic",
                speaker="Ann",
                external_id="m-1",
                caption="a kettle under dust",
                attachments=ATTACHED,
                said_at=NOON.astimezone(timezone(timedelta(hours=2))),
                said_text="at noon",
            ),
            draft("It stays there for now", role="assistant"),
            draft("The blue kettle is in the cellar", supersedes="m-1", said_at=NOON + timedelta(hours=1)),
            draft("Nothing is dated here", "s2"),
            draft("A lamp to forget", "s2"),
            draft("A lamp to keep", "s2"),
            draft("Ten lamps more", "s3", said_at=NOON - timedelta(days=9), offset_known=False),
        )
        for item in store.append("ann", [turn])
    ]
    drafts = [
        entry("e1", "kettle in the attic", ids[0], ids[1]),
        entry("e2", "kettle in the cellar", ids[2]),
        entry("e3", "owns lamps", ids[6], kind="profile"),
        entry("e4", "two lamps", ids[4], ids[5]),
    ]
    store.commit("ann", "lean", 0, drafts, state=b"state")
    for user in ("ann", "bo"):
        put_vectors(store, user, "m", passages=2)
    put_vectors(store, "ann", "m", corpus="lean/event")
    first = int(store.layout("ann").docs.min())
    two = np.eye(2, 4, dtype=np.float32)
    store.put_vectors("ann", TURNS, "n", Progress(0, 0), np.array([first] * 2), two, Progress(first, 2))
    if isinstance(store, SqliteStore):
        store.replies.put("k0", '"a lamp"', user_id="ann", turn_ids=[ids[4]])
        store.replies.put("k1", '"in the attic"', user_id="ann", turn_ids=ids[:2])
    store.delete("ann", turn_ids=[ids.pop(4)])
    if isinstance(store, SqliteStore):
        store.replies.put("k2", '"fish"', user_id="bo", turn_ids=None)
    return ids


def build(path: Path) -> list[str]:
    """A closed store of `fill` at `path`, its log emptied into the file; ann's turn ids."""
    with closing(SqliteStore(path)) as store:
        return fill(store)


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection with a function `flip` that changes a value by a bit or by one; commits at the end."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.create_function("flip", 1, flip)
        yield connection


def flip(value: bytes | str | int) -> bytes | str | int:
    """The value with one bit of its middle byte turned, its last character changed, or one more."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("y" if value[-1] == "x" else "x")
    middle = len(value) // 2
    return value[:middle] + bytes([value[middle] ^ 1]) + value[middle + 1 :]


def dump(path: Path, tables: dict[str, str]) -> dict[str, list[tuple[object, ...]]]:
    """Rows of each table: of the columns named."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return {
            table: connection.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}").fetchall()
            for table, columns in tables.items()
        }
