"""Building batch by batch: turns go through the buffers, what they close is read, and entries and state go in together.

The buffers are committed before a model works, with the batches they closed: a build that is stopped or killed goes on
from there, and reads the batches that have no entries yet. What happens while a model works is settled when its work is
committed. A batch of which a turn was deleted or superseded meanwhile is not written, and read again by the next build;
turns that were added are in no batch yet, so they wait for it. A batch that a model could not do is noted and tried
again, and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from backread.construction.in_order import in_order
from backread.construction.sessions import Made, together
from backread.errors import ModelError, NotFoundError, StaleVersionError
from backread.models.usage import total
from backread.store.history import History, Scope
from backread.strategies.base import Context
from backread.strategies.lightmem.batches import Batch, Book
from backread.strategies.lightmem.facts import Line, Make, Topic
from backread.strategies.lightmem.gathering import gather
from backread.strategies.lightmem.reading import Reading
from backread.strategies.lightmem.settings import Settings
from backread.strategies.trace import Trace
from backread.types import BuildReport, Degradation, Step, Turn, Usage

__all__ = ["Shelf", "build_batches", "stands", "stopped"]

AT_ONCE = 32
"""Batches that are closed before they are read: the buffers don't run far ahead of the model."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where entries are: strategy and kind, and what they are made by."""

    strategy: str
    kind: str
    recipe: str

    def book(self, history: History) -> tuple[int, bytes | None, Book]:
        """Version and state of the strategy, and the book of this kind in it."""
        version, state = history.strategy_state(self.strategy)
        return version, state, Book.read(state, self.kind)


def stands(history: History, shelf: Shelf, book: Book) -> dict[int, Batch]:
    """The batches of a book that are as they were read, as far as this view of the history goes."""
    corpus = history.corpus("turn")
    named = {key for row in book.batches.values() for key in (*row.turn_ids, *row.changed_by)}
    if len(corpus.find(sorted(named))) < len(named):
        named &= {turn.turn_id for turn in history.turns(Scope())}
    written = sum(len(row.entries) for row in book.batches.values())
    there = None
    if history.now().corpus((shelf.strategy, shelf.kind)).size < written:
        there = {entry.entry_id for entry in history.now().entries(shelf.strategy, shelf.kind)}
    return book.standing(shelf.recipe, named, there)


def stopped(ctx: Context) -> bool:
    """Whether nothing new may be begun."""
    return Trace(ctx).over


def build_batches(
    history: History,
    ctx: Context,
    make: Make,
    reading: Reading,
    settings: Settings,
    shelf: Shelf,
    *,
    flush: bool = False,
) -> BuildReport:
    """Gather what is new, and read all batches that have no entries yet or whose turns have changed.

    `on_step` is told of every batch, in order.

    Args:
        history: whose turns; a view with `as_of` is built as the whole record.
        ctx: what may be used and must be honoured.
        make: gives the entries of a batch.
        reading: shortens, measures and cuts.
        settings: sizes of the buffers.
        shelf: where the entries go.
        flush: also what is still in the buffers.

    Raises:
        ModelError: the embedder or the compressor could not be asked.
    """
    build = _Build(history.now(), ctx, make, reading, settings, shelf)
    build.run(flush=flush)
    return BuildReport(
        shelf.strategy,
        put=build.put,
        dropped=build.dropped,
        failed=tuple(build.failures),
        usage=tuple(build.usage),
        degraded=together(build.degraded),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """A batch as it was read, and what became of it: entries, or the error of a model; neither when it is taken."""

    number: int
    old: Batch
    new: Batch
    turns: tuple[Turn, ...]
    made: Made | None = None
    error: ModelError | None = None
    seconds: float = 0.0


@dataclass
class _Build:
    """One call of `build_batches`."""

    history: History
    ctx: Context
    make: Make
    reading: Reading
    settings: Settings
    shelf: Shelf
    put: int = 0
    dropped: int = 0
    failures: dict[tuple[str, str], None] = field(default_factory=dict)
    usage: list[Usage] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)
    _turns: dict[str, Turn] = field(default_factory=dict)

    def run(self, *, flush: bool) -> None:
        tried: set[int] = set()
        more = True
        while more and not stopped(self.ctx):
            book, more = self._gather(flush=flush)
            standing = stands(self.history, self.shelf, book)
            waiting = [number for number in book.batches if number not in standing and number not in tried]
            tried.update(waiting)
            self._work_through([self._taken(number, book.batches[number]) for number in waiting])
        if more:
            self._leave("turns were not read, as the call was to end; the next build goes on", None)
        self._settle_waiting()

    def _gather(self, *, flush: bool) -> tuple[Book, bool]:
        """Take what is new through the buffers, and commit how far they came."""
        while True:
            version, state, before = self.shelf.book(self.history)
            turns = list(self.history.turns(Scope()))
            self._turns = {turn.turn_id: turn for turn in turns}
            book, more = gather(
                turns,
                before,
                self.reading,
                self.settings,
                flush=flush,
                most=AT_ONCE,
                stopped=lambda: stopped(self.ctx),
            )
            if book == before:
                return book, more
            try:
                self.history.commit(self.shelf.strategy, version, state=book.written(state, self.shelf.kind))
            except StaleVersionError:
                continue  # a turn was deleted, or another build committed
            return book, more

    def _taken(self, number: int, row: Batch) -> _Read:
        """A batch as it stands now, with the turns of it that are left."""
        new = replace(row.only(self._turns), recipe=self.shelf.recipe, entries=(), changed_by=(), tries=0)
        return _Read(number, row, new, tuple(self._turns[key] for key in new.turn_ids))

    def _work_through(self, pending: Sequence[_Read]) -> None:
        left = 0
        ctx = self.ctx
        for read in in_order(
            self._read, pending, concurrency=ctx.concurrency, cancel=ctx.cancel, deadline=ctx.deadline
        ):
            if read is None:
                left += 1
            else:
                self._settle(read)
        if left:
            self._leave("batches were not read, as the call was to end; the next build goes on", left)

    def _leave(self, reason: str, count: int | None) -> None:
        self.degraded.append(Degradation("build", reason, count))

    def _read(self, read: _Read) -> _Read:
        """Have the entries of a batch made; called in a thread of the pool, which holds no connection then."""
        started = time.monotonic()
        if self.shelf.book(self.history)[2].batches.get(read.number) != read.old:
            return read  # another build was faster
        lines = [
            tuple(Line(turn, self.reading.text(turn)) for turn in map(self._turns.__getitem__, ids))
            for ids in read.new.topics
        ]
        shown = [tuple(line for line in part if self.reading.counts(line.turn) and line.text.strip()) for part in lines]
        topics = [Topic(read.new.first_topic + place, part) for place, part in enumerate(shown) if part]
        made, failed = Made(()), None
        try:
            if topics:
                made = self.make(f"{self.shelf.kind}:{read.number}", topics)
        except ModelError as error:
            failed = error
        seconds = time.monotonic() - started
        return replace(read, made=None if failed else made, error=failed, seconds=seconds)

    def _settle(self, read: _Read) -> None:
        """Commit what was made of a batch, or that it failed, and tell of it."""
        if read.made is None and read.error is None:
            return
        spent = list(read.made.usage) if read.made else []
        if read.error is not None and isinstance(read.error.usage, Usage):
            spent.append(read.error.usage)
        self.usage += spent
        written = self._committed(read)
        if read.error is not None:
            self.failures.update(dict.fromkeys((turn.session_id, str(read.error)) for turn in read.turns))
        elif not written:
            self._leave("batches changed while they were read; the next build reads them again", 1)
        if read.made is not None and written:
            self.degraded += read.made.degraded
        if self.ctx.on_step is not None:
            tokens = total(spent)
            detail = {
                "batch": read.number,
                "turns": len(read.turns),
                "entries": len(read.made.entries) if read.made and written else 0,
                "input_tokens": tokens.input_tokens,
                "output_tokens": tokens.output_tokens,
                "failed": None if read.error is None else str(read.error),
            }
            self.ctx.on_step(Step("build", detail, read.seconds))

    def _committed(self, read: _Read) -> bool:
        """Whether the batch is now in the store as it was read; decided anew when another commit came between."""
        while True:
            version, state, book = self.shelf.book(self.history)
            row = book.batches.get(read.number)
            ids = read.new.turn_ids
            if row is None or row != read.old:
                return read.number in stands(self.history, self.shelf, book)  # then another build was faster
            if len(self.history.corpus("turn").find(ids)) < len(ids):
                return False
            drafts = read.made.entries if read.made else ()
            new: Batch | None = read.new
            if read.made is None:
                new = replace(read.old, tries=read.old.tries + 1)
            elif ids:
                new = replace(read.new, entries=tuple(draft.entry_id for draft in drafts))
            else:
                new = None
            old = [] if read.made is None else sorted(set(row.entries).difference(new.entries if new else ()))
            after = book.with_batch(read.number, new).written(state, self.shelf.kind)
            try:
                self.history.commit(self.shelf.strategy, version, drafts, old, after)
            except (StaleVersionError, NotFoundError):
                continue  # a turn was deleted after it was looked for, or another build committed
            self.put += len(drafts)
            self.dropped += len(old)
            return True

    def _settle_waiting(self) -> None:
        """Turns no longer wait for rebuilding once their batches stand, or they are superseded."""
        while waiting := self.history.turns_to_rebuild(self.shelf.strategy):
            version, _, book = self.shelf.book(self.history)
            standing = {key for row in stands(self.history, self.shelf, book).values() for key in row.turn_ids}
            there = {turn.turn_id for turn in self.history.turns(Scope())}
            settled = [key for key in waiting if key in standing or key not in there]
            if not settled:
                return
            try:
                self.history.commit(self.shelf.strategy, version, rebuilt=settled)
            except (StaleVersionError, NotFoundError):
                continue
