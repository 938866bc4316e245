"""Building entries session by session: only what is new or changed, in pieces that may stop anywhere and go on.

    report = build_sessions(history, ctx, make, strategy="mine", flush=False)

`make` reads one session and gives its entries; it may call models and knows no store. What it gives is committed
together with the ledger (`construction.ledger`), session by session in history order, so that the same calls give the
same entries however many threads work.

What happens while models work is settled when their work is committed. A session that changed meanwhile is not
written: its entries would be old, so it stays as it was and the next build reads it anew; an add is never lost. Where
another build was faster, its entries stay. A session that a model could not do is noted and tried again by the next
build, and the others go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from backread.construction.in_order import in_order
from backread.construction.ledger import SESSIONS, Built, Failure, Ledger, fingerprint, marks, waiting_sessions
from backread.errors import InvalidInputError, ModelError, NotFoundError, StaleVersionError
from backread.models.usage import total
from backread.store.history import History, Scope
from backread.types import BuildReport, Degradation, EntryDraft, Session, Step, Turn, Usage

__all__ = ["Made", "Make", "Work", "build_sessions", "together"]

_MISSING_ATTEMPTS = 5  # a source that stays missing is a fault of `make`, not of a delete that came between


@dataclass(frozen=True, slots=True)
class Made:
    """What `make` gives for a session: its entries, and what they took and lack."""

    entries: tuple[EntryDraft, ...]
    usage: tuple[Usage, ...] = ()
    degraded: tuple[Degradation, ...] = ()


Make = Callable[[Session, Sequence[Turn]], Made]
"""Reads a session's visible turns, at least one; called from several threads. A ModelError fails the session only."""


class Work(Protocol):
    """How a build may run; `strategies.base.Context` says what each means."""

    @property
    def on_step(self) -> Callable[[Step], None] | None:
        """See `Context`."""
        ...

    @property
    def deadline(self) -> float | None:
        """See `Context`."""
        ...

    @property
    def cancel(self) -> threading.Event | None:
        """See `Context`."""
        ...

    @property
    def concurrency(self) -> int:
        """See `Context`."""
        ...


def build_sessions(
    history: History,
    work: Work,
    make: Make,
    *,
    strategy: str,
    ledger: str = SESSIONS,
    recipe: str = "",
    flush: bool = False,
) -> BuildReport:
    """Build what is pending: sessions that are new or changed, and sealed, which means that a later one exists.

    `on_step` is told of every finished session, in history order. Entries of sessions without a visible turn go.

    Args:
        history: whose sessions; a view with `as_of` is built as the whole record, for entries are the same for all.
        work: what may be used and must be honoured.
        make: gives the entries of a session; ids must be its own, and the same when it is called again.
        strategy: in whose name entries and state are kept.
        ledger: which of the strategy's ledgers, where it keeps several kinds of entry apart.
        recipe: changes when something else is made of the same turns, so that all is built again.
        flush: also the latest session, which may still go on.

    Raises:
        InvalidInputError: an entry in another strategy's name, or two with one id.
        NotFoundError: an entry names a source that isn't a turn of this user.
    """
    build = _Build(history.now(), work, make, strategy, ledger, recipe)
    build.run(flush=flush)
    return BuildReport(
        strategy,
        put=build.put,
        dropped=build.dropped,
        failed=tuple(build.failures),
        usage=tuple(build.usage),
        degraded=together(build.degraded),
    )


def together(degraded: Sequence[Degradation]) -> tuple[Degradation, ...]:
    """The same things said once each, with their counts added, in order of first appearance."""
    found: dict[tuple[str, str], Degradation] = {}
    for item in degraded:
        known = found.get((item.part, item.reason))
        if known is not None and item.count is not None:
            item = replace(item, count=item.count + (known.count or 0))
        found[item.part, item.reason] = item
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Read:
    """A session as it was read, and what became of it: entries, or the error of a model; neither when it is gone."""

    session_id: str
    mark: str = ""
    made: Made | None = None
    error: ModelError | None = None
    seconds: float = 0.0


@dataclass
class _Build:
    """One call of `build_sessions`."""

    history: History
    work: Work
    make: Make
    strategy: str
    ledger: str
    recipe: str
    put: int = 0
    dropped: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)
    _sessions: Mapping[str, Session] = field(default_factory=dict)
    _before: Mapping[str, Built] = field(default_factory=dict)

    def run(self, *, flush: bool) -> None:
        version, known = self._state()
        now = marks(self.history, self.recipe)
        self._before = known.built
        if any(session_id not in now for session_id in (*known.built, *known.failed)):
            self._drop_vanished()
        waiting = waiting_sessions(self.history, self.strategy)
        sealed = list(now) if flush else list(now)[:-1]
        pending = [
            session_id
            for session_id in sealed
            if session_id in waiting or known.built.get(session_id, Built("")).turns != now[session_id]
        ]
        if not pending:
            return
        if not version:
            self._open()
        self._sessions = {session.session_id: session for session in self.history.sessions()}
        self._work_through(pending)

    def _work_through(self, pending: Sequence[str]) -> None:
        left = 0
        work = self.work
        for read in in_order(
            self._read, pending, concurrency=work.concurrency, cancel=work.cancel, deadline=work.deadline
        ):
            if read is None:
                left += 1
            else:
                self._settle(read)
        if left:
            self.degraded.append(Degradation("build", "stopped before its end; the next build goes on", left))

    def _state(self) -> tuple[int, Ledger]:
        version, state = self.history.strategy_state(self.strategy)
        return version, Ledger.read(state, self.ledger)

    def _open(self) -> None:
        """Commit once before models work, so that a delete during it is noticed: there is a version to be stale."""
        try:
            self.history.commit(self.strategy, 0, state=Ledger().written(None, self.ledger))
        except StaleVersionError:
            return

    def _read(self, session_id: str) -> _Read:
        """Read a session and have its entries made; called in a thread of the pool, which holds no connection then."""
        started = time.monotonic()
        turns = list(self.history.turns(Scope(session_ids=[session_id])))
        mark = fingerprint(turns, self.recipe)
        row = self._state()[1].built.get(session_id)
        taken = row is not None and row != self._before.get(session_id) and row.turns == mark
        session = self._sessions.get(session_id)
        if not turns or taken or session is None:
            return _Read(session_id)
        made, failed = None, None
        try:
            made = self._checked(self.make(session, turns))
        except ModelError as error:
            failed = error
        return _Read(session_id, mark, made, failed, time.monotonic() - started)

    def _checked(self, made: Made) -> Made:
        ids = [draft.entry_id for draft in made.entries]
        if len(set(ids)) != len(ids):
            raise InvalidInputError(f"{self.strategy}: two entries of one session have the same id")
        for draft in made.entries:
            if draft.strategy != self.strategy:
                raise InvalidInputError(f"{self.strategy}: an entry is in the name of {draft.strategy!r}")
        return made

    def _settle(self, read: _Read) -> None:
        """Commit what was made of a session, or that it failed, and tell of it."""
        if read.made is None and read.error is None:
            return
        spent = list(read.made.usage) if read.made else []
        if read.error is not None and isinstance(read.error.usage, Usage):
            spent.append(read.error.usage)
        self.usage += spent
        written = self._committed(read)
        if read.error is not None:
            self.failures.append((read.session_id, str(read.error)))
        elif not written:
            reason = "sessions changed while they were read; the next build reads them again"
            self.degraded.append(Degradation("build", reason, 1))
        if read.made is not None and written:
            self.degraded += read.made.degraded
        if self.work.on_step is not None:
            tokens = total(spent)
            detail = {
                "session": read.session_id,
                "entries": len(read.made.entries) if read.made and written else 0,
                "input_tokens": tokens.input_tokens,
                "output_tokens": tokens.output_tokens,
                "failed": None if read.error is None else str(read.error),
            }
            self.work.on_step(Step("build", detail, read.seconds))

    def _committed(self, read: _Read) -> bool:
        """Whether the session is now in the store as it was read; decided anew when another commit came between."""
        missing = 0
        while True:
            version, state = self.history.strategy_state(self.strategy)
            known = Ledger.read(state, self.ledger)
            row = known.built.get(read.session_id)
            if marks(self.history, self.recipe, [read.session_id]).get(read.session_id) != read.mark:
                return False
            if row is not None and row != self._before.get(read.session_id) and row.turns == read.mark:
                return True  # another build was faster
            try:
                self._commit(version, state, known, row, read)
            except StaleVersionError:
                continue
            except NotFoundError:  # a turn was deleted after it was looked for
                missing += 1
                if missing >= _MISSING_ATTEMPTS:
                    raise
                continue
            return True

    def _commit(self, version: int, state: bytes | None, known: Ledger, row: Built | None, read: _Read) -> None:
        built, failed = dict(known.built), dict(known.failed)
        before = failed.pop(read.session_id, None)
        if read.made is None:
            failed[read.session_id] = Failure(type(read.error).__name__, 1 + (before.tries if before else 0))
            self.history.commit(self.strategy, version, state=Ledger(built, failed).written(state, self.ledger))
            return
        ids = tuple(draft.entry_id for draft in read.made.entries)
        old = set(row.entries if row else ()).difference(ids)
        built[read.session_id] = Built(read.mark, ids)
        self.history.commit(
            self.strategy,
            version,
            read.made.entries,
            sorted(old),
            Ledger(built, failed).written(state, self.ledger),
            waiting_sessions(self.history, self.strategy).get(read.session_id, ()),
        )
        self.put += len(ids)
        self.dropped += len(old)

    def _drop_vanished(self) -> None:
        """Take sessions that have no visible turn any more out of the ledger, with their entries."""
        while True:
            version, state = self.history.strategy_state(self.strategy)
            known = Ledger.read(state, self.ledger)
            now = marks(self.history, self.recipe)
            kept = Ledger(
                {key: row for key, row in known.built.items() if key in now},
                {key: failure for key, failure in known.failed.items() if key in now},
            )
            if kept == known:
                return  # another build was faster
            old = sorted(entry_id for key, row in known.built.items() if key not in now for entry_id in row.entries)
            there = {entry.entry_id for entry in self.history.entries(self.strategy)}
            waiting = waiting_sessions(self.history, self.strategy)
            settled = [turn_id for key, ids in waiting.items() if key not in now for turn_id in ids]
            try:
                self.history.commit(self.strategy, version, (), old, kept.written(state, self.ledger), settled)
            except (StaleVersionError, NotFoundError):
                continue
            self.dropped += len(there.intersection(old))
            return
