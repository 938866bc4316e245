"""Selective memory evolution: new events are consolidated with related ones, a few at a time. LeanMem, section 3.3.

The buffer holds every event that was written and not yet looked at. It is filled by the commit that writes the event,
in the same transaction, and what is in it can be found at once. Once it has eight, each of them is compared with the
events there are; with the related ones it goes to the model, which says whether one of them is to be updated, and how
things stand then. What was known before stays: the timeline of an evolved event is made of the states of its parts,
word for word, by code.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from backread.construction.segmentation import word_cosine
from backread.construction.sessions import Work, together
from backread.errors import ModelError, ModelOutputError, NotFoundError, StaleVersionError
from backread.models.base import ChatModel, Embedder
from backread.models.usage import total
from backread.models.wrappers import MeteredChat
from backread.store.history import History
from backread.strategies.leanmem.asking import ask, prompt
from backread.strategies.leanmem.dating import day_of, days_in
from backread.strategies.leanmem.design import Shelf
from backread.strategies.leanmem.events import Events, at, event_text, evolved, spans
from backread.text.fencing import quote
from backread.text.support import content
from backread.types import BuildReport, Degradation, Entry, EntryDraft, Step, Usage

if TYPE_CHECKING:
    from backread.strategies.leanmem.replies import ConsolidationReply

__all__ = ["CAPACITY", "LEAST", "RELATED", "Evolution"]

CAPACITY = 8
"""Events in the buffer from which they are consolidated."""

RELATED = 5
"""Related events a model sees at most."""

LEAST = 0.5
"""Cosine of topic and state from which events are related."""

_PART = "evolution"
_MAX_TOKENS = 300


@dataclass(frozen=True, slots=True)
class _Standing:
    """What there is: the version it was read at, the state, the events, and which of them stand alone, by digest.

    An event that became a part of another one is not among the latter, so that it waits again once that one is gone.
    """

    version: int
    state: bytes | None
    events: Events
    alone: Mapping[str, str]

    @classmethod
    def read(cls, history: History, shelf: Shelf) -> _Standing:
        version, state = history.strategy_state(shelf.strategy)
        events = Events(history.entries(shelf.strategy, shelf.kind("event")))
        parts = json.loads(state) if state else {}
        return cls(version, state, events, parts.get(_PART, {}).get("alone", {}))

    @property
    def buffered(self) -> list[Entry]:
        """Events that were written, or written anew, since they were last looked at, in order of time."""
        absorbed, digests = self.events.absorbed, self.events.digests
        waiting = (
            entry
            for entry in self.events.written.values()
            if self.alone.get(entry.entry_id) != digests[entry.entry_id] and entry.entry_id not in absorbed
        )
        return sorted(waiting, key=at)

    def written(self, alone: Mapping[str, str]) -> bytes:
        """The state in which these events stand alone."""
        parts = {**(json.loads(self.state) if self.state else {}), _PART: {"alone": dict(alone)}}
        return json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()


@dataclass
class Evolution:
    """One pass over the buffer of a shelf.

    Args:
        history: whose events.
        shelf: where they stand.
        chat: consolidates.
        embedder: compares events; None compares their words.
        work: what must be honoured.
    """

    history: History
    shelf: Shelf
    chat: ChatModel
    embedder: Embedder | None
    work: Work
    put: int = 0
    dropped: int = 0
    usage: list[Usage] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)
    _vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def run(self, *, flush: bool) -> BuildReport:
        """Consolidate what is buffered, eight at a time, the oldest first; with `flush` also fewer than eight.

        An event that the model gives no valid reply for stays as it is. When the model can't be asked, the pass ends
        and the rest stays in the buffer.
        """
        self.history = self.history.now()
        self._tidy()
        while True:
            buffered = _Standing.read(self.history, self.shelf).buffered
            if not buffered or (len(buffered) < CAPACITY and not flush) or not self._take(buffered[:CAPACITY]):
                break
        return BuildReport(
            self.shelf.strategy,
            put=self.put,
            dropped=self.dropped,
            failed=tuple(self.failed),
            usage=tuple(self.usage),
            degraded=together(self.degraded),
        )

    def _tidy(self) -> None:
        """Drop evolved events of which a part is gone or another: their other parts wait again."""
        while True:
            now = _Standing.read(self.history, self.shelf)
            kept = {entry_id: mark for entry_id, mark in now.alone.items() if entry_id in now.events.written}
            if not now.events.broken and kept == now.alone:
                return
            drop = [entry.entry_id for entry in now.events.broken]
            try:
                self.history.commit(self.shelf.strategy, now.version, (), drop, now.written(kept))
            except StaleVersionError:
                continue
            self.dropped += len(drop)
            return

    def _take(self, batch: Sequence[Entry]) -> bool:
        """Look at some events; False when the pass has to end."""
        alone: list[Entry] = []  # committed together: no model was asked about them
        for place, event in enumerate(batch):
            if self._stopped():
                self._leave(alone)
                reason = "stopped before its end; the next build goes on"
                self.degraded.append(Degradation("evolution", reason, len(batch) - place))
                return False
            now = _Standing.read(self.history, self.shelf)
            if event.entry_id not in {item.entry_id for item in now.buffered}:
                continue  # it became a part of another one, or another build was faster
            try:
                related = self._related(event, now.events)
                asked = not related or self._consolidate(event, related, now.events)
            except ModelError as error:
                self._leave(alone)
                self.failed.append((event.data["sessions"][0], f"events were not consolidated: {error}"))
                return False
            if not asked:
                return False
            if not related:
                alone.append(event)
        return self._leave(alone)

    def _leave(self, events: Sequence[Entry]) -> bool:
        return not events or self._commit(events)

    def _related(self, event: Entry, events: Events) -> list[Entry]:
        """The events most alike to one, in order of time."""
        others = [entry for entry in events.current if entry.entry_id != event.entry_id]
        cosines = self._cosines(_text(event), [_text(entry) for entry in others])
        best = sorted(range(len(others)), key=lambda place: -cosines[place])[:RELATED]
        return sorted((others[place] for place in best if cosines[place] >= LEAST), key=at)

    def _cosines(self, text: str, others: Sequence[str]) -> list[float]:
        if self.embedder is None:
            return [word_cosine(text, other) for other in others]
        missing = [item for item in dict.fromkeys([text, *others]) if item not in self._vectors]
        self._vectors |= dict(zip(missing, self.embedder.embed(missing), strict=True))
        return [round(float(self._vectors[text] @ self._vectors[other]), 4) for other in others]

    def _consolidate(self, event: Entry, related: Sequence[Entry], events: Events) -> bool:
        """Ask the model about an event and commit what becomes of it; False when others changed it meanwhile."""
        from backread.strategies.leanmem.replies import ConsolidationReply

        started = time.monotonic()
        spent: list[Usage] = []
        labels = {f"E{number}": entry for number, entry in enumerate(related, 1)}
        lines = [_line("new", event), *(_line(label, entry) for label, entry in labels.items())]
        reply: ConsolidationReply | None = None
        try:
            reply, _ = ask(
                MeteredChat(self.chat, spent), "evolve", "events", lines, ConsolidationReply, max_tokens=_MAX_TOKENS
            )
        except ModelOutputError:
            self.degraded.append(Degradation("evolution", "events stay as they are: no reply could be used", 1))
        finally:
            self.usage += spent
        target = None if reply is None or reply.op == "none" else labels.get(reply.target_id or "")
        if reply is not None and reply.op != "none" and target is None:
            self.degraded.append(
                Degradation("evolution", "events stay as they are: the reply named none that was shown", 1)
            )
        if reply is None or target is None:
            done = self._commit([event])
        else:
            others = [entry for entry in related if entry is not target]
            done = self._commit([event], target, self._merged(event, target, others, reply, events))
        tokens = total(spent)
        detail: dict[str, Any] = {
            "event": event.entry_id,
            "related": len(related),
            "op": reply.op if reply is not None else None,
            "target": target.entry_id if target is not None else None,
            "committed": done,
            "input_tokens": tokens.input_tokens,
            "output_tokens": tokens.output_tokens,
        }
        if self.work.on_step is not None:
            self.work.on_step(Step("evolve", detail, time.monotonic() - started))
        return done

    def _merged(
        self, event: Entry, target: Entry, others: Sequence[Entry], reply: ConsolidationReply, events: Events
    ) -> EntryDraft:
        """The target with the event in it; how things stand is the model's where it can be.

        Words of events that were only shown beside would outlive these. A change that has no word of the latest event
        is the state before it, as small models like to repeat it. Then the latest state itself stands.
        """
        parts = sorted([*events.parts(target), event], key=at)
        own, state = _words([target, event]), content(reply.state)
        news = _words(parts[-1:]) - _words(parts[:-1])
        current = reply.op == "add" or not news or state & news
        if state & own and current and not (state | content(reply.topic)).difference(own) & _words(others):
            days = [known for part in parts for known in spans(part)]
            supported = [one for one in days_in(reply.temporal_anchor) if any(one.overlaps(other) for other in days)]
            anchor = reply.temporal_anchor if supported else str(parts[-1].data["anchor"])
            topic = reply.topic or str(target.data["topic"])
            hash_ = prompt("evolve").hash
            return evolved(
                parts, topic, anchor, reply.state, model=self.chat.name, prompt_hash=hash_, beside=[target, *others]
            )
        reason = "the latest state stands for the model's, which was empty, old or of other events"
        self.degraded.append(Degradation("evolution", reason, 1))
        latest = parts[-1]
        return evolved(
            parts,
            target.data["topic"],
            latest.data["anchor"],
            latest.data["state"],
            model=latest.model,
            prompt_hash=latest.prompt_hash,
        )

    def _commit(self, events: Sequence[Entry], target: Entry | None = None, merged: EntryDraft | None = None) -> bool:
        """Note that events stand alone, or put what an event and its target became.

        False when one of them isn't as it was read any more.
        """
        while True:
            now = _Standing.read(self.history, self.shelf)
            current = {entry.entry_id: entry for entry in now.events.current}
            if any(current.get(entry.entry_id) != entry for entry in (*events, *([target] if target else []))):
                reason = "events changed while they were consolidated; the next build goes on"
                self.degraded.append(Degradation("evolution", reason, 1))
                return False
            alone = dict(now.alone)
            if merged is None:
                alone |= {entry.entry_id: now.events.digests[entry.entry_id] for entry in events}
            else:
                alone = {entry_id: mark for entry_id, mark in alone.items() if entry_id not in merged.data["parts"]}
            drop = [target.entry_id] if target is not None and "parts" in target.data else []
            put = [merged] if merged is not None else []
            try:
                self.history.commit(self.shelf.strategy, now.version, put, drop, now.written(alone))
            except (StaleVersionError, NotFoundError):  # a build or a delete came between: look again
                continue
            self.put += len(put)
            self.dropped += len(drop)
            return True

    def _stopped(self) -> bool:
        work = self.work
        late = work.deadline is not None and time.monotonic() >= work.deadline
        return late or (work.cancel is not None and work.cancel.is_set())


def _text(entry: Entry) -> str:
    return event_text(str(entry.data["topic"]), str(entry.data["state"]))


def _words(entries: Sequence[Entry]) -> set[str]:
    """Content words of events with their timelines and dates."""
    texts = [text for entry in entries for text in (_text(entry), entry.index_text, str(entry.data["anchor"]))]
    return set[str]().union(*map(content, texts))


def _line(label: str, entry: Entry) -> str:
    """An event as the model sees it: when, what about, how things stand, and what was before."""
    when = entry.data["anchor"] or day_of(entry.said_at) or "date unknown"
    before = [f"{item['t'] or 'date unknown'}: {item['state']}" for item in entry.data.get("timeline", ())]
    earlier = f" (so far: {'; '.join(before)})" if before else ""
    return quote(f"[{label}] {when} | {entry.data['topic']} | {entry.data['state']}{earlier}")
