"""One user's view of the record: what strategies and retrievers are handed, and all they can see."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import get_args

from backread.arrays import NDArray, np
from backread.errors import InvalidInputError, NotFoundError
from backread.store.base import TURNS, TurnSize, TurnStore, entry_corpus
from backread.store.corpus import Corpus
from backread.store.layout import UNKNOWN_TIME, Layout
from backread.store.rows import from_us, to_us
from backread.types import Attachments, Entry, EntryDraft, Session, Turn, Unit

__all__ = ["HUMAN_ROLES", "History", "Scope"]

HUMAN_ROLES = ("user", "participant")
"""Roles of people; the unit "user_turn" ranks turns of these."""

_PAGE = 500
_PAGE_BYTES = 4 * 1024 * 1024
"""Turns are read so many, and so many bytes, at a time; one that is larger is read alone."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which turns of a user count; None doesn't restrict. Values are compared exactly as given.

    Attributes:
        roles: roles of the turns.
        speakers: names as shown, so that "user" means turns of that role that carry no name.
        session_ids: sessions they belong to.
        after, before: `Turn.time` in [after, before); turns of unknown time are left out.
        as_of: the record as it stood then: `Turn.time` <= as_of; turns of unknown time are left out.
        superseded: also turns that were superseded.
    """

    roles: Collection[str] | None = None
    speakers: Collection[str] | None = None
    session_ids: Collection[str] | None = None
    after: datetime | None = None
    before: datetime | None = None
    as_of: datetime | None = None
    superseded: bool = False

    def rows(self, layout: Layout) -> NDArray[np.int64]:
        """Rows of the layout in scope, ascending; of a chain of corrections only the newest there was `as_of`."""
        keep = np.ones(layout.size, dtype=bool)
        for chosen, names, codes in (
            (self.roles, layout.roles, layout.role),
            (self.speakers, layout.speakers, layout.speaker),
            (self.session_ids, layout.session_ids, layout.session),
        ):
            if chosen is not None:
                keep &= np.isin(codes, [code for code, name in enumerate(names) if name in chosen])
        known = layout.said_us != UNKNOWN_TIME
        if self.after is not None:
            keep &= known & (layout.said_us >= to_us(_aware(self.after, "after")))
        if self.before is not None:
            keep &= known & (layout.said_us < to_us(_aware(self.before, "before")))
        if self.as_of is not None:
            keep &= known & (layout.said_us <= to_us(_aware(self.as_of, "as_of")))
        if layout.supersedes and not self.superseded:
            visible = known & (layout.said_us <= to_us(self.as_of)) if self.as_of else np.ones(layout.size, dtype=bool)
            older, _ = _replaced(layout, visible)
            keep[older] = False
        return np.flatnonzero(keep)


def _replaced(layout: Layout, visible: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that are not the newest visible one of their chain, and of each the visible row that comes next in it."""
    rows, chain = layout.chains
    rows, chain = rows[visible[rows]], chain[visible[rows]]
    same = chain[:-1] == chain[1:]
    return rows[:-1][same], rows[1:][same]


def _links_last(docs: list[int], supersedes: Mapping[int, int]) -> list[int]:
    """Docs in ascending order, but for those that replace a later one, which follow it: links can be made anew."""
    waiting: dict[int, list[int]] = {}
    for doc, older in supersedes.items():
        waiting.setdefault(older, []).append(doc)
    if all(doc > older for doc, older in supersedes.items()):
        return docs
    there = set(docs)
    ready = [doc for doc in docs if supersedes.get(doc) not in there]
    ordered = []
    while ready:  # a heap, which an ascending list is
        ordered.append(heapq.heappop(ready))
        for doc in waiting.get(ordered[-1], ()):
            if doc in there:
                heapq.heappush(ready, doc)
    return ordered


def _aware(at: datetime, name: str) -> datetime:
    if at.tzinfo is None:
        raise InvalidInputError(f"{name} has no time zone: {at.isoformat()}", hint="pass an aware datetime")
    return at


class History:
    """One user's history. Isolation by construction: everything below works through it and it knows one user.

    Args:
        store: where the record is.
        user_id: whose history; compared exactly as given.
        as_of: show the record as it stood then: later turns, turns of unknown time and entries made from later
            sources don't exist in this view.
    """

    def __init__(self, store: TurnStore, user_id: str, *, as_of: datetime | None = None) -> None:
        self._store = store
        self.user_id = user_id
        self.as_of = None if as_of is None else _aware(as_of, "as_of")

    def now(self) -> History:
        """The same user's history without `as_of`."""
        return History(self._store, self.user_id)

    def _rows(self, scope: Scope) -> tuple[Layout, NDArray[np.int64]]:
        layout = self._store.layout(self.user_id)
        if self.as_of is not None:
            # Not by leaving rows out afterwards: a turn replaced later is not yet replaced in this view.
            given = self.as_of if scope.as_of is None else _aware(scope.as_of, "as_of")
            scope = replace(scope, as_of=min(self.as_of, given))
        return layout, scope.rows(layout)

    def _existing(self, layout: Layout) -> NDArray[np.bool_]:
        """Which rows exist in this view, superseded ones included."""
        if self.as_of is None:
            return np.ones(layout.size, dtype=bool)
        existing: NDArray[np.bool_] = (layout.said_us != UNKNOWN_TIME) & (layout.said_us <= to_us(self.as_of))
        return existing

    def _made_from_existing(self, entries: Sequence[Entry]) -> list[bool]:
        """Whether all sources of each entry exist in this view."""
        layout = self._store.layout(self.user_id)
        existing = set(layout.docs[self._existing(layout)].tolist())
        docs = self._store.docs_of_turns(self.user_id, sorted({s.turn_id for entry in entries for s in entry.sources}))
        return [all(docs.get(source.turn_id) in existing for source in entry.sources) for entry in entries]

    def corpus(self, unit: Unit | tuple[str, str] = "turn", scope: Scope | None = None) -> Corpus:
        """What a retriever ranks: units of the record, or the entries of a (strategy, kind).

        Each corpus has its own statistics: the turns out of scope, and other users, don't touch its scores.

        Raises:
            InvalidInputError: no such unit.
        """
        if isinstance(unit, tuple):
            name = entry_corpus(*unit)
            layout = self._store.layout(self.user_id, name)
            rows = np.arange(layout.size)
            if self.as_of is not None:
                entries = self._store.entries_by_doc(self.user_id, layout.docs.tolist())
                while len(entries) != layout.size:  # some were dropped since
                    layout = self._store.layout(self.user_id, name)
                    entries = self._store.entries_by_doc(self.user_id, layout.docs.tolist())
                rows = np.flatnonzero(self._made_from_existing(entries))
            return Corpus(self._store, self.user_id, name, "entry", layout, rows)
        if unit not in get_args(Unit):
            raise InvalidInputError(f"there is no unit {unit!r}", hint=f"units: {', '.join(get_args(Unit))}")
        scope = scope or Scope()
        if unit == "user_turn" and scope.roles is None:
            scope = replace(scope, roles=HUMAN_ROLES)
        layout, rows = self._rows(scope)
        return Corpus(self._store, self.user_id, TURNS, unit, layout, rows)

    def undated(self) -> int:
        """Turns of unknown time, which an `as_of` view leaves out."""
        return int((self._store.layout(self.user_id).said_us == UNKNOWN_TIME).sum())

    def turns(
        self, scope: Scope | None = None, *, start: int = 0, stop: int | None = None, attachments: Attachments = "full"
    ) -> Iterator[Turn]:
        """Turns in history order, read a few megabytes at a time; superseded ones included when `scope` is None.

        Only those from place `start` on and before place `stop` of that order are read.
        """
        if scope is None:
            layout = self._store.layout(self.user_id)
            docs = layout.docs[self._existing(layout)]
        else:
            layout, rows = self._rows(scope)
            docs = layout.docs[rows]
        return self._read(docs[start:stop].tolist(), attachments=attachments)

    def _read(self, docs: Sequence[int], *, attachments: Attachments = "full") -> Iterator[Turn]:
        """The turns of `docs`, in that order; what comes next is only read when it is asked for."""
        for first in range(0, len(docs), _PAGE):
            part: list[int] = []
            size = 0
            for item in self._store.turn_sizes(self.user_id, docs[first : first + _PAGE], attachments=attachments):
                if part and size + item.bytes > _PAGE_BYTES:
                    yield from self._store.turns_by_doc(self.user_id, part, attachments=attachments)
                    part, size = [], 0
                part.append(item.doc)
                size += item.bytes
            yield from self._store.turns_by_doc(self.user_id, part, attachments=attachments)

    def page(
        self,
        size: int,
        *,
        cursor: tuple[str, str] | None = None,
        scope: Scope | None = None,
        most_bytes: int | None = None,
        attachments: Attachments = "full",
    ) -> tuple[list[Turn], tuple[str, str] | None]:
        """At most `size` turns in history order, and the cursor of the page after them, None when that was the last.

        A cursor is two turn ids: that of the turn its page ended with, and of the one that followed. A walk from page
        to page gives every turn that is there all the time exactly once, whatever is added or deleted meanwhile.

        Args:
            size: turns at most.
            cursor: where the page starts; None is the first one.
            scope: which turns; None is all, superseded ones included.
            most_bytes: the page ends before the turn that would make it larger, but never before its first.
            attachments: how they are given; in full they count as bytes.

        Raises:
            NotFoundError: both turns of the cursor were deleted.
        """
        layout, rows = self._rows(scope or Scope(superseded=True))
        docs = layout.docs[rows]
        at = 0 if cursor is None else self._after(docs, cursor)
        found: list[TurnSize] = []
        while at < len(docs) and len(found) <= size:  # fewer come back when some are deleted right now
            end = at + size + 1 - len(found)
            found += self._store.turn_sizes(self.user_id, docs[at:end].tolist(), attachments=attachments)
            at = end
        kept = 0
        for total in accumulate(item.bytes for item in found[:size]):
            if kept and most_bytes is not None and total > most_bytes:
                break
            kept += 1
        turns = self._store.turns_by_doc(self.user_id, [item.doc for item in found[:kept]], attachments=attachments)
        return turns, (found[kept - 1].turn_id, found[kept].turn_id) if len(found) > kept else None

    def _after(self, docs: NDArray[np.int64], cursor: tuple[str, str]) -> int:
        """The place in `docs` from which a page goes on."""
        found = self._store.docs_of_turns(self.user_id, cursor)
        for step, turn_id in zip((1, 0), cursor, strict=True):
            places = np.flatnonzero(docs == found.get(turn_id, -1))
            if len(places):
                return int(places[0]) + step
        raise NotFoundError(
            f"turns {cursor[0]!r} and {cursor[1]!r} of user {self.user_id!r}, where this page starts, are gone",
            hint="start again from the first page",
        )

    def arrivals(self) -> Iterator[Turn]:
        """All turns of this view in order of arrival, which keeps every turn after the one it supersedes."""
        layout = self._store.layout(self.user_id)
        docs = _links_last(np.sort(layout.docs[self._existing(layout)]).tolist(), layout.supersedes)
        return self._read(docs)

    def still_there(self, turn_ids: Sequence[str], *, attachments: Attachments = "full") -> Iterator[Turn]:
        """Those of `turn_ids`, which are turn ids, that are still there, as `turns` reads them."""
        docs = self._store.docs_of_turns(self.user_id, turn_ids)
        return self._read([docs[turn_id] for turn_id in turn_ids if turn_id in docs], attachments=attachments)

    def turns_by_id(self, turn_ids: Sequence[str], *, attachments: Attachments = "full") -> list[Turn]:
        """Turns by turn id or external id, in the order given.

        Raises:
            NotFoundError: one of them isn't a turn of this user, in this view.
        """
        docs = self._store.docs_of_turns(self.user_id, turn_ids)
        missing = [turn_id for turn_id in turn_ids if turn_id not in docs]
        turns = list(self._read([docs[turn_id] for turn_id in turn_ids if turn_id in docs], attachments=attachments))
        if self.as_of is not None:
            as_of = self.as_of
            missing += [t.turn_id for t in turns if t.time is None or t.time > as_of]
        if missing or len(turns) != len(turn_ids):
            raise NotFoundError(f"no turn {missing[0] if missing else turn_ids[0]!r} of user {self.user_id!r}")
        return turns

    def successors(self, turn_ids: Sequence[str]) -> dict[str, Turn]:
        """The next newer turn in its chain of corrections for each of `turn_ids` that was superseded in this view."""
        layout = self._store.layout(self.user_id)
        older, next_rows = _replaced(layout, self._existing(layout))
        newer = dict(zip(layout.docs[older].tolist(), layout.docs[next_rows].tolist(), strict=True))
        found: dict[str, Turn] = {}
        for turn_id, doc in self._store.docs_of_turns(self.user_id, turn_ids).items():
            for turn in self._store.turns_by_doc(self.user_id, [newer[doc]] if doc in newer else []):
                found[turn_id] = turn
        return found

    def sessions(self) -> list[Session]:
        """Sessions in history order; an `as_of` view knows of each only the turns that exist in it."""
        sessions = self._store.sessions(self.user_id)
        if self.as_of is None:
            return sessions
        layout = self._store.layout(self.user_id)
        existing = self._existing(layout)
        turns = np.bincount(layout.session[existing], minlength=len(layout.session_ids)).tolist()
        rows = np.flatnonzero(existing)
        rows = rows[np.argsort(layout.said_us[rows], kind="stable")]
        last = dict(zip(layout.session[rows].tolist(), rows.tolist(), strict=True))
        ends = np.array(list(last.values()), dtype=np.int64)
        offsets = self._store.offsets(self.user_id, TURNS, layout.docs[ends]).tolist()
        times = zip(layout.said_us[ends].tolist(), offsets, strict=True)
        ended = {code: from_us(*at) for code, at in zip(last, times, strict=True)}
        seen: list[Session] = []
        codes = {session_id: code for code, session_id in enumerate(layout.session_ids)}
        for session in sessions:
            code = codes.get(session.session_id)
            if code is not None and turns[code] and session.started_at is not None:
                seen.append(replace(session, turns=turns[code], ended_at=ended[code]))
        return seen

    def entries(self, strategy: str, kind: str | None = None) -> list[Entry]:
        """A strategy's entries by kind, time and arrival; an `as_of` view hides those with a later source."""
        entries = self._store.entries(self.user_id, strategy, kind)
        if self.as_of is None:
            return entries
        return [entry for entry, known in zip(entries, self._made_from_existing(entries), strict=True) if known]

    def strategy_state(self, strategy: str) -> tuple[int, bytes | None]:
        """(version, state) of a strategy's work, to pass back to `commit`."""
        return self._store.strategy_state(self.user_id, strategy)

    def turns_to_rebuild(self, strategy: str) -> list[str]:
        """Turns whose entries were dropped because they also rested on a deleted turn."""
        return self._store.turns_to_rebuild(self.user_id, strategy)

    def commit(
        self,
        strategy: str,
        expected_version: int,
        put: Iterable[EntryDraft] = (),
        drop: Iterable[str] = (),
        state: bytes | None = None,
        rebuilt: Iterable[str] = (),
    ) -> int:
        """Write entries and state in one transaction; see `TurnStore.commit`."""
        return self._store.commit(self.user_id, strategy, expected_version, put, drop, state, rebuilt)
