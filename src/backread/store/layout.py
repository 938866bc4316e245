"""The shape of a corpus as arrays, in history order: what scoring needs to know of units without reading their text."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from backread.arrays import NDArray, np

__all__ = ["UNKNOWN_TIME", "Layout"]

UNKNOWN_TIME = -(2**63)
"""Stands for an unknown instant in int64 arrays of microseconds."""

_TABLE_SPREAD = 16


class _Place(NamedTuple):
    """Where a turn stands among those of its chain, which is named by the doc of its first turn; newer is greater."""

    chain: int
    said_us: int
    arrived: int
    depth: int
    doc: int

    @classmethod
    def after(cls, older: _Place | None, doc: int, said_us: int) -> _Place:
        """The place of a turn that replaces the one at `older`, or none."""
        if older is None:
            return cls(doc, said_us, doc, 0, doc)
        return cls(older.chain, max(older.said_us, said_us), max(older.arrived, doc), older.depth + 1, doc)


@dataclass(frozen=True)
class Layout:
    """Units in history order: by (session start, place in the session).

    Attributes:
        docs: int64 (n,), distinct.
        session: int32 (n,), index into `session_ids`; ascending blocks.
        length: float32 (n,), index terms of the unit, the BM25 document length.
        said_us: int64 (n,), microseconds since 1970 UTC, `UNKNOWN_TIME` when unknown.
        cues: int8 (n,), bits of `text.cues.turn_cues`; 0 for entries.
        role: int32 (n,), index into `roles`.
        speaker: int32 (n,), index into `speakers`; the role stands in where no name is known.
        supersedes: doc -> doc of the turn that it replaces.
    """

    docs: NDArray[np.int64]
    session: NDArray[np.int32]
    length: NDArray[np.float32]
    said_us: NDArray[np.int64]
    cues: NDArray[np.int8]
    role: NDArray[np.int32]
    speaker: NDArray[np.int32]
    session_ids: tuple[str, ...]
    roles: tuple[str, ...]
    speakers: tuple[str, ...]
    supersedes: dict[int, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of units."""
        return len(self.docs)

    @cached_property
    def _by_doc(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = np.argsort(self.docs, kind="stable").astype(np.int64)
        return self.docs[order], order

    @cached_property
    def _row_table(self) -> tuple[int, NDArray[np.int64]] | None:
        """(lowest doc, row by distance from it), -1 in gaps and at the end; None when the docs are far apart.

        A user who wrote in one go has docs side by side, and finding a row is then one look instead of a search.
        """
        if not self.size:
            return None
        low, high = int(self.docs.min()), int(self.docs.max())
        if high - low > _TABLE_SPREAD * self.size:
            return None
        table = np.full(high - low + 2, -1, dtype=np.int64)
        table[self.docs - low] = np.arange(self.size)
        return low, table

    def rows(self, docs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each doc in this layout, -1 for one that isn't in it."""
        if self._row_table is not None:
            low, table = self._row_table
            at = docs - low
            at[(at < 0) | (at >= len(table))] = -1
            found: NDArray[np.int64] = table[at]
            return found
        ordered, order = self._by_doc
        if not len(ordered):
            return np.full(len(docs), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(ordered, docs), len(ordered) - 1)
        return np.where(ordered[at] == docs, order[at], -1)

    @cached_property
    def chains(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the turns that replace one another, chain by chain, each from the first to the newest; and the chain.

        int64 (m,), int64 (m,). A turn is newer than what it replaces, whatever their times. Of two that replace the
        same turn, the one with the later time is newer; without a time a turn counts as said with what it replaces;
        where that leaves two equal, the one that arrived last is newer.
        """
        docs = np.fromiter({*self.supersedes, *self.supersedes.values()}, dtype=np.int64)
        docs = docs[self.rows(docs) >= 0]
        times = dict(zip(docs.tolist(), self.said_us[self.rows(docs)].tolist(), strict=True))
        places: dict[int, _Place] = {}
        for doc in times:
            above = {doc: None}  # from this turn up to one whose place is known, or to the first of its chain
            while (at := next(reversed(above))) not in places and (older := self.supersedes.get(at)) in times:
                if older in above:
                    break  # a circle: only in a damaged file
                above[older] = None
            for at in reversed(above):
                if at not in places:
                    places[at] = _Place.after(places.get(self.supersedes.get(at, 0)), at, times[at])
        newest_last = sorted(places, key=places.__getitem__)
        chain = np.array([places[doc].chain for doc in newest_last], dtype=np.int64)
        return self.rows(np.array(newest_last, dtype=np.int64)), chain

    @cached_property
    def rounds(self) -> NDArray[np.int32]:
        """Round number of each row, ascending.

        A round opens with a session, and with each turn of the session's opening side that follows a turn of another
        side. The opening side is the role "user" where there is one, else whoever speaks first. LongMemEval
        `run_generation.py` pairs a user turn with the assistant turn after it; differs in that several messages in
        a row by the same side stay in one round.
        """
        opens = np.zeros(self.size, dtype=bool)
        user = self.roles.index("user") if "user" in self.roles else -1
        starts = np.flatnonzero(np.diff(self.session, prepend=-1))
        for start, end in zip(starts, np.append(starts[1:], self.size)[: len(starts)], strict=True):
            role = self.role[start:end]
            opener = role == user if (role == user).any() else self.speaker[start:end] == self.speaker[start]
            opens[start:end] = opener & ~np.concatenate(([False], opener[:-1]))
            opens[start] = True
        return (np.cumsum(opens) - 1).astype(np.int32)
