"""LightMem's offline update: an entry is compared with later ones like it, and a model decides what becomes of it.

Every later entry may change the earlier ones that it is most like (`settings.Settings`). All decisions are made on one
snapshot. What an update says rests on the sources of the entry and of all that it was compared with; an entry that is
dropped leaves the turns it was made from in the record. An entry is compared again only when it, or one of the others,
has changed.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from backread.construction.in_order import in_order
from backread.construction.prompt_files import Prompt, read_prompt
from backread.construction.sessions import together
from backread.construction.transcript import day
from backread.construction.tying import tie
from backread.errors import ModelError, NotFoundError, StaleVersionError
from backread.models.base import ChatMessage, ChatModel, Embedder
from backread.models.context_window import with_smaller_prompts
from backread.models.structured import Structured, complete_as
from backread.models.usage import total
from backread.store.history import History
from backread.strategies.base import Context
from backread.strategies.lightmem.batches import Book
from backread.strategies.lightmem.building import Shelf, stands
from backread.strategies.lightmem.facts import fact_text
from backread.strategies.lightmem.settings import Settings
from backread.text.fencing import fence, quote
from backread.types import BuildReport, Degradation, Entry, EntryDraft, Step, Usage

if TYPE_CHECKING:
    from backread.strategies.lightmem.replies import UpdateReply

__all__ = ["Case", "cases", "update_entries", "update_prompt"]

REPLY_TOKENS = 512
TOGETHER = 20
"""Decisions that are committed together."""


@dataclass(frozen=True, slots=True)
class Case:
    """An entry, and the later ones it is compared with, in the order of time; at least one."""

    target: Entry
    later: tuple[Entry, ...]

    @property
    def mark(self) -> str:
        """Stands for the entries and their versions."""
        return _mark((self.target, *self.later))


def update_prompt() -> Prompt:
    """The prompt for an update."""
    return read_prompt("backread.strategies.lightmem", "update")


def cases(entries: Sequence[Entry], vectors: NDArray[np.float32], settings: Settings) -> list[Case]:
    """What is to be decided, in the order of the entries; none for an entry that no later one may change.

    Args:
        entries: earlier ones first.
        vectors: a row of unit length for each.
        settings: how many neighbours count, and from which cosine.
    """
    later: dict[int, list[Entry]] = {}
    for place, entry in enumerate(entries):
        cosines = (vectors[: place + 1] @ vectors[place]).round(4)  # itself included, as in the released code
        near = np.argsort(-cosines, kind="stable")[: settings.neighbours].tolist()
        for other in [other for other in near if other != place][: settings.kept_neighbours]:
            if cosines[other] >= settings.threshold:
                later.setdefault(other, []).append(entry)
    return [Case(entries[place], tuple(found)) for place, found in sorted(later.items())]


def update_entries(
    history: History, ctx: Context, chat: ChatModel, embedder: Embedder, settings: Settings, shelf: Shelf
) -> BuildReport:
    """Compare all entries whose time is known, and commit what the model decides.

    Nothing is done, and nothing embedded, when nothing changed since a run that changed nothing. `on_step` is told of
    every decision, in order. An entry that the model could not decide about is tried again by the next run.

    Raises:
        ModelError: the embedder could not be asked.
    """
    run = _Update(history.now(), ctx, chat, embedder, settings, shelf)
    run.run()
    return BuildReport(
        shelf.strategy,
        put=run.put,
        dropped=run.dropped,
        failed=tuple(run.failures),
        usage=tuple(run.usage),
        degraded=together(run.degraded),
    )


@dataclass(frozen=True, slots=True)
class _Decided:
    """What the model said of a case; `shown` is the part of it that went into the prompt."""

    case: Case
    shown: Case
    action: Literal["update", "delete", "ignore"] = "ignore"
    text: str = ""
    usage: tuple[Usage, ...] = ()
    error: ModelError | None = None
    seconds: float = 0.0


@dataclass
class _Update:
    """One call of `update_entries`."""

    history: History
    ctx: Context
    chat: ChatModel
    embedder: Embedder
    settings: Settings
    shelf: Shelf
    put: int = 0
    dropped: int = 0
    failures: dict[tuple[str, str], None] = field(default_factory=dict)
    usage: list[Usage] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)

    def run(self) -> None:
        entries, book = self._standing()
        if len(entries) < 2 or book.maintained == self._whole(entries):
            return
        vectors = self.embedder.embed([entry.index_text for entry in entries])
        pending = [
            case
            for case in cases(entries, vectors, self.settings)
            if book.compared.get(case.target.entry_id) != case.mark
        ]
        ctx, left, ready = self.ctx, 0, list[_Decided]()
        for made in in_order(
            self._decide, pending, concurrency=ctx.concurrency, cancel=ctx.cancel, deadline=ctx.deadline
        ):
            if made is None:
                left += 1
                continue
            self._tell(made)
            ready += [made] if made.error is None else []
            if len(ready) >= TOGETHER:
                self._commit(ready)
                ready = []
        self._commit(ready)
        if left:
            reason = "entries were not compared, as the call was to end; the next run goes on"
            self.degraded.append(Degradation("update", reason, left))
        if not (left or self.failures or self.put or self.dropped):
            self._note(entries)

    def _standing(self) -> tuple[list[Entry], Book]:
        """The entries of known time that may be shown, in the order in which later ones change earlier ones."""
        _, _, book = self.shelf.book(self.history)
        shown = {key for row in stands(self.history, self.shelf, book).values() for key in row.entries}
        entries = self.history.entries(self.shelf.strategy, self.shelf.kind)
        return sorted((e for e in entries if e.entry_id in shown and e.said_at is not None), key=_place), book

    def _whole(self, entries: Iterable[Entry]) -> str:
        settings = self.settings
        numbers = f"{settings.neighbours} {settings.kept_neighbours} {settings.threshold}"
        return _mark(entries, f"{self.embedder.fingerprint} {numbers}")

    def _decide(self, case: Case) -> _Decided:
        """Ask the model; called in a thread of the pool."""
        started = time.monotonic()
        shown = case

        def send(share: float) -> Structured[UpdateReply]:
            nonlocal shown
            shown = replace(case, later=case.later[-max(1, math.ceil(share * len(case.later))) :])
            from backread.strategies.lightmem.replies import UpdateReply

            return complete_as(
                self.chat, _request(shown), UpdateReply, purpose="build", max_tokens=REPLY_TOKENS, instruct=False
            )

        try:
            made = with_smaller_prompts(send)
        except ModelError as error:
            spent = (error.usage,) if isinstance(error.usage, Usage) else ()
            return _Decided(case, shown, usage=spent, error=error, seconds=time.monotonic() - started)
        text = " ".join(made.value.new_memory.split())
        return _Decided(case, shown, made.value.action, text, made.usage, seconds=time.monotonic() - started)

    def _tell(self, made: _Decided) -> None:
        self.usage += made.usage
        if made.error is not None:
            with suppress(NotFoundError):  # deleted meanwhile: then there is nothing to try again
                turns = self.history.turns_by_id([made.case.target.sources[0].turn_id])
                self.failures[turns[0].session_id, str(made.error)] = None
        if self.ctx.on_step is not None:
            tokens = total(made.usage)
            detail = {
                "entry": made.case.target.entry_id,
                "action": made.action if made.error is None else None,
                "compared": len(made.shown.later),
                "input_tokens": tokens.input_tokens,
                "output_tokens": tokens.output_tokens,
                "failed": None if made.error is None else str(made.error),
            }
            self.ctx.on_step(Step("update", detail, made.seconds))

    def _commit(self, decided: Sequence[_Decided]) -> None:
        """Commit decisions whose entry is still what it was, and whose turns are all there."""
        while decided:
            version, state, book = self.shelf.book(self.history)
            change = _Change(self.history, self.settings, self.chat.name, book, self._versions())
            for made in decided:
                change.take(made, version + 1)
            try:
                self.history.commit(
                    self.shelf.strategy,
                    version,
                    change.put,
                    change.drop,
                    change.book.written(state, self.shelf.kind),
                )
            except (StaleVersionError, NotFoundError):
                continue  # a turn was deleted after it was looked for, or a build committed
            self.put += len(change.put)
            self.dropped += len(change.drop)
            self.degraded += change.notes()
            return

    def _versions(self) -> dict[str, int]:
        return {entry.entry_id: entry.version for entry in self.history.entries(self.shelf.strategy, self.shelf.kind)}

    def _note(self, entries: Sequence[Entry]) -> None:
        """Keep that these entries need no comparing."""
        while True:
            version, state, book = self.shelf.book(self.history)
            after = replace(book, maintained=self._whole(entries))
            try:
                self.history.commit(self.shelf.strategy, version, state=after.written(state, self.shelf.kind))
            except StaleVersionError:
                continue
            return


class _Change:
    """What several decisions change together.

    Args:
        history: whose entries.
        settings: what an update keeps.
        model: that decided.
        book: before the change.
        versions: of the entries that are there.
    """

    def __init__(
        self, history: History, settings: Settings, model: str, book: Book, versions: Mapping[str, int]
    ) -> None:
        self._history, self._settings, self._model = history, settings, model
        self._versions = versions
        self._batch_of = {key: number for number, row in book.batches.items() for key in row.entries}
        self._overtaken = self._untied = 0
        self.book = book
        self.put: list[EntryDraft] = []
        self.drop: list[str] = []

    def take(self, made: _Decided, version: int) -> None:
        """Add a decision; `version` is what the commit will have."""
        target = made.case.target
        number = self._batch_of.get(target.entry_id)
        turn_ids = list(
            dict.fromkeys(source.turn_id for entry in _newest_first(made.shown) for source in entry.sources)
        )
        there = len(self._history.corpus("turn").find(turn_ids)) == len(turn_ids)
        if number is None or self._versions.get(target.entry_id) != target.version or not there:
            self._overtaken += 1
            return
        action, mark = made.action, made.case.mark
        if action == "update":
            turns = self._history.turns_by_id(turn_ids)
            if tie(made.text, turns, ()):
                self.put.append(_updated(made, self._model, self._settings))
                mark = _mark((replace(target, version=version), *made.case.later))
            else:
                self._untied += 1
                action = "ignore"
        elif action == "delete":
            self.drop.append(target.entry_id)
        self._write(number, target.entry_id, action, mark, turn_ids)

    def _write(self, number: int, entry_id: str, action: str, mark: str, turn_ids: Sequence[str]) -> None:
        compared = {**self.book.compared, entry_id: mark}
        batches = dict(self.book.batches)
        row = batches[number]
        if action != "ignore":
            others = (key for key in turn_ids if key not in row.turn_ids)
            row = replace(row, changed_by=tuple(dict.fromkeys((*row.changed_by, *others))))
        if action == "delete":
            row = replace(row, entries=tuple(key for key in row.entries if key != entry_id))
            del compared[entry_id]
        batches[number] = row
        self.book = replace(self.book, batches=batches, compared=compared)

    def notes(self) -> list[Degradation]:
        """What could not be used."""
        counted = (
            ("entries changed while they were compared; the next run compares them again", self._overtaken),
            ("updates said nothing of what they were made from; the entries stay", self._untied),
        )
        return [Degradation("update", reason, count) for reason, count in counted if count]


def _request(case: Case) -> list[ChatMessage]:
    """The rules, the notes, and the form of the reply."""
    prompt = update_prompt()
    labels = ["old", *(str(number) for number in range(1, len(case.later) + 1))]
    lines = [
        quote(f"[{label}] {day(entry.said_at)}: {fact_text(entry.data['fact'], entry.data['speaker'])}")
        for label, entry in zip(labels, (case.target, *case.later), strict=True)
    ]
    return [
        ChatMessage("system", prompt.rules),
        ChatMessage("user", f"{fence(lines, label='notes')}\n\n{prompt.form}"),
    ]


def _first_said(entry: Entry) -> datetime:
    """When what an entry says was said first; an update moves `said_at`, and this not."""
    if "first_said" in entry.data:
        return datetime.fromisoformat(entry.data["first_said"])
    assert entry.said_at is not None, "entries of unknown time are not compared"
    return entry.said_at


def _place(entry: Entry) -> tuple[datetime, int, int]:
    """The place of an entry among all: by the time, batch and number it was made with, which an update leaves as is."""
    _, batch, number = entry.entry_id.split(":")
    return _first_said(entry), int(batch), int(number)


def _newest_first(case: Case) -> tuple[Entry, ...]:
    return (*reversed(case.later), case.target)


def _updated(made: _Decided, model: str, settings: Settings) -> EntryDraft:
    """The entry after an update: it stands at the time of the newest it was compared with, found by its new words.

    As published, it keeps its time, and the words it is found by.
    """
    target = made.case.target
    entries = (target, *made.shown.later) if settings.as_published else _newest_first(made.shown)
    sources = tuple(dict.fromkeys(source for entry in entries for source in entry.sources))
    updates = target.data.get("updates", 0) + 1
    data = {**target.data, "fact": made.text, "first_said": _first_said(target).isoformat(), "updates": updates}
    text = target.index_text if settings.as_published else fact_text(made.text, target.data["speaker"])
    return EntryDraft(
        target.entry_id,
        target.strategy,
        target.kind,
        data,
        text,
        sources,
        entries[0].said_at,
        model,
        update_prompt().hash,
        tuple(dict.fromkeys(turn_id for entry in entries for turn_id in entry.shown)),
    )


def _mark(entries: Iterable[Entry], more: str = "") -> str:
    """16 hexadecimal digits that stand for the ids and versions of entries."""
    told = "\n".join([more, *(f"{entry.entry_id}@{entry.version}" for entry in entries)])
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
