"""Controlled memory writing: from the turns of a session to its entries. LeanMem, section 3.2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backread.construction.ledger import fingerprint
from backread.construction.segmentation import Segment, split
from backread.construction.sessions import Made, Make, together
from backread.construction.utterances import key_utterances
from backread.models.base import ChatModel, Embedder, Tagger
from backread.models.wrappers import MeteredChat
from backread.store.indexing import passage_text
from backread.strategies.leanmem.asking import prompt
from backread.strategies.leanmem.design import Design, Shelf
from backread.strategies.leanmem.materialising import Materials, Place
from backread.strategies.leanmem.routing import route
from backread.strategies.leanmem.rules import route_by_rule
from backread.types import Entry, EntryDraft, Session, Turn, Usage

__all__ = ["Known", "Writing", "known_entries", "window_of"]

Known = Mapping[tuple[str, str], Sequence[EntryDraft]]
"""Entries that are there already, by session and by the key of their segment."""

_HASHED = {"profile": "schedule", "event": "event", "record": "gist", "summary": "summary"}


@dataclass(frozen=True, slots=True)
class Writing:
    """How sessions are written.

    Attributes:
        design: which parts of the design are there.
        shelf: where the entries will stand.
        chat: schedules and writes; None does both by rule.
        embedder: compares utterances; None compares their words.
        tagger: finds the keywords of records.
    """

    design: Design
    shelf: Shelf
    chat: ChatModel | None
    embedder: Embedder | None
    tagger: Tagger

    def maker(self, known: Callable[[], Known]) -> Make:
        """Makes the entries of a session; see `construction.sessions`.

        Segments are written one after another, in order. One whose entries are there, from the same turns and prompts,
        is not written again: a late turn, or a delete, costs the segments it touches.

        Args:
            known: gives the entries that are there; called once for each session.
        """

        def make(session: Session, turns: Sequence[Turn]) -> Made:
            usage: list[Usage] = []
            chat = None if self.chat is None else MeteredChat(self.chat, usage)
            materials = Materials(self.shelf, chat, self.tagger)
            there = known() if chat is not None else {}
            entries: list[EntryDraft] = []
            for segment in self.segments(turns):
                key = fingerprint(segment.turns)
                inside = {turn.turn_id for turn in segment.turns}
                around = tuple(passage_text(turn.text, turn.caption) for turn in turns if turn.turn_id not in inside)
                place = Place(session.session_id, key, segment, around)
                entries += there.get((session.session_id, key)) or self._written(materials, place)
            return Made(tuple(entries), tuple(usage), together(materials.notes))

        return make

    def segments(self, turns: Sequence[Turn]) -> list[Segment]:
        """The segments of a session, in order."""
        utterances = key_utterances(turns) if self.design.filtered else list(turns)
        if not self.design.segmented:
            place = {turn.turn_id: number for number, turn in enumerate(turns)}
            return [Segment(tuple(utterances), tuple(turns[place[turn.turn_id] :])) for turn in utterances[:1]]
        w = window_of(turns) if self.shelf.window is None else self.shelf.window
        return split(turns, utterances, self.embedder, w)

    def _written(self, materials: Materials, place: Place) -> list[EntryDraft]:
        if not self.design.scheduled:
            return materials.summary(place)
        chat = materials.chat
        routing = route_by_rule(place.segment) if chat is None else route(chat, place.segment)
        return materials.entries(place, routing)


def window_of(turns: Iterable[Turn]) -> int:
    """The w of the segmentation: 2 for a conversation between people, else 1.

    The paper doesn't give it. A session with an assistant has about five user turns in LongMemEval: with w = 2 a third
    of them could not be cut at all.
    """
    return 2 if any(turn.role == "participant" for turn in turns) else 1


def known_entries(entries: Iterable[Entry], shelf: Shelf) -> Known:
    """The entries of a shelf that a model wrote with today's prompts, as they would be written again."""
    found: dict[tuple[str, str], list[EntryDraft]] = {}
    hashes = {shelf.kind(name): prompt(asked).hash for name, asked in _HASHED.items()}
    for entry in sorted(entries, key=lambda entry: entry.entry_id):
        if "segment" not in entry.data or entry.prompt_hash != hashes.get(entry.kind):
            continue
        draft = EntryDraft(
            entry.entry_id,
            entry.strategy,
            entry.kind,
            entry.data,
            entry.index_text,
            entry.sources,
            entry.said_at,
            entry.model,
            entry.prompt_hash,
            entry.shown,
        )
        found.setdefault((entry.data["sessions"][0], entry.data["segment"]), []).append(draft)
    return found
