"""Vectors kept in memory between searches, within a bound."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from backread import forking
from backread.store.base import Progress
from backread.store.layout import Layout
from backread.store.vectors import StoredVectors

__all__ = ["CachedVectors", "VectorCache"]


@dataclass(frozen=True)
class CachedVectors:
    """The vectors of a corpus and embedder as of `reached`; all of them belong to units of `layout`."""

    reached: Progress
    vectors: StoredVectors
    layout: Layout

    @property
    def size(self) -> int:
        """Bytes of the buffers, room for more included."""
        matrix = self.vectors.matrix
        return int(matrix.nbytes if matrix.base is None else matrix.base.nbytes)


class VectorCache:
    """The corpora used last, at most `limit` bytes; one that is larger by itself is not kept. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[int, int], CachedVectors] = OrderedDict()
        self._lock = forking.Lock()

    def get(self, key: tuple[int, int]) -> CachedVectors | None:
        """What is kept of a (corpus, embedder)."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: tuple[int, int], vectors: CachedVectors) -> CachedVectors:
        """Keep these, in place of what was kept of the key; gives them back."""
        with self._lock:
            self._kept.pop(key, None)
            if vectors.size <= self._limit:
                self._kept[key] = vectors
                total = sum(kept.size for kept in self._kept.values())
                while total > self._limit:
                    total -= self._kept.popitem(last=False)[1].size
        return vectors
