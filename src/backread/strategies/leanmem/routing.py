"""The write scheduler: whether a segment is kept, and as what. LeanMem, section 3.2, equations 3 and 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from backread.construction.segmentation import Segment
from backread.construction.transcript import transcript
from backread.errors import ModelOutputError
from backread.models.base import ChatModel
from backread.store.indexing import passage_text
from backread.strategies.leanmem.asking import ask
from backread.text.support import content
from backread.types import Turn

if TYPE_CHECKING:
    from backread.strategies.leanmem.replies import RoutingReply

__all__ = ["Attribute", "Routing", "route", "source_turns"]

_MAX_TOKENS = 400


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute with its value: (a, v) of equation 4."""

    attribute: str
    value: str


@dataclass(frozen=True, slots=True)
class Routing:
    """r = <y, I, xi> of equation 4.

    Attributes:
        action: y.
        utterances: I, as the utterances themselves, in order; at least one unless the segment is ignored.
        attributes: xi, of a profile at least one, else none.
        fault: why the scheduler's own decision was not taken; None when it was.
        cut: the end of the segment was not read.
    """

    action: Literal["ignore", "profile", "event", "record"]
    utterances: tuple[Turn, ...]
    attributes: tuple[Attribute, ...] = ()
    fault: str | None = None
    cut: bool = False


def route(chat: ChatModel, segment: Segment) -> Routing:
    """What a model decides about a segment, from its utterances alone.

    Whatever can't be used of a reply loses nothing: a reply that is invalid twice makes a record of the whole segment,
    numbers of lines that aren't there are left out, none left means all, and a profile without an attribute that shares
    a word with the segment becomes a record.

    Raises:
        ModelError: the model can't be asked.
    """
    from backread.strategies.leanmem.replies import RoutingReply

    lines = transcript(segment.utterances, str)
    try:
        reply, cut = ask(chat, "schedule", "segment", lines, RoutingReply, max_tokens=_MAX_TOKENS)
    except ModelOutputError:
        return Routing("record", segment.utterances, fault="the scheduler gave no valid reply")
    return _checked(reply, segment, cut)


def source_turns(segment: Segment, routing: Routing) -> tuple[Turn, ...]:
    """X = H[I] of equation 5: the utterances a decision rests on, each with the turns up to the next utterance."""
    named = {turn.turn_id for turn in routing.utterances}
    heard = {turn.turn_id for turn in segment.utterances}
    inside = False
    found: list[Turn] = []
    for turn in segment.turns:
        if turn.turn_id in heard:
            inside = turn.turn_id in named
        if inside:
            found.append(turn)
    return tuple(found)


def _checked(reply: RoutingReply, segment: Segment, cut: bool) -> Routing:
    if reply.action == "ignore":
        return Routing("ignore", (), cut=cut)
    places = sorted({number - 1 for number in reply.source_indices if 1 <= number <= len(segment.utterances)})
    utterances = tuple(segment.utterances[place] for place in places) or segment.utterances
    if reply.action != "profile":
        return Routing(reply.action, utterances, cut=cut)
    words = set[str]().union(*(content(passage_text(turn.text, turn.caption)) for turn in segment.utterances))
    pairs = (Attribute(item.attribute, item.value) for item in reply.attributes if item.attribute and item.value)
    attributes = tuple(dict.fromkeys(pair for pair in pairs if content(pair.value) & words))
    if not attributes:
        return Routing("record", utterances, fault="a profile came without an attribute", cut=cut)
    return Routing("profile", utterances, attributes, cut=cut)
