"""Derived entries, their links to turns, and the state of the strategies that made them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from backread.arrays import np
from backread.errors import StaleVersionError
from backread.store.base import entry_corpus
from backread.store.indexing import TermHasher
from backread.store.layout import UNKNOWN_TIME, Layout
from backread.store.rows import checksum, dec, enc, from_us, to_us
from backread.store.turns import corpus_pk, hash_terms, require_turn
from backread.store.vectors import erase_vectors
from backread.text.analysis import index_terms
from backread.types import Entry, EntryDraft, Source

__all__ = ["commit", "drop_entries", "entry_sum", "link_sum", "read_entries", "read_entry_layout", "state_sum"]

_FIELDS = ("strategy", "kind", "entry_id", "said_us", "said_offset", "version", "model", "prompt_hash", "data")


def entry_sum(user_id: bytes, row: dict[str, Any]) -> bytes:
    """Checksum of an entry row; its links have their own, and are counted in here."""
    values = (user_id, *(row[name] for name in _FIELDS), row["index_text"], row["links"])
    return checksum(value.encode() if isinstance(value, str) else value for value in values)


def link_sum(entry_doc: int, number: int, turn_doc: int, start: int, end: int | None) -> bytes:
    """Checksum of a link row."""
    return checksum((entry_doc, number, turn_doc, start, end), size=8)


def state_sum(user_id: bytes, strategy: bytes, version: int, state: bytes | None) -> bytes:
    """Checksum of a strategy's state."""
    return checksum((user_id, strategy, version, state), size=8)


def strategy_state(db: sqlite3.Connection, user_pk: int, strategy: str) -> tuple[int, bytes | None]:
    """(version, state) of a strategy; (0, None) before its first commit."""
    row: tuple[int, bytes | None] | None = db.execute(
        "SELECT version, state FROM strategy_states WHERE user_pk = ? AND strategy = ?", (user_pk, enc(strategy))
    ).fetchone()
    return row or (0, None)


def set_state(
    db: sqlite3.Connection, user_pk: int, user_id: bytes, strategy: bytes, version: int, state: bytes | None
) -> None:
    """Write a strategy's version and state."""
    db.execute(
        "INSERT OR REPLACE INTO strategy_states VALUES (?, ?, ?, ?, ?)",
        (user_pk, strategy, version, state, state_sum(user_id, strategy, version, state)),
    )


def commit(
    db: sqlite3.Connection,
    secret: bytes,
    user: tuple[int, str],
    strategy: str,
    expected_version: int,
    put: Iterable[EntryDraft],
    drop: Iterable[str],
    state: bytes | None,
    rebuilt: Iterable[str],
) -> int:
    """Write entries in the open transaction; see `TurnStore.commit`."""
    user_pk, user_id = user
    version, old_state = strategy_state(db, user_pk, strategy)
    if version != expected_version:
        raise StaleVersionError(
            f"{strategy}: the commit is based on version {expected_version}, the history is at {version}",
            hint="read the history again and build on what it holds now",
        )
    put = list(put)
    replaced = [*drop, *(draft.entry_id for draft in put)]
    docs = [
        row[0]
        for entry_id in replaced
        for row in db.execute(
            "SELECT doc FROM entries WHERE user_pk = ? AND strategy = ? AND entry_id = ?",
            (user_pk, enc(strategy), enc(entry_id)),
        )
    ]
    drop_entries(db, docs)
    for draft in put:
        _insert(db, secret, user, draft, version + 1)
    db.executemany(
        "DELETE FROM rebuilds WHERE user_pk = ? AND strategy = ? AND turn_doc = ?",
        [(user_pk, enc(strategy), require_turn(db, user_pk, turn_id)) for turn_id in rebuilt],
    )
    kept = old_state if state is None else state
    set_state(db, user_pk, enc(user_id) or b"", enc(strategy) or b"", version + 1, kept)
    db.execute("UPDATE users SET version = version + 1 WHERE user_pk = ?", (user_pk,))
    return version + 1


def _insert(db: sqlite3.Connection, secret: bytes, user: tuple[int, str], draft: EntryDraft, version: int) -> None:
    user_pk, user_id = user
    name = entry_corpus(draft.strategy, draft.kind)
    terms, length = index_terms(draft.index_text)
    offset = draft.said_at.utcoffset() if draft.said_at else None
    row: dict[str, Any] = {
        "user_pk": user_pk,
        "corpus_pk": corpus_pk(db, user_pk, name),
        "said_us": None if draft.said_at is None else to_us(draft.said_at),
        "said_offset": None if offset is None else round(offset.total_seconds() / 60),
        "version": version,
        "length": length,
        "strategy": enc(draft.strategy),
        "kind": enc(draft.kind),
        "entry_id": enc(draft.entry_id),
        "model": enc(draft.model),
        "prompt_hash": enc(draft.prompt_hash),
        "data": json.dumps(draft.data, ensure_ascii=True, sort_keys=True, separators=(",", ":")),
        "index_text": enc(draft.index_text),
        "links": len(draft.sources),
    }
    row["sum"] = entry_sum(enc(user_id) or b"", row)
    doc = db.execute(
        "INSERT INTO entries(user_pk, corpus_pk, said_us, said_offset, version, length, strategy, kind, entry_id,"
        " model, prompt_hash, sum, data, index_text) VALUES (:user_pk, :corpus_pk, :said_us, :said_offset, :version,"
        " :length, :strategy, :kind, :entry_id, :model, :prompt_hash, :sum, :data, :index_text)",
        row,
    ).lastrowid
    assert doc is not None
    for number, source in enumerate(draft.sources):
        link = (doc, number, require_turn(db, user_pk, source.turn_id), source.start, source.end)
        db.execute("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?)", (*link, link_sum(*link)))
    hashed = hash_terms(terms, TermHasher(secret, enc(user_id) or b"", name))
    db.executemany(
        "INSERT INTO postings VALUES (?, ?, ?, ?)",
        sorted((row["corpus_pk"], term, doc, tf) for term, tf in hashed.items()),
    )


def drop_entries(db: sqlite3.Connection, docs: Iterable[int]) -> int:
    """Erase entries with their links, postings and vectors; returns how many there were."""
    dropped = 0
    for doc in docs:
        row = db.execute("SELECT corpus_pk FROM entries WHERE doc = ?", (doc,)).fetchone()
        if row is None:
            continue
        dropped += 1
        db.execute("DELETE FROM links WHERE entry_doc = ?", (doc,))
        db.execute("DELETE FROM postings WHERE corpus_pk = ? AND doc = ?", (row[0], doc))
        erase_vectors(db, row[0], [doc])
        db.execute("DELETE FROM entries WHERE doc = ?", (doc,))
    return dropped


_READ = (
    "SELECT doc, entry_id, strategy, kind, data, index_text, said_us, said_offset, model, prompt_hash, version"
    " FROM entries WHERE user_pk = ?"
)


def read_entries(
    db: sqlite3.Connection,
    user_pk: int,
    *,
    strategy: str | None = None,
    kind: str | None = None,
    docs: Sequence[int] | None = None,
) -> list[Entry]:
    """Entries of a strategy by kind, time and arrival, unknown times last; or those of `docs`, in that order."""
    if docs is None:
        rows = db.execute(
            f"{_READ} AND strategy = ?2 AND (?3 IS NULL OR kind = ?3) ORDER BY kind, said_us IS NULL, said_us, doc",
            (user_pk, enc(strategy), enc(kind)),
        ).fetchall()
    else:
        found = (db.execute(f"{_READ} AND doc = ?2", (user_pk, doc)).fetchone() for doc in docs)
        rows = [row for row in found if row is not None]
    return [
        Entry(
            entry_id=dec(row[1]),
            strategy=dec(row[2]),
            kind=dec(row[3]),
            data=json.loads(row[4]),
            index_text=dec(row[5]),
            sources=_sources(db, row[0]),
            said_at=from_us(row[6], row[7]),
            model=dec(row[8]),
            prompt_hash=dec(row[9]),
            version=row[10],
        )
        for row in rows
    ]


def _sources(db: sqlite3.Connection, doc: int) -> tuple[Source, ...]:
    rows = db.execute(
        "SELECT turn_id, start, end FROM links JOIN turns ON turns.doc = turn_doc WHERE entry_doc = ? ORDER BY number",
        (doc,),
    )
    return tuple(Source(turn_id, start, end) for turn_id, start, end in rows)


def read_entry_layout(db: sqlite3.Connection, pk: int) -> Layout:
    """Layout of a corpus of entries: by time, then arrival, unknown times last; one session, no speakers."""
    rows = db.execute(
        "SELECT doc, said_us, length FROM entries WHERE corpus_pk = ? ORDER BY said_us IS NULL, said_us, doc", (pk,)
    ).fetchall()
    nobody = np.zeros(len(rows), dtype=np.int32)
    return Layout(
        docs=np.array([row[0] for row in rows], dtype=np.int64),
        session=nobody,
        length=np.array([row[2] for row in rows], dtype=np.float32),
        said_us=np.array([UNKNOWN_TIME if row[1] is None else row[1] for row in rows], dtype=np.int64),
        cues=nobody.astype(np.int8),
        role=nobody,
        speaker=nobody,
        session_ids=("",),
        roles=("entry",),
        speakers=("",),
    )
