"""Cosines of a large corpus: exact from the file, or of the candidates a nearest-neighbour index finds.

Rule, by bytes of the vectors: what the cache holds is compared as one matrix (`SqliteStore.vectors`); more is read from
the file block by block; from `least` bytes on an index beside the store names candidates, whose cosines, and those of
all rows newer than the index, are then exact. The index is HNSW (Malkov & Yashunin, TPAMI 2020) over vectors rounded to
int8; it is made from the record, can be deleted at any time, and is never the truth: docs and vectors are read from the
store, so that an old or wrong index finds fewer, never others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backread.store.ann_file import (
    INSTALL,
    DamagedIndexError,
    Header,
    MappedIndex,
    build_graph,
    identity,
    installed,
    written,
)
from backread.store.base import Cosines
from backread.store.connection import ConnectionPool
from backread.store.scan import Place, row_places, scan, sum_at, vector_bytes, vectors_at
from backread.types import Degradation

__all__ = ["ANN_BYTES", "AnnIndexes", "BuiltIndex", "corpus_keys"]

ANN_BYTES = 256 * 1024 * 1024
"""Vectors of a corpus from which an index is worth its while: 175,000 of 384 dimensions."""

_MOST_TAIL = 0.2  # of the vectors: more that the index lacks, and reading all is as good
_STEP = 8192
_NO_INDEX = "exact, but slow: so many vectors want an index, which `backread reindex --ann` makes"
_NO_PACKAGE = f"exact, but slow: the vector index needs usearch, which is not installed: {INSTALL}"
_DAMAGED = "exact, but slow: the vector index is damaged; `backread reindex --ann` makes it anew"
_OLD = "exact, but slow: the vector index is old; `backread reindex --ann` makes it anew"


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index that was built: `rows` vectors in a file of `bytes`."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class _Open:
    """An index in use with what its keys stand for: `docs` by ascending place, and `by_doc`, their order by doc."""

    index: MappedIndex
    docs: NDArray[np.int64]
    places: NDArray[np.int64]
    by_doc: NDArray[np.int64]

    def of(self, docs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of all rows of these docs."""
        ordered = self.docs[self.by_doc]
        first, last = np.searchsorted(ordered, docs, "left"), np.searchsorted(ordered, docs, "right")
        spans = [self.by_doc[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True) if b > a]
        return np.concatenate(spans) if spans else np.empty(0, np.int64)

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the rows at these places; those of rows that are gone are left out."""
        found = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        return found[self.places[found] == places]


class AnnIndexes:
    """The indexes beside one store, in the folder `<store>.ann`. Thread-safe; processes share the files.

    Args:
        store: path of the store.
        cached: bytes of vectors the store compares as one matrix.
        least: bytes of vectors from which a search looks for an index.
    """

    def __init__(self, store: Path, *, cached: int, least: int = ANN_BYTES) -> None:
        self.folder = store.with_name(store.name + ".ann")
        self._cached, self._least = cached, least
        self._lock = threading.Lock()
        self._open: dict[Path, tuple[tuple[int, int, int], _Open | str]] = {}  # an index, or why there is none

    # --- searching

    def cosines(
        self,
        db: sqlite3.Connection,
        place: tuple[int, int],
        fingerprint: str,
        query: NDArray[np.float32],
        wanted: int | None,
        also: NDArray[np.int64],
    ) -> Cosines | None:
        """See `TurnStore.cosines`; None when the vectors of `place` (corpus, embedder) are to be compared as a matrix."""
        size = vector_bytes(db, *place)
        if size <= self._cached:
            return None
        notes: tuple[Degradation, ...] = ()
        if wanted is not None and size >= self._least:
            found = self._usable(db, place, fingerprint, size)
            if isinstance(found, _Open):
                return _candidates(db, place, found, query, wanted, also)
            notes = (Degradation("dense", found),)
        docs, values = scan(db, *place, query)
        return Cosines(docs, values, len(docs), notes)

    def _usable(self, db: sqlite3.Connection, place: tuple[int, int], fingerprint: str, size: int) -> _Open | str:
        """The index of a corpus and embedder, or why it isn't used."""
        if not installed():
            return _NO_PACKAGE
        path = self._path(place[0], fingerprint)
        try:
            now = identity(path.stat())
        except OSError:
            return _NO_INDEX
        with self._lock:
            known = self._open.get(path)
            if known is None or known[0] != now:
                known = (now, _opened(db, place, path))
                self._open[path] = known
        found = known[1]
        if isinstance(found, str):
            return found
        header = found.index.header
        last = Place(header.until.block_pk, header.until.row - 1)
        if header.embedder != fingerprint or sum_at(db, *place, last).hex() != header.last:
            self._discard(path, now)
            return _OLD
        if vector_bytes(db, *place, after=header.until.block_pk + 1) > _MOST_TAIL * size:
            return _OLD
        return found

    # --- files

    def _path(self, corpus_pk: int, fingerprint: str) -> Path:
        name = hashlib.blake2b(fingerprint.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        return self.folder / f"{corpus_pk}-{name}.usearch"

    def _discard(self, path: Path, seen: tuple[int, int, int]) -> None:
        """Remove an index that doesn't belong to this record, unless another took its place."""
        with contextlib.suppress(OSError):
            if identity(path.stat()) == seen:
                path.unlink()

    def remove(self, corpora: Iterable[int]) -> None:
        """Remove the indexes of corpora, those being built included.

        Called in the write transaction that erases from them: a vector may say as much as its text, and none of an
        erased turn may stay on the disk. A build looks, in such a transaction too, whether all it has is still there.
        """
        for corpus_pk in corpora:
            for path in self.folder.glob(f"{corpus_pk}-*"):
                with self._lock:
                    self._open.pop(path, None)
                path.unlink(missing_ok=True)

    def keep_only(self, fingerprint: str) -> None:
        """Remove the indexes of all other embedders."""
        kept = self._path(0, fingerprint).name.removeprefix("0")
        others = [path for path in self.folder.glob("*-*") if not path.name.endswith(kept)]
        self.remove({int(path.name.split("-")[0]) for path in others if path.name.split("-")[0].isdigit()} if others else ())

    @property
    def bytes(self) -> int:
        """Bytes of all indexes."""
        return sum(path.stat().st_size for path in self.folder.glob("*-*"))

    # --- building

    def build(
        self,
        pool: ConnectionPool,
        place: tuple[int, int],
        names: tuple[str, str],
        *,
        min_bytes: int | None = None,
        threads: int = 0,
    ) -> BuiltIndex | None:
        """Build the index of `place` (corpus, embedder), called `names`, and put it in the place of the one before."""
        least = self._least if min_bytes is None else min_bytes
        with pool.read() as db:
            if vector_bytes(db, *place) < max(least, 1):
                return None
        raise NotImplementedError


def corpus_keys(db: sqlite3.Connection, user_pk: int) -> list[int]:
    """Keys of all corpora of a user."""
    return [row[0] for row in db.execute("SELECT corpus_pk FROM corpora WHERE user_pk = ?", (user_pk,))]
