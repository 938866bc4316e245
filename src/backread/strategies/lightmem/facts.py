"""Facts that a model writes of a batch of turns, each tied to the turns that say it: one call a batch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from backread.construction.prompt_files import Prompt, read_prompt
from backread.construction.sessions import Made
from backread.construction.transcript import beginning, transcript
from backread.construction.tying import tie
from backread.errors import ContextWindowError, ModelOutputError
from backread.models.base import ChatMessage, ChatModel
from backread.models.context_window import with_smaller_prompts
from backread.models.structured import Structured, complete_as, known_ids
from backread.store.indexing import indexed_text, passage_text
from backread.text.fencing import fence
from backread.text.support import content
from backread.text.tokens import EstimateCounter
from backread.types import Degradation, EntryDraft, Turn, Usage

if TYPE_CHECKING:
    from backread.strategies.lightmem.replies import FactsReply

__all__ = ["FACT", "Line", "Make", "Topic", "extract_prompt", "fact_text", "facts_maker", "names_speaker"]

FACT = "fact"
"""The kind of entries that a model writes."""

REPLY_TOKENS = 256  # of a reply, besides three times those of what is read; twice as many before it is given up
MESSAGE_TOKENS = 24  # of a reply, for a message without a fact
FACT_TOKENS = 24  # of a message, for each fact that there is room for
FEWEST_FACTS = 3  # that there is room for in any message
MOST_REPLY_TOKENS = 8000  # the released code allows 16,000
SMALLER_PROMPTS = 5
_tokens = EstimateCounter().count
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


class Line(NamedTuple):
    """A turn, and what is read of it."""

    turn: Turn
    text: str


@dataclass(frozen=True, slots=True)
class Topic:
    """The lines of one topic of a batch, with the number it has in the history."""

    number: int
    lines: tuple[Line, ...]


Make = Callable[[str, Sequence[Topic]], Made]
"""Makes the entries of topics with at least one line; ids of entries begin with the text. Called from threads."""


def extract_prompt() -> Prompt:
    """The prompt for facts."""
    return read_prompt("backread.strategies.lightmem", "extract")


def names_speaker(fact: str, speaker: str) -> bool:
    """Whether a fact says whom it is about, as far as that is who said it."""
    named = content(speaker)
    return bool(named) and named <= content(fact)


def fact_text(fact: str, speaker: str) -> str:
    """A fact as it is searched: with who said it in front where it names nobody of that name."""
    return fact if names_speaker(fact, speaker) else indexed_text(speaker, fact, None)


def facts_maker(chat: ChatModel, *, strategy: str) -> Make:
    """Makes the entries of a batch with one call, asked again once when the reply can't be used.

    A batch that doesn't fit the model's window is read in halves, and so is one whose reply doesn't end, as that of a
    small model that repeats itself; later batches of as many messages are then halved at once. Of a single message that
    doesn't fit, the end is left out, which `degraded` says. Where a reply ends before the last message, the messages
    behind its end are read again, without the others. Facts that name no message of the batch, or that nothing in
    it supports, are dropped and counted.
    """
    room = _Room()

    def make(prefix: str, topics: Sequence[Topic]) -> Made:
        found = _Found()
        _read(chat, list(topics), found, room)
        return Made(tuple(_drafts(strategy, prefix, topics, found, chat.name)), tuple(found.usage), found.notes())

    return make


@dataclass
class _Room:
    """Messages that were too many for one call so far; a lost update costs a call."""

    too_many: float = math.inf


@dataclass
class _Found:
    """What the calls for one batch gave."""

    facts: list[tuple[Line, str]] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    unknown: int = 0
    unsupported: int = 0
    cut: int = 0

    def notes(self) -> tuple[Degradation, ...]:
        counted = (
            ("facts named no message that was shown; they were dropped", self.unknown),
            ("facts that no message supports were dropped", self.unsupported),
            ("messages are longer than the model's window: their end was not read", self.cut),
        )
        return tuple(Degradation("build", reason, count) for reason, count in counted if count)


def _read(chat: ChatModel, topics: list[Topic], found: _Found, room: _Room) -> None:
    lines = [line for topic in topics for line in topic.lines]
    if 1 < len(lines) >= room.too_many:
        _read_halves(chat, topics, found, room)
        return
    try:
        reply = _ask(chat, topics, found) if len(lines) > 1 else _ask_short(chat, topics, found)
    except (ContextWindowError, ModelOutputError) as error:
        endless = isinstance(error, ModelOutputError) and error.cut
        if len(lines) < 2 or not (endless or isinstance(error, ContextWindowError)):
            raise
        found.usage += [error.usage] if isinstance(error.usage, Usage) else []
        room.too_many = min(room.too_many, len(lines))
        _read_halves(chat, topics, found, room)
        return
    offered = {str(number): line for number, line in enumerate(lines, 1)}
    texts = [line.text for line in lines]
    known = known_ids(reply.told(texts), offered, lambda item: str(item.source))
    found.unknown += len(known.unknown)
    found.facts += [(offered[str(item.source)], item.fact) for item in known.items]
    if 0 < (end := reply.reached(texts)) < len(lines):
        _read(chat, _parted(topics, end)[1], found, room)


def _read_halves(chat: ChatModel, topics: list[Topic], found: _Found, room: _Room) -> None:
    for half in _parted(topics, sum(len(topic.lines) for topic in topics) // 2):
        _read(chat, half, found, room)


def _ask(chat: ChatModel, topics: Sequence[Topic], found: _Found, share: float = 1.0) -> FactsReply:
    from backread.strategies.lightmem.replies import reply_type

    prompt = extract_prompt()
    sizes = [_tokens(line.text) for topic in topics for line in topic.lines]
    room = min(MOST_REPLY_TOKENS, REPLY_TOKENS + MESSAGE_TOKENS * len(sizes) + 3 * sum(sizes))
    asked = fence(beginning(_lines(topics), share), label="messages")
    messages = [
        ChatMessage("system", prompt.rules),
        ChatMessage("user", f"{prompt.example}\n\n{prompt.form}"),
        ChatMessage("assistant", prompt.reply),
        ChatMessage("user", f"{asked}\n\n{prompt.form}"),
    ]
    made: Structured[FactsReply] = complete_as(
        chat,
        messages,
        reply_type(len(sizes), max(FEWEST_FACTS, max(sizes) // FACT_TOKENS)),
        purpose="build",
        max_tokens=room,
        most_tokens=2 * room,
        instruct=False,
    )
    found.usage += made.usage
    return made.value


def _ask_short(chat: ChatModel, topics: Sequence[Topic], found: _Found) -> FactsReply:
    def send(share: float) -> tuple[FactsReply, float]:
        return _ask(chat, topics, found, share), share

    reply, share = with_smaller_prompts(send, tries=SMALLER_PROMPTS)
    found.cut += share < 1
    return reply


def _lines(topics: Sequence[Topic]) -> list[str]:
    """What the model reads: numbers of topics and messages begin at 1, whatever they are in the history."""
    shown: list[str] = []
    number = 0
    for place, topic in enumerate(topics, 1):
        turns = [replace(line.turn, text=line.text, caption=None) for line in topic.lines]
        numbers = [str(number + at) for at in range(len(turns) + 1)]
        shown += [f"## Topic {place}", *transcript(turns, numbers.__getitem__)]
        number += len(turns)
    return shown


def _parted(topics: Sequence[Topic], place: int) -> tuple[list[Topic], list[Topic]]:
    """The lines before a place and those from there on, each in its topics."""
    first: list[Topic] = []
    second: list[Topic] = []
    for topic in topics:
        cut = max(0, min(len(topic.lines), place - sum(len(part.lines) for part in first)))
        first += [replace(topic, lines=topic.lines[:cut])] if cut else []
        second += [replace(topic, lines=topic.lines[cut:])] if cut < len(topic.lines) else []
    return first, second


def _drafts(strategy: str, prefix: str, topics: Sequence[Topic], found: _Found, model: str) -> list[EntryDraft]:
    lines = [line for topic in topics for line in topic.lines]
    turns = [line.turn for line in lines]
    number = {line.turn.turn_id: topic.number for topic in topics for line in topic.lines}
    by_id = {turn.turn_id: turn for turn in turns}
    said_in = {turn.turn_id: content(passage_text(turn.text, turn.caption)) for turn in turns}
    drafts: list[EntryDraft] = []
    for line, fact in found.facts:
        sources = tie(fact, [by_id[_meant(fact, line.turn, said_in)]], turns)
        if not sources or not _dated(fact, by_id[sources[0].turn_id], lines):
            found.unsupported += 1
            continue
        turn = by_id[sources[0].turn_id]
        drafts.append(
            EntryDraft(
                entry_id=f"{prefix}:{len(drafts)}",
                strategy=strategy,
                kind=FACT,
                data={"form": FACT, "fact": fact, "speaker": turn.name, "topic": number[turn.turn_id]},
                index_text=fact_text(fact, turn.name),
                sources=sources,
                said_at=turn.time,
                model=model,
                prompt_hash=extract_prompt().hash,
                shown=tuple(by_id),
            )
        )
    return drafts


def _meant(fact: str, named: Turn, said_in: Mapping[str, set[str]]) -> str:
    """The id of the turn that a fact is of: the one that is named, unless another says clearly more of it.

    Small models lose count. Another turn must have at least two content words of the fact and half of them all, and
    twice as many as the one that is named.
    """
    words = content(fact)
    shared = {turn_id: len(words & said) for turn_id, said in said_in.items()}
    best = max(shared, key=lambda turn_id: shared[turn_id])
    if shared[best] >= max(2, len(words) / 2, 2 * shared[named.turn_id]):
        return best
    return named.turn_id


def _dated(fact: str, turn: Turn, lines: Sequence[Line]) -> bool:
    """False for a fact with a year that no line has, from a turn of unknown time: there is no day to count from."""
    if turn.time is not None:
        return True
    return set(_YEAR.findall(fact)) <= set(_YEAR.findall(" ".join(line.text for line in lines)))
