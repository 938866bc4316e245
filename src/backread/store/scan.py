"""Comparing a query with vectors straight from the file, block by block, in bounded memory."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from typing import NamedTuple

from backread.arrays import NDArray, np
from backread.store.rows import DamagedRowError
from backread.store.vectors import block_docs

__all__ = ["Place", "row_places", "scan", "sum_at", "vector_bytes", "vectors_at"]

_FLOAT, _FLOAT_BYTES = "<f4", 4
_DOC, _DOC_BYTES = "<i8", 8
_SUM_BYTES = 8
_ROW_BITS = 16
_BLOCKS = "FROM vector_blocks WHERE corpus_pk = ? AND embedder_pk = ?"


class Place(NamedTuple):
    """A row of a block. Rows are written in this order, and a block's key is never used twice."""

    block_pk: int
    row: int


_START = Place(0, 0)


def vector_bytes(db: sqlite3.Connection, corpus_pk: int, embedder: int, after: int = 0) -> int:
    """Bytes of the blocks of a corpus and embedder from block `after` on, free rows included; reads no vector.

    Blocks are taken to be as large as the newest one, which all but the first two are.
    """
    key = (corpus_pk, embedder)
    count = db.execute(f"SELECT count(*) {_BLOCKS} AND block_pk >= ?", (*key, after)).fetchone()[0]
    newest = db.execute(f"SELECT length(data) {_BLOCKS} ORDER BY block_pk DESC LIMIT 1", key).fetchone()
    return count * newest[0] if newest else 0


def scan(
    db: sqlite3.Connection, corpus_pk: int, embedder: int, query: NDArray[np.float32], start: Place = _START
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(docs, dot products with the query) of all rows from `start` on, in the order they were written.

    Sizes are proved, checksums are not: hashing takes far longer than the product. `verify` hashes all of them.
    """
    docs, values = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    where = (corpus_pk, embedder, start.block_pk)
    for block_pk, capacity, held, sums, data in db.execute(
        f"SELECT block_pk, capacity, docs, sums, data {_BLOCKS} AND block_pk >= ? ORDER BY block_pk", where
    ):
        owners = block_docs(block_pk, capacity, held, sums, data, len(query))
        products = np.frombuffer(data, dtype=_FLOAT).reshape(len(owners), -1) @ query
        if block_pk == start.block_pk:
            owners, products = owners[start.row :], products[start.row :]
        if not owners.all():
            products, owners = products[owners != 0], owners[owners != 0]
        docs.append(owners)
        values.append(products)
    return np.concatenate(docs), np.concatenate(values)


def row_places(
    db: sqlite3.Connection, corpus_pk: int, embedder: int, end: Place | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(docs, places as whole numbers) of all rows before `end`; places ascend and never change."""
    docs, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for block_pk, held in db.execute(f"SELECT block_pk, docs {_BLOCKS} ORDER BY block_pk", (corpus_pk, embedder)):
        if not isinstance(held, bytes) or len(held) % _DOC_BYTES:
            raise DamagedRowError(f"block {block_pk} of vectors has not the size of its rows")
        owners = np.frombuffer(held, dtype=_DOC)
        if end is not None and block_pk >= end.block_pk:
            owners = owners[: end.row if block_pk == end.block_pk else 0]
        used = np.flatnonzero(owners)
        docs.append(owners[used])
        places.append((block_pk << _ROW_BITS) + used)
    return np.concatenate(docs), np.concatenate(places)


def vectors_at(db: sqlite3.Connection, places: NDArray[np.int64], dimension: int) -> NDArray[np.float32]:
    """The vectors of rows, float32 (n, dimension), zeros for those that are gone; `places` ascend."""
    size = dimension * _FLOAT_BYTES
    parts, rows = [], (places & ((1 << _ROW_BITS) - 1)).tolist()
    blocks = (places >> _ROW_BITS).tolist()
    at = 0
    while at < len(rows):
        block = blocks[at]
        end = bisect_right(blocks, block, at)
        if db.execute("SELECT 1 FROM vector_blocks WHERE block_pk = ?", (block,)).fetchone():
            with db.blobopen("vector_blocks", "data", block, readonly=True) as blob:
                for row in rows[at:end]:
                    if len(blob) < (row + 1) * size:
                        raise DamagedRowError(f"block {block} of vectors has not the size of its rows")
                    blob.seek(row * size)
                    parts.append(blob.read(size))
        else:
            parts.append(b"\0" * size * (end - at))
        at = end
    return np.frombuffer(b"".join(parts), dtype=_FLOAT).reshape(-1, dimension)


def sum_at(db: sqlite3.Connection, corpus_pk: int, embedder: int, place: Place) -> bytes:
    """The checksum of a row: whose it is, of which doc, and what; b"" when it isn't there."""
    row = db.execute(f"SELECT sums {_BLOCKS} AND block_pk = ?", (corpus_pk, embedder, place.block_pk)).fetchone()
    found: bytes = row[0][place.row * _SUM_BYTES : (place.row + 1) * _SUM_BYTES] if row else b""
    return found
