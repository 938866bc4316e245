"""Where a conversation goes on whose messages came back changed: found by its last replies.

A client that leaves out the beginning, puts a summary in its place, sends plain what it sent with a time or a context
around it, or leaves out what tools gave, changes the ids of all messages behind. The words of a reply are found in the
record then, and the messages before it are compared with the turns before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from backread.finding import turns_still_there
from backread.memory import Memory
from backread.server.chat_messages import (
    Message,
    chain,
    message_of,
    name_of,
    of_tools,
    same,
    says_something,
    text_of,
    timed,
    wrapped,
)
from backread.store.history import History, Scope
from backread.types import Turn

__all__ = ["aligned"]

_REPLIES: Final = 2
"""Replies that are looked for: a client may have cut the last one short."""

_SEARCHED: Final = 500
"""Characters of a reply that it is looked for by."""

_PAGE: Final = 50


def aligned(
    memory: Memory,
    history: History,
    session_id: str | None,
    messages: Sequence[Message],
    ids: Sequence[str],
    before: Callable[[str], str | None],
) -> tuple[list[str], dict[str, Turn]] | None:
    """(the id of each message, turns by id) of a conversation that goes on from what is in the record; None if none.

    The last reply must be there, after a turn that says what the message before it says. Where that is so only with a
    context around it, the reply must stand nowhere else, or everything from the beginning must fit. A reply that a
    request begins with must be the end of the only session that has it.

    Args:
        memory: where it is looked for.
        history: of the user.
        session_id: the session that the client named.
        messages: all that are spoken.
        ids: what they are called when nothing is found.
        before: the id of the message before another one, where a branch begins; None when it is not known.
    """
    replies = [
        place
        for place, message in enumerate(messages)
        if message.get("role") == "assistant" and text_of(message).strip()
    ]
    for place in reversed(replies[-_REPLIES:]):
        text = text_of(messages[place])[:_SEARCHED]
        if not text.strip():
            continue
        found = memory.search(
            text, user_id=history.user_id, mode="bm25", roles=["assistant"], session_id=session_id, top_k=5
        )
        turns = [turn for hit in found for turn in (hit.turn, *hit.also) if same(message_of(turn), messages[place])]
        for turn in turns:
            pairs, whole = _pairs(_backwards(history, turn, before), messages[: place + 1])
            if _enough(history, pairs, messages, whole=whole, once=len(turns) == 1):
                return _named(messages, ids, pairs)
    return None


def _named(
    messages: Sequence[Message], ids: Sequence[str], pairs: Mapping[int, Turn]
) -> tuple[list[str], dict[str, Turn]]:
    """The ids of turns for the messages that are they, and for the others what follows from them."""
    first = min(pairs)
    names, turns = list(ids[:first]), dict[str, Turn]()
    for place in range(first, len(messages)):
        if (turn := pairs.get(place)) is not None:
            names.append(name_of(turn))
            turns[names[-1]] = turn
        else:
            names += chain([messages[place]], names[-1])
    return names, turns


def _enough(
    history: History, pairs: Mapping[int, Turn], messages: Sequence[Message], *, whole: bool, once: bool
) -> bool:
    last = max(pairs)
    if len(pairs) == 1:
        scope = Scope(session_ids=[pairs[last].session_id], superseded=True)
        return last == 0 and once and not list(history.turns(scope, start=pairs[last].position + 1))
    told = [(message_of(turn), messages[place]) for place, turn in pairs.items() if place != last]
    exact = any(same(one, other) or timed(one, other) for one, other in told)
    return exact or whole or once


def _pairs(turns: Iterator[tuple[Turn, bool]], messages: Sequence[Message]) -> tuple[dict[int, Turn], bool]:
    """(turns by the places of the messages that they are, whether both begin there).

    They are compared backwards, from the last ones. What tools gave, drafts that were left, and messages that say
    nothing may be on one side only.
    """
    place = len(messages) - 1
    pairs: dict[int, Turn] = {}
    for turn, is_left in turns:
        told = message_of(turn)
        while place >= 0 and not _fits(told, messages[place]) and _may_be_missing(messages[place]):
            place -= 1
        if place >= 0 and _fits(told, messages[place]):
            pairs[place] = turn
            place -= 1
        elif not is_left and not _may_be_missing(told):
            return pairs, False
    return pairs, not any(not _may_be_missing(message) for message in messages[: place + 1])


def _backwards(history: History, turn: Turn, before: Callable[[str], str | None]) -> Iterator[tuple[Turn, bool]]:
    """The turns of a conversation up to this one, the last first, and whether each is superseded."""
    begin: Turn | None = turn
    while begin is not None:
        scope = Scope(session_ids=[begin.session_id], superseded=True)
        end = begin.position + 1
        while end > 0:
            start = max(0, end - _PAGE)
            turns = list(history.turns(scope, start=start, stop=end))
            newer = history.successors([each.turn_id for each in turns])
            for each in reversed(turns):
                yield each, each.turn_id in newer
                begin = each
            end = start
        name = before(name_of(begin))
        begin = None if name is None else turns_still_there(history, [name]).get(name)


def _fits(told: Message, message: Message) -> bool:
    return same(told, message) or wrapped(told, message)


def _may_be_missing(message: Message) -> bool:
    return of_tools(message) or not says_something(message)
