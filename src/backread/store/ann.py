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
import logging
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from backread import forking
from backread.arrays import NDArray, np
from backread.errors import StoreBusyError, StoreError
from backread.store.ann_file import (
    INSTALL,
    DamagedIndexError,
    Header,
    MappedIndex,
    build_graph,
    identity,
    installed,
    need_usearch,
    sync_folder,
    written,
)
from backread.store.base import BuiltIndex, Cosines
from backread.store.connection import ConnectionPool
from backread.store.rows import dec
from backread.store.scan import Place, row_places, scan, sum_at, vector_bytes, vectors_at
from backread.store.vectors import newest_row
from backread.types import Degradation

__all__ = ["ANN_BYTES", "AnnIndexes", "corpus_keys"]

_log = logging.getLogger(__name__)

ANN_BYTES = 256 * 1024 * 1024
"""Vectors of a corpus from which an index is worth its while: 175,000 of 384 dimensions."""

_MOST_TAIL = 0.2  # of the vectors: more that the index lacks, and reading all is as good
_STEP = 8192  # vectors between two transactions of a build
_TRIES = 3
_MOST_OPEN = 8  # each has 24 bytes a vector in memory, beside what is mapped
_NO_INDEX = "exact, but slow: so many vectors want an index, which `backread reindex --ann` makes"
_NO_PACKAGE = f"exact, but slow: the vector index needs usearch, which is not installed: {INSTALL}"
_DAMAGED = "exact, but slow: the vector index is damaged; `backread reindex --ann` makes it anew"
_OLD = "exact, but slow: the vector index is old; `backread reindex --ann` makes it anew"


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
        numbers: NDArray[np.int64] = found[self.places[found] == places]
        return numbers


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
        self._lock = forking.Lock()
        # Those used last; an index, or why there is none.
        self._open: OrderedDict[Path, tuple[tuple[int, int, int], _Open | str]] = OrderedDict()

    # --- searching

    def cosines(
        self,
        db: sqlite3.Connection,
        place: tuple[int, int],
        fingerprint: str,
        query: NDArray[np.float32],
        wanted: int | None,
        also: Callable[[], NDArray[np.int64]] | None,
    ) -> Cosines | None:
        """See `TurnStore.cosines`; None when those of `place` (corpus, embedder) are to be compared as a matrix."""
        size = vector_bytes(db, *place)
        if size <= self._cached:
            return None
        notes: tuple[Degradation, ...] = ()
        if wanted is not None and size >= self._least:
            found = self._usable(db, place, fingerprint, size)
            if isinstance(found, _Open):
                return _candidates(db, place, found, query, wanted, None if also is None else also())
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
                if len(self._open) > _MOST_OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(path)
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
        return self.folder / f"{corpus_pk}-{_name(fingerprint)}"

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
        found = [path for corpus_pk in corpora for path in self.folder.glob(f"{corpus_pk}-*")]
        with self._lock:
            for path in found:
                self._open.pop(path, None)
        try:
            for path in found:
                path.unlink(missing_ok=True)
            if found:
                sync_folder(self.folder)
        except OSError as error:
            raise StoreError(
                f"{error.filename or self.folder}: {error.strerror}; nothing was deleted",
                hint="stop what searches this store or change the permissions of the file, and delete again",
            ) from error

    def keep_known(self, db: sqlite3.Connection) -> None:
        """Remove the indexes of embedders that are gone."""
        known = {_name(dec(row[0])) for row in db.execute("SELECT fingerprint FROM embedders")}
        for path in self.folder.glob("*-*"):
            if path.name.partition("-")[2] not in known:
                path.unlink(missing_ok=True)

    @property
    def size(self) -> int:
        """Bytes of all indexes."""
        total = 0
        for path in self.folder.glob("*-*"):
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size
        return total

    # --- building

    def build(
        self,
        pool: ConnectionPool,
        place: tuple[int, int],
        names: tuple[str, str],
        *,
        min_bytes: int | None = None,
        newer: float = 0.0,
        on_progress: Callable[[int], None] | None = None,
    ) -> BuiltIndex | None:
        """Build the index of `place` (corpus, embedder), called `names`; see `SqliteStore.build_ann`."""
        with pool.read() as db:
            size = vector_bytes(db, *place)
            if not size or size < (self._least if min_bytes is None else min_bytes):
                return None
            need_usearch()
            found = self._usable(db, place, names[1], size)
            if isinstance(found, _Open):
                rows = len(row_places(db, *place)[0])
                if rows - found.index.header.rows <= newer * rows:
                    return None
        try:
            for _ in range(_TRIES):
                built = self._build(pool, place, names, on_progress)
                if built is not None:
                    return built
        except OSError as error:
            reason = f"{self.folder}: the vector index could not be written: {error.strerror or error}"
            raise StoreError(reason, hint="check the permissions and the free disk space") from error
        raise StoreBusyError(
            f"{self.folder}: turns were deleted each time the vector index was built",
            hint="try again when fewer are being deleted",
        )

    def _build(
        self,
        pool: ConnectionPool,
        place: tuple[int, int],
        names: tuple[str, str],
        on_progress: Callable[[int], None] | None,
    ) -> BuiltIndex | None:
        """Build once; None when rows went meanwhile. No transaction is open for longer than a few blocks take."""
        with pool.read() as db:
            until = Place(*newest_row(db, *place))
            last = sum_at(db, *place, Place(until.block_pk, until.row - 1)).hex()
            docs, places = row_places(db, *place, until)
            dimension = db.execute("SELECT dimension FROM embedders WHERE embedder_pk = ?", place[1:]).fetchone()[0]
        graph = build_graph(dimension)
        for at in range(0, len(places), _STEP):
            part = places[at : at + _STEP]
            with pool.read() as db:
                matrix = vectors_at(db, part, dimension)
            graph.add(part.astype(np.uint64), matrix)
            if on_progress is not None:
                on_progress(len(part))
        path = self._path(place[0], names[1])
        for left in self.folder.glob(f"{path.name}.*"):  # by a build that was killed
            left.unlink(missing_ok=True)
        header = Header(*names, dimension, len(places), until, last)
        with written(path, graph, header) as part_file, pool.write() as db:
            kept = row_places(db, *place, until)
            if not (np.array_equal(kept[0], docs) and np.array_equal(kept[1], places)):
                return None
            try:
                os.replace(part_file, path)
            except FileNotFoundError:  # removed with what was there before
                return None
        return BuiltIndex(len(places), path.stat().st_size)


def _name(fingerprint: str) -> str:
    """What the index files of an embedder are called, after the key of their corpus."""
    return hashlib.blake2b(fingerprint.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest() + ".usearch"


def _opened(db: sqlite3.Connection, place: tuple[int, int], path: Path) -> _Open | str:
    """An index with what its keys stand for in the store, or why it can't be used."""
    try:
        index = MappedIndex(path)
    except FileNotFoundError:
        return _NO_INDEX
    except (DamagedIndexError, OSError) as error:
        _log.warning("%s is not used: %s", path, error)
        return _DAMAGED
    docs, places = row_places(db, *place, index.header.until)
    return _Open(index, docs, places, np.argsort(docs, kind="stable"))


def _candidates(
    db: sqlite3.Connection,
    place: tuple[int, int],
    found: _Open,
    query: NDArray[np.float32],
    wanted: int,
    also: NDArray[np.int64] | None,
) -> Cosines:
    """Exact cosines of the rows an index names, of those of `also`, and of all that are newer than the index."""
    header = found.index.header
    all_rows = wanted >= header.rows  # the graph may not reach every row
    rows = np.arange(len(found.places)) if all_rows else found.at(found.index.nearest(query, wanted))
    if also is not None:
        rows = np.union1d(rows, found.of(also))
    values = vectors_at(db, found.places[rows], header.dimension) @ query
    newer, newer_values = scan(db, *place, query, header.until)
    compared, total = len(rows) + len(newer), header.rows + len(newer)
    note = Degradation("dense", f"approximate: {compared} of {total} vectors compared", total - compared)
    docs = np.concatenate([found.docs[rows], newer])
    return Cosines(docs, np.concatenate([values, newer_values]), total, (note,) if compared < total else ())


def corpus_keys(db: sqlite3.Connection, user_pk: int) -> list[int]:
    """Keys of all corpora of a user."""
    return [row[0] for row in db.execute("SELECT corpus_pk FROM corpora WHERE user_pk = ?", (user_pk,))]
