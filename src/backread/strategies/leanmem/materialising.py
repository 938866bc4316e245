"""From a routing decision to entries: LeanMem, section 3.2, "Memory Materialization", equations 5 and 6.

A profile is stored as the scheduler gave it, without a further call, an entry for each attribute. An event and a gist
take one call each. Whatever a model can't be used for becomes a record with a gist by rule, so that nothing is lost.

An entry rests on all turns that its words may come from: those that were shown to the model that wrote it. The turns it
points to, I of the paper, are in its data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from backread.construction.segmentation import Segment
from backread.construction.transcript import transcript
from backread.construction.tying import tie
from backread.errors import ModelOutputError
from backread.models.base import ChatModel, Tagger
from backread.store.indexing import passage_text
from backread.strategies.leanmem import rules
from backread.strategies.leanmem.asking import ask, prompt
from backread.strategies.leanmem.dating import supported_date
from backread.strategies.leanmem.design import SUMMARY, Shelf
from backread.strategies.leanmem.events import event_text
from backread.strategies.leanmem.routing import Attribute, Routing, source_turns
from backread.text.support import content
from backread.types import Degradation, EntryDraft, Source, Turn

if TYPE_CHECKING:
    import pydantic

__all__ = ["Materials", "Place"]

_ModelT = TypeVar("_ModelT", bound="pydantic.BaseModel")

_EVENT_TOKENS = 300
_GIST_TOKENS = 200
_SUMMARY_TOKENS = 400

CUT = "segments are longer than the model's window: their end was not read"


@dataclass(frozen=True, slots=True)
class Place:
    """Where entries come from: the session, a key that stands for the segment's turns, and what was said around it."""

    session_id: str
    key: str
    segment: Segment
    around: tuple[str, ...] = ()


@dataclass
class Materials:
    """Makes entries of segments.

    Attributes:
        shelf: where they will stand.
        chat: writes events, gists and summaries; None writes them by rule.
        tagger: finds keywords.
        notes: what fell short, once for each time.
    """

    shelf: Shelf
    chat: ChatModel | None
    tagger: Tagger
    notes: list[Degradation] = field(default_factory=list)

    def entries(self, place: Place, routing: Routing) -> list[EntryDraft]:
        """The entries of a segment as it was routed: m of equation 5.

        Raises:
            ModelError: the model can't be asked.
        """
        if routing.fault is not None:
            self._note("schedule", f"segments were kept as records: {routing.fault}")
        if routing.cut:
            self._note("window", CUT)
        if routing.action == "ignore":
            return []
        if routing.action == "profile":
            return self._profile(place, routing)
        turns = source_turns(place.segment, routing)
        if routing.action == "event":
            event = self._event(place, routing, turns)
            if event is not None:
                return [event]
            self._note("event", "events were kept as records: the model gave none that can be used")
        return [self._record(place, turns)]

    def summary(self, place: Place) -> list[EntryDraft]:
        """The summary of a segment, where nothing is scheduled.

        Raises:
            ModelError: the model can't be asked.
        """
        from backread.strategies.leanmem.replies import SummaryReply

        turns = place.segment.turns
        reply = self._ask("summary", turns, SummaryReply, _SUMMARY_TOKENS)
        said = reply.summary if reply is not None and _is_of(reply.summary, turns) else None
        if said is None and self.chat is not None:
            self._note("summary", "segments were summarised by rule: the model gave nothing that can be used")
        text = said or rules.gist_by_rule(turns)
        data = {"summary": text}
        return [self._draft(place, SUMMARY, data, text, turns, turns, "summary" if said else None)]

    def _profile(self, place: Place, routing: Routing) -> list[EntryDraft]:
        shown = place.segment.utterances
        made = []
        for number, item in enumerate(routing.attributes, 1):
            turns = _told_by(item, routing.utterances, shown)
            who = turns[0].name
            data = {"who": who, "attribute": item.attribute, "value": item.value}
            text = f"{who}: {item.attribute}: {item.value}"
            name = "schedule" if self.chat is not None else None
            made.append(self._draft(place, "profile", data, text, turns, shown, name, f":{number}"))
        return made

    def _event(self, place: Place, routing: Routing, turns: Sequence[Turn]) -> EntryDraft | None:
        """An event; None when the model gave none that can be used."""
        from backread.strategies.leanmem.replies import EventReply

        if self.chat is None:
            topic, anchor = "", rules.anchor_by_rule(routing.utterances)
            state = rules.state_by_rule(routing.utterances)
        else:
            reply = self._ask("event", turns, EventReply, _EVENT_TOKENS)
            if reply is None or not _is_of(reply.state, turns):
                return None
            topic, state, anchor = reply.topic, reply.state, supported_date(reply.temporal_anchor, turns)
        data = {"topic": topic, "anchor": anchor, "state": state}
        return self._draft(place, "event", data, event_text(topic, state), turns, turns, "event")

    def _record(self, place: Place, turns: Sequence[Turn]) -> EntryDraft:
        from backread.strategies.leanmem.replies import GistReply

        reply = self._ask("gist", turns, GistReply, _GIST_TOKENS)
        said = reply.gist if reply is not None and _is_of(reply.gist, turns) else None
        if said is None and self.chat is not None:
            self._note("gist", "gists were made by rule: the model gave none that can be used")
        keywords = list(self.tagger.tag([_text(turn) for turn in turns], place.around))
        gist = said or rules.gist_by_rule(turns)
        # A gist by rule is a part of what was said: its keywords are needed to find the rest.
        text = gist if said else "\n".join([gist, ", ".join(keywords)])
        data = {"gist": gist, "keywords": keywords}
        return self._draft(place, "record", data, text, turns, turns, "gist" if said else None)

    def _ask(self, name: str, turns: Sequence[Turn], reply: type[_ModelT], max_tokens: int) -> _ModelT | None:
        """A reply about some turns; None without a model, and when no reply can be used."""
        if self.chat is None:
            return None
        lines = transcript(turns, str)
        try:
            found, cut = ask(self.chat, name, "segment", lines, reply, max_tokens=max_tokens)
        except ModelOutputError:
            return None
        if cut:
            self._note("window", CUT)
        return found

    def _draft(
        self,
        place: Place,
        name: str,
        data: Mapping[str, Any],
        index_text: str,
        pointed: Sequence[Turn],
        shown: Sequence[Turn],
        asked: str | None,
        number: str = "",
    ) -> EntryDraft:
        """An entry: `pointed` are the turns it points to, `shown` those its words may come from."""
        by_model = asked is not None and self.chat is not None
        rests = {turn.turn_id: turn for turn in (*pointed, *shown)}
        return EntryDraft(
            entry_id=f"{self.shelf.kind(name)}:{place.session_id}:{place.key}{number}",
            strategy=self.shelf.strategy,
            kind=self.shelf.kind(name),
            data={
                **data,
                "segment": place.key,
                "sessions": [place.session_id],
                "turns": [turn.turn_id for turn in pointed],
            },
            index_text=index_text,
            sources=tuple(Source(turn.turn_id, 0, len(turn.text)) for turn in rests.values()),
            said_at=pointed[0].time,
            model=self.chat.name if by_model and self.chat is not None else None,
            prompt_hash=prompt(asked).hash if by_model and asked is not None else None,
        )

    def _note(self, part: str, reason: str) -> None:
        self.notes.append(Degradation(part, reason, 1))


def _text(turn: Turn) -> str:
    return passage_text(turn.text, turn.caption)


def _told_by(item: Attribute, named: Sequence[Turn], shown: Sequence[Turn]) -> list[Turn]:
    """The utterances that say an attribute, in order: those the scheduler named, as far as they share its words."""
    tied = {source.turn_id for source in tie(f"{item.attribute} {item.value}", named, shown)}
    return [turn for turn in shown if turn.turn_id in tied] or list(named)


def _is_of(line: str, turns: Sequence[Turn]) -> bool:
    """Whether a line shares a content word with the turns it is meant to be about, or has none."""
    words = content(line)
    return not words or any(words & content(_text(turn)) for turn in turns)
