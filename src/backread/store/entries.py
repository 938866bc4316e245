"""Derived entries, their links to turns, and the state of the strategies that made them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any

from backread.arrays import np
from backread.errors import StaleVersionError
from backread.store.agreement import agree_on_corpora, agree_on_entries
from backread.store.base import entry_corpus
from backread.store.indexing import TermHasher
from backread.store.layout import UNKNOWN_TIME, Layout
from backread.store.rows import DamagedRowError, checksum, dec, enc, from_us, of_kinds, to_us
from backread.store.turns import corpus_pk, hash_terms, require_turn
from backread.store.vectors import erase_vectors
from backread.text.analysis import index_terms
from backread.types import Entry, EntryDraft, Source

__all__ = ["SHOWN", "commit", "drop_entries", "entry_sum", "link_sum", "read_entries", "read_entry_layout", "state_sum"]

SHOWN = -1
"""`end` of a link that cites nothing of its turn: the model that wrote the entry saw it."""

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
    row = db.execute(
        "SELECT u.user_id, s.version, state, sum FROM strategy_states s LEFT JOIN users u ON u.user_pk = s.user_pk"
        " WHERE s.user_pk = ? AND strategy = ?",
        (user_pk, enc(strategy)),
    ).fetchone()
    if row is None:
        return 0, None
    user_id, version, state, stored = row
    if not of_kinds(row, (bytes, int, (bytes, NoneType))) or stored != state_sum(
        user_id, enc(strategy) or b"", version, state
    ):
        raise DamagedRowError(f"the state of {strategy!r} does not match its checksum")
    return version, state


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
    cited = {source.turn_id for source in draft.sources}
    links = [
        *draft.sources,
        *(Source(turn_id, 0, SHOWN) for turn_id in dict.fromkeys(draft.shown) if turn_id not in cited),
    ]
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
        "links": len(links),
    }
    row["sum"] = entry_sum(enc(user_id) or b"", row)
    doc = db.execute(
        "INSERT INTO entries(user_pk, corpus_pk, said_us, said_offset, version, length, strategy, kind, entry_id,"
        " model, prompt_hash, sum, data, index_text) VALUES (:user_pk, :corpus_pk, :said_us, :said_offset, :version,"
        " :length, :strategy, :kind, :entry_id, :model, :prompt_hash, :sum, :data, :index_text)",
        row,
    ).lastrowid
    assert doc is not None
    for number, source in enumerate(links):
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
    "SELECT e.doc, entry_id, strategy, kind, data, index_text, said_us, said_offset, model, prompt_hash, e.version,"
    " sum, u.user_id FROM entries e LEFT JOIN users u ON u.user_pk = e.user_pk WHERE e.user_pk = ?1"
)
_NAMES = (
    *("doc", "entry_id", "strategy", "kind", "data", "index_text", "said_us", "said_offset", "model", "prompt_hash"),
    *("version", "sum", "user_id"),
)
_KINDS: tuple[type | tuple[type, ...], ...] = (
    *(int, bytes, bytes, bytes, str, bytes, (int, NoneType), (int, NoneType), (bytes, NoneType), (bytes, NoneType)),
    *(int, bytes, bytes),
)
# A turn's id is read from its table, and looked up again in the index over it.
_LINKS = (
    "SELECT number, turn_doc, start, end, links.sum, t.turn_id, i.doc FROM links LEFT JOIN turns t ON t.doc = turn_doc"
    " LEFT JOIN turns i ON i.user_pk = ?2 AND i.turn_id = t.turn_id WHERE entry_doc = ?1 ORDER BY number"
)


def read_entries(
    db: sqlite3.Connection,
    user_pk: int,
    *,
    strategy: str | None = None,
    kind: str | None = None,
    docs: Sequence[int] | None = None,
) -> list[Entry]:
    """Entries of a strategy by kind, time and arrival, unknown times last; or those of `docs`, in that order.

    Raises:
        DamagedRowError: one of them isn't as it was written, or some are missing from an index.
    """
    if docs is None:
        agree_on_corpora(db, user_pk)
        rows = db.execute(
            f"{_READ} AND strategy = ?2 ORDER BY kind, said_us IS NULL, said_us, doc", (user_pk, enc(strategy))
        ).fetchall()
    else:
        found = (db.execute(f"{_READ} AND doc = ?2", (user_pk, doc)).fetchone() for doc in docs)
        rows = [row for row in found if row is not None]
    entries = (_entry(db, user_pk, row) for row in rows)
    return [entry for entry in entries if kind is None or entry.kind == kind]


def _entry(db: sqlite3.Connection, user_pk: int, values: Sequence[Any]) -> Entry:
    row = dict(zip(_NAMES, values, strict=True))
    if not of_kinds(values, _KINDS):
        raise DamagedRowError(f"an entry has a value of the wrong type: {row['entry_id']!r}")
    links = _links(db, user_pk, row["doc"])
    if row["sum"] != entry_sum(row["user_id"], {**row, "links": len(links)}):
        raise DamagedRowError(f"entry {row['entry_id']!r} does not match its checksum")
    return Entry(
        entry_id=dec(row["entry_id"]),
        strategy=dec(row["strategy"]),
        kind=dec(row["kind"]),
        data=json.loads(row["data"]),
        index_text=dec(row["index_text"]),
        sources=tuple(link for link in links if link.end != SHOWN),
        said_at=from_us(row["said_us"], row["said_offset"]),
        model=dec(row["model"]),
        prompt_hash=dec(row["prompt_hash"]),
        version=row["version"],
        shown=tuple(link.turn_id for link in links if link.end == SHOWN),
    )


def _links(db: sqlite3.Connection, user_pk: int, doc: int) -> tuple[Source, ...]:
    links = []
    for number, turn_doc, start, end, stored, turn_id, found in db.execute(_LINKS, (doc, user_pk)):
        if not of_kinds((number, turn_doc, start, end), (int, int, int, (int, NoneType))) or (
            stored != link_sum(doc, number, turn_doc, start, end) or found != turn_doc
        ):
            raise DamagedRowError(f"a source of entry {doc} does not match its checksum or its turn")
        links.append(Source(turn_id, start, end))
    return tuple(links)


def read_entry_layout(db: sqlite3.Connection, pk: int, proved: int = 0) -> Layout:
    """Layout of a corpus of entries: by time, then arrival, unknown times last; one session, no speakers.

    It comes from an index, which is compared with the table for entries from doc `proved` on.

    Raises:
        DamagedRowError: they differ.
    """
    agree_on_entries(db, pk, proved)
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
