"""Vectors of passages in blocks of the SQLite store.

A block holds up to `capacity` rows of one corpus and one embedder: `docs` (int64, 0 marks a free row), `sums` (8 bytes
a row) and `data` (float32). Rows are written in place with `blobopen`, so adding one vector writes a page or two, not
the block. Blocks grow 4, 16, 64 rows, at most about 128 KB: a user with one turn costs little, a large one reads few.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from backread.arrays import NDArray, np
from backread.errors import ModelMismatchError
from backread.store.base import Progress
from backread.store.rows import DamagedRowError, checksum, dec, of_kinds

__all__ = [
    "ACTIVE",
    "PREVIOUS",
    "StoredVectors",
    "activate",
    "append_vectors",
    "block_docs",
    "drop_embedder",
    "embedder_in",
    "embedder_pk",
    "embedder_sum",
    "erase_vectors",
    "progress_sum",
    "read_progress",
    "read_vectors",
    "row_sum",
    "vector_scope",
]

_FLOAT, _FLOAT_BYTES = "<f4", 4
_DOC, _DOC_BYTES = "<i8", 8
_SUM_BYTES = 8
_BLOCK_BYTES = 128 * 1024
_BLOCK_ROWS = (4, 16, 64)

ACTIVE, PREVIOUS = 1, 2
"""`embedders.active`: its vectors are searched; those that were searched before, kept so that one can go back.

0 is an embedder whose vectors are being made.
"""


def embedder_pk(db: sqlite3.Connection, fingerprint: str, dimension: int | None = None) -> int | None:
    """Key of an embedder; made when missing and `dimension` is given. The first one is active.

    Raises:
        ModelMismatchError: the same fingerprint came with another dimension.
    """
    name = fingerprint.encode("utf-8", "surrogatepass")
    rows = {row[1]: row for row in _embedders(db)}
    row = rows.get(name)
    if row is None:
        if dimension is None:
            return None
        first = db.execute("SELECT count(*) = 0 FROM embedders WHERE active = ?", (ACTIVE,)).fetchone()[0]
        values = (name, dimension, ACTIVE if first else 0)
        return db.execute(
            "INSERT INTO embedders(fingerprint, dimension, active, sum) VALUES (?, ?, ?, ?)",
            (*values, embedder_sum(*values)),
        ).lastrowid
    if dimension is not None and row[2] != dimension:
        raise ModelMismatchError(f"embedder {fingerprint!r} gave {dimension} dimensions, stored are {row[2]}")
    pk: int = row[0]
    return pk


def embedder_sum(fingerprint: bytes, dimension: int, active: int) -> bytes:
    """Checksum of a row of embedders."""
    return checksum((fingerprint, dimension, active), size=_SUM_BYTES)


def _embedders(db: sqlite3.Connection) -> list[tuple[int, bytes, int, int]]:
    """(key, fingerprint, dimension, active) of all embedders: a handful, read from the table alone and proved.

    Raises:
        DamagedRowError: one of them isn't as it was written.
    """
    rows = db.execute("SELECT embedder_pk, fingerprint, dimension, active, sum FROM embedders NOT INDEXED").fetchall()
    for row in rows:
        if not of_kinds(row, (int, bytes, int, int, bytes)) or embedder_sum(*row[1:4]) != row[4]:
            raise DamagedRowError(f"embedder {row[1]!r} does not match its checksum")
    return [row[:4] for row in rows]


def embedder_in(db: sqlite3.Connection, state: int) -> tuple[int, str] | None:
    """(key, fingerprint) of the embedder that is `ACTIVE` or `PREVIOUS`, None when there is none."""
    return next(((pk, dec(name)) for pk, name, _, active in _embedders(db) if active == state), None)


def activate(db: sqlite3.Connection, embedder: int, *, keep_previous: bool) -> None:
    """Make an embedder active; the one before it becomes the previous one, or goes as all others do.

    One that is active already keeps its previous one.
    """
    before = embedder_in(db, ACTIVE)
    if before is not None and before[0] == embedder:
        before = embedder_in(db, PREVIOUS)
    kept = {embedder: ACTIVE}
    if keep_previous and before is not None:
        kept[before[0]] = PREVIOUS
    for pk, fingerprint, dimension, _ in _embedders(db):
        if pk not in kept:
            drop_embedder(db, pk)
            continue
        sum_ = embedder_sum(fingerprint, dimension, kept[pk])
        db.execute("UPDATE embedders SET active = ?, sum = ? WHERE embedder_pk = ?", (kept[pk], sum_, pk))


def drop_embedder(db: sqlite3.Connection, embedder: int) -> None:
    """Erase an embedder with its vectors."""
    for table in ("vector_blocks", "vector_progress", "embedders"):
        db.execute(f"DELETE FROM {table} WHERE embedder_pk = ?", (embedder,))


def vector_scope(db: sqlite3.Connection, corpus_pk: int, embedder: int) -> bytes:
    """What the rows of a corpus and embedder have in common, for `row_sum`; b"" when one of them doesn't exist."""
    row = db.execute(
        "SELECT user_id, name, fingerprint FROM corpora JOIN users USING(user_pk), embedders"
        " WHERE corpus_pk = ? AND embedder_pk = ?",
        (corpus_pk, embedder),
    ).fetchone()
    return b"" if row is None else checksum(row)


def row_sum(scope: bytes, doc: int, vector: bytes) -> bytes:
    """Checksum of one row: whose it is, of which corpus and embedder, which doc, and what."""
    data = scope + doc.to_bytes(8, "little", signed=True) + vector
    return hashlib.blake2b(data, digest_size=_SUM_BYTES).digest()


def progress_sum(corpus_pk: int, embedder: int, doc: int, offset: int) -> bytes:
    """Checksum of a row of progress."""
    return hashlib.blake2b(b"%d %d %d %d" % (corpus_pk, embedder, doc, offset), digest_size=_SUM_BYTES).digest()


def read_progress(db: sqlite3.Connection, corpus_pk: int, embedder: int) -> Progress:
    """How far the vectors of a corpus and embedder go.

    Raises:
        DamagedRowError: the row that says it isn't as it was written.
    """
    place = (corpus_pk, embedder)
    row = db.execute(
        "SELECT doc, part, sum FROM vector_progress WHERE corpus_pk = ? AND embedder_pk = ?", place
    ).fetchone()
    if row is None:
        return Progress(0, 0)
    if not of_kinds(row, (int, int, bytes)) or progress_sum(*place, *row[:2]) != row[2]:
        raise DamagedRowError("how far vectors go does not match its checksum")
    return Progress(*row[:2])


def append_vectors(
    db: sqlite3.Connection, corpus_pk: int, embedder: int, docs: NDArray[np.int64], matrix: NDArray[np.float32]
) -> None:
    """Add rows, filling the newest block before a new one is made."""
    data = np.ascontiguousarray(matrix, dtype=_FLOAT)
    row_bytes = data.shape[1] * _FLOAT_BYTES
    scope = vector_scope(db, corpus_pk, embedder)
    block_pk, capacity, start = _newest_block(db, corpus_pk, embedder)
    done = 0
    while done < len(docs):
        if start == capacity:
            capacity, start = _next_capacity(capacity, row_bytes), 0
            block_pk = _new_block(db, corpus_pk, embedder, capacity, row_bytes)
        take = min(capacity - start, len(docs) - done)
        _write(db, scope, block_pk, start, docs[done : done + take], data[done : done + take])
        done += take
        start += take


def newest_row(db: sqlite3.Connection, corpus_pk: int, embedder: int) -> tuple[int, int]:
    """(key of the newest block, place after its last row in use); zeros when there is none."""
    block_pk, _, start = _newest_block(db, corpus_pk, embedder)
    return block_pk, start


def _newest_block(db: sqlite3.Connection, corpus_pk: int, embedder: int) -> tuple[int, int, int]:
    """(key, capacity, first row after the last used one) of the newest block; zeros when there is none."""
    row = db.execute(
        "SELECT block_pk, capacity, docs FROM vector_blocks WHERE corpus_pk = ? AND embedder_pk = ?"
        " ORDER BY block_pk DESC LIMIT 1",
        (corpus_pk, embedder),
    ).fetchone()
    if row is None:
        return 0, 0, 0
    used = np.flatnonzero(np.frombuffer(row[2], dtype=_DOC))
    return row[0], row[1], int(used[-1]) + 1 if len(used) else 0


def _next_capacity(previous: int, row_bytes: int) -> int:
    grown = next((rows for rows in _BLOCK_ROWS if rows > previous), _BLOCK_ROWS[-1])
    return max(1, min(grown, _BLOCK_BYTES // row_bytes))


def _new_block(db: sqlite3.Connection, corpus_pk: int, embedder: int, capacity: int, row_bytes: int) -> int:
    key = db.execute(
        "INSERT INTO vector_blocks(corpus_pk, embedder_pk, capacity, docs, sums, data)"
        " VALUES (?, ?, ?, zeroblob(?), zeroblob(?), zeroblob(?))",
        (corpus_pk, embedder, capacity, capacity * _DOC_BYTES, capacity * _SUM_BYTES, capacity * row_bytes),
    ).lastrowid
    assert key is not None
    return key


def _write(
    db: sqlite3.Connection, scope: bytes, block_pk: int, start: int, docs: NDArray[np.int64], data: NDArray[np.float32]
) -> None:
    sums = b"".join(row_sum(scope, int(doc), row.tobytes()) for doc, row in zip(docs, data, strict=True))
    for column, size, payload in (
        ("docs", _DOC_BYTES, docs.astype(_DOC).tobytes()),
        ("sums", _SUM_BYTES, sums),
        ("data", data.shape[1] * _FLOAT_BYTES, data.tobytes()),
    ):
        with db.blobopen("vector_blocks", column, block_pk) as blob:
            blob.seek(start * size)
            blob.write(payload)


@dataclass(frozen=True)
class StoredVectors:
    """Vectors read so far: `docs` and `matrix` are views of buffers with room for more.

    `block_pk` and `row` say where the next ones would be: from this row of this block on.
    """

    docs: NDArray[np.int64]
    matrix: NDArray[np.float32]
    block_pk: int = 0
    row: int = 0


def read_vectors(
    db: sqlite3.Connection, corpus_pk: int, embedder: int, known: StoredVectors | None = None
) -> StoredVectors:
    """All rows in use, in the order they were written; only those after `known` are read when it is given.

    What `known` holds stays as it is: new rows go behind it in its buffer, or into a larger one.

    Raises:
        DamagedRowError: a row does not match its checksum.
    """
    dimension = next(dimension for pk, _, dimension, _ in _embedders(db) if pk == embedder)
    scope = vector_scope(db, corpus_pk, embedder)
    known = known or StoredVectors(np.empty(0, np.int64), np.empty((0, dimension), np.float32))
    key = (corpus_pk, embedder, known.block_pk)
    where = "FROM vector_blocks WHERE corpus_pk = ? AND embedder_pk = ? AND block_pk >= ?"
    more = db.execute(f"SELECT coalesce(sum(capacity), 0) {where}", key).fetchone()[0]
    docs, matrix = _with_room(known, more)
    count, block_pk, row = len(known.docs), known.block_pk, known.row
    for pk, capacity, held, sums, data in db.execute(
        f"SELECT block_pk, capacity, docs, sums, data {where} ORDER BY block_pk", key
    ):
        start = known.row if pk == known.block_pk else 0
        owners = block_docs(pk, capacity, held, sums, data, dimension)[start:]
        used = np.flatnonzero(owners)
        size = dimension * _FLOAT_BYTES
        for at, doc in zip((used + start).tolist(), owners[used].tolist(), strict=True):
            if sums[at * _SUM_BYTES : (at + 1) * _SUM_BYTES] != row_sum(scope, doc, data[at * size : (at + 1) * size]):
                raise DamagedRowError(f"a vector in block {pk} does not match its checksum")
        if len(used):
            matrix[count : count + len(used)] = np.frombuffer(data, dtype=_FLOAT).reshape(-1, dimension)[start:][used]
            docs[count : count + len(used)] = owners[used]
            count += len(used)
            block_pk, row = pk, start + int(used[-1]) + 1
    return StoredVectors(docs[:count], matrix[:count], block_pk, row)


def block_docs(
    pk: int, capacity: object, docs: object, sums: object, data: object, dimension: int
) -> NDArray[np.int64]:
    """The docs of a block, int64 (capacity,), 0 for a free row.

    Raises:
        DamagedRowError: its parts haven't the sizes of its rows.
    """
    row_sizes = (_DOC_BYTES, _SUM_BYTES, dimension * _FLOAT_BYTES)
    parts = (docs, sums, data)
    if not isinstance(capacity, int) or any(
        not isinstance(part, bytes) or len(part) != capacity * size for part, size in zip(parts, row_sizes, strict=True)
    ):
        raise DamagedRowError(f"block {pk} of vectors has not the size of its rows")
    owners: NDArray[np.int64] = np.frombuffer(docs, dtype=_DOC)  # type: ignore[call-overload]
    return owners


def _with_room(known: StoredVectors, more: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Buffers that start with what is known and have `more` rows behind it."""
    count = len(known.docs)
    buffers = (known.docs.base, known.matrix.base)
    if count and all(buffer is not None and len(buffer) >= count + more for buffer in buffers):
        return buffers  # type: ignore[return-value]
    size = count + more + (count // 2 if count else 0)
    docs = np.empty(size, np.int64)
    matrix = np.empty((size, known.matrix.shape[1]), np.float32)
    docs[:count], matrix[:count] = known.docs, known.matrix
    return docs, matrix


def erase_vectors(db: sqlite3.Connection, corpus_pk: int, docs: Iterable[int]) -> int:
    """Overwrite the rows of `docs` with zeros under every embedder; returns rows erased. Empty blocks go."""
    gone = np.fromiter(docs, dtype=np.int64)
    erased = 0
    blocks = db.execute(
        "SELECT block_pk, docs, length(data) / capacity FROM vector_blocks WHERE corpus_pk = ?", (corpus_pk,)
    ).fetchall()
    for block_pk, stored, row_bytes in blocks:
        held = np.frombuffer(stored, dtype=_DOC)
        hit = np.isin(held, gone) & (held != 0)
        if not hit.any():
            continue
        erased += int(hit.sum())
        if np.all(hit | (held == 0)):
            db.execute("DELETE FROM vector_blocks WHERE block_pk = ?", (block_pk,))
            continue
        dimension = row_bytes // _FLOAT_BYTES
        for row in np.flatnonzero(hit):
            _zero(db, block_pk, int(row), dimension)
    return erased


def _zero(db: sqlite3.Connection, block_pk: int, row: int, dimension: int) -> None:
    for column, size in (("docs", _DOC_BYTES), ("sums", _SUM_BYTES), ("data", dimension * _FLOAT_BYTES)):
        with db.blobopen("vector_blocks", column, block_pk) as blob:
            blob.seek(row * size)
            blob.write(b"\0" * size)
