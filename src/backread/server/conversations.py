"""What a chat client sends again and again, kept once: each turn of a conversation is known by all that led to it.

Clients of a chat API send the whole conversation with every request. A message's id is the hash of the message and of
the id before it, so the same message after the same words is the same turn: only what is new is stored, a request that
is sent again stores nothing, and an earlier message that was edited begins a branch with ids of its own.

What was left is superseded: a reply that was asked for again by the new one, and the turns of a branch that an edit
left by those that stand in their place, as long as nobody but the same client can have gone that way.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

from backread.errors import InvalidInputError
from backread.finding import turns_still_there
from backread.memory import Memory
from backread.messages import export_message
from backread.server.aligning import aligned
from backread.server.chat_messages import (
    UNSPOKEN,
    Message,
    again,
    chain,
    draft,
    in_order_of_calls,
    is_ours,
    last_user_place,
    message_of,
    role_of,
    says_something,
    start_of,
    text_of,
    wrapped,
)
from backread.store.history import HUMAN_ROLES, History, Scope
from backread.types import AddReceipt, Degradation, Turn

__all__ = ["Conversations", "Taken", "chain", "last_user_place", "text_of"]

_SESSION_LENGTH: Final = len("chat-") + 16
_STEPS: Final = 20_000
"""Messages that a process remembers the way on from."""

_BRANCHES: Final = 8
"""Ways on from one message that a process remembers."""

_WRITTEN_AGAIN: Final = ("role", "name", "content", "caption", "attachments", "timestamp", "said_text")


@dataclass(frozen=True, slots=True)
class Taken:
    """A request's conversation as it is kept.

    Attributes:
        user_id: whose history.
        session_id: the session its new turns belong to; None when nothing was said.
        named: True when the client named the session.
        turn_ids: all turns of it that are in the record, in order.
        stored: those that are new.
        later: turns that followed when the same request came before: replies to it, and what came of them.
        head: id of its last message, which that of a reply follows.
        last: the turn of its last message; None when that is not in the record.
        degraded: what could not be kept.
    """

    user_id: str
    session_id: str | None
    named: bool
    turn_ids: tuple[str, ...]
    stored: tuple[str, ...]
    later: tuple[str, ...]
    head: str
    last: str | None
    degraded: tuple[Degradation, ...] = ()


@dataclass(slots=True)
class _Step:
    """What this process knows of a message.

    Attributes:
        handed: how often it was given out as a reply.
        following: ids of the messages that came after it, the last one last.
        before: id of the message that it came after.
        left: id of the message in whose place it came.
    """

    handed: int = 0
    following: list[str] = field(default_factory=list)
    before: str | None = None
    left: str | None = None


@dataclass(frozen=True, slots=True)
class _Path:
    """A request's messages as the record knows them: their ids, and turns by id.

    Attributes:
        messages: those that are spoken.
        ids: of each.
        turns: those that are in the record, as they are current.
        left: what took the place of those that are superseded.
        new: place of the first message after the last one that is known.
    """

    messages: Sequence[Message]
    ids: Sequence[str]
    turns: Mapping[str, Turn]
    left: Mapping[str, Turn]
    new: int


class Conversations:
    """Keeps the conversations of requests. Thread-safe; several processes may share a store.

    Args:
        memory: where they are kept.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = threading.Lock()  # a request that is sent twice at once is found by its second self
        self._steps: OrderedDict[tuple[str, str], _Step] = OrderedDict()

    def take(self, user_id: str, session_id: str | None, messages: Sequence[Message], at: datetime) -> Taken:
        """Keep what is new in a conversation, and say where it belongs.

        What the user, or a tool, said after the last reply was said now; the time of what came before and was not
        seen then is unknown.

        Args:
            user_id: whose history.
            session_id: the session as the client names it; None finds it by the messages.
            messages: all of them, in the format of OpenAI's chat API.
            at: when the request came.

        Raises:
            InvalidInputError: they are no messages, or an id is blank.
            StoreError: the record could not be read or written.
        """
        spoken = in_order_of_calls([message for message in messages if role_of(message) not in UNSPOKEN])
        start = start_of(session_id)
        named = session_id is not None
        if not spoken:
            return Taken(user_id, session_id, named, (), (), (), start, None)
        with self._lock:
            history = self._memory.history(user_id)
            path = self._path(history, session_id, spoken, start)
            drafts = {**self._gone_on_from(history, path), **self._new(history, path, start, at)}
            session = session_id or self._session(history, path, drafts)
            added, degraded = self._add(list(drafts.values()), user_id, session)
        there = {name: turn.turn_id for name, turn in path.turns.items()}
        there |= {name: added[written["id"]] for name, written in drafts.items() if written["id"] in added}
        later = _after(history, path.turns[path.ids[-1]]) if path.new == len(path.ids) and not drafts else []
        return Taken(
            user_id,
            session,
            named,
            tuple(there[name] for name in path.ids if name in there),
            tuple(added.values()),
            tuple(turn.turn_id for turn in later),
            path.ids[-1],
            there.get(path.ids[-1]),
            degraded,
        )

    def reply(self, taken: Taken, message: Message, at: datetime) -> str | None:
        """Keep the reply to a conversation; its turn id, None when it is there already, or there is nothing to keep.

        It supersedes the reply that was given to the same words before, unless the user went on from that one; then
        it begins a branch.

        Raises:
            BackreadError: it could not be kept.
        """
        if taken.session_id is None or not taken.turn_ids or not says_something(message):
            return None
        name = chain([message], taken.head)[0]
        with self._lock:
            history = self._memory.history(taken.user_id)
            turns, left = _current(history, _known(history, [name]))
            self._step(taken.user_id, name).handed += 1
            replaced = self._replaced(history, self._comes(taken.user_id, taken.head, name), "assistant")
            if name in turns and name not in left:
                return None
            head = _known(history, [taken.last] if taken.last else []).get(taken.last or "")
            written, session = draft(message, name, at), taken.session_id
            if name in left:
                written["id"] = _free_id(history, name)
                replaced = left[name] if _may_be_left(history, left[name]) else None
            elif head is not None:
                later = _after(history, head)
                replaced = _draft_of(history, later) or replaced
                if _gone_on(later) and not taken.named:
                    session = name[:_SESSION_LENGTH]
            if replaced is not None:
                written["supersedes"] = replaced.turn_id
            receipt = self._memory.add(written, user_id=taken.user_id, session_id=session)
        return receipt.turn_ids[0] if receipt.stored else None

    # --- where a request stands

    def _path(self, history: History, session_id: str | None, spoken: Sequence[Message], start: str) -> _Path:
        user_id, ids = history.user_id, chain(spoken, start)
        known = _known(history, ids)
        new = _first_new(ids, known)
        if (
            any(role_of(message) == "assistant" for message in spoken[new:])
            and (found := aligned(self._memory, history, session_id, spoken, ids, partial(self._before, user_id)))
            is not None
        ):
            ids, pairs = found
            known = {**_known(history, ids), **pairs}
            new = _first_new(ids, known)
        if new < len(ids) and (other := self._dressed(history, spoken[new], ids[new - 1] if new else start)):
            ids = [*ids[:new], other, *chain(spoken[new + 1 :], other)]
            known |= _known(history, ids[new:])
        turns, left = _current(history, known)
        return _Path(spoken, ids, turns, left, _first_new(ids, turns))

    def _dressed(self, history: History, message: Message, before: str) -> str | None:
        """The id of a message that came in this place, when this one is the same but for what is around it."""
        step = self._steps.get((history.user_id, before))
        known = _known(history, [] if step is None else step.following)
        return next((name for name in reversed(known) if wrapped(message_of(known[name]), message)), None)

    def _session(self, history: History, path: _Path, drafts: Mapping[str, Message]) -> str:
        """Where what is written goes: on with the turn before it, or into a branch of its own."""
        first = next((place for place, name in enumerate(path.ids) if name in drafts), len(path.ids))
        before = next((turn for name in reversed(path.ids[:first]) if (turn := path.turns.get(name))), None)
        if before is not None and (not drafts or not _after(history, before)):
            return before.session_id
        begins: str = next(iter(drafts.values()))["id"] if drafts else path.ids[0]
        return begins[:_SESSION_LENGTH]

    # --- what is written, by the id of its message

    def _gone_on_from(self, history: History, path: _Path) -> dict[str, dict[str, Any]]:
        """Turns that were left for others, and that the client goes on from all the same: they are current again."""
        written: dict[str, dict[str, Any]] = {}
        for place, name in enumerate(path.ids):
            other = path.left.get(name)
            if other is None or not is_ours(other):  # what was corrected by other means stays corrected
                continue
            message = export_message(path.turns[name], user_id=history.user_id)
            written[name] = {key: message[key] for key in _WRITTEN_AGAIN if key in message}
            written[name]["id"] = _free_id(history, name)
            if _may_be_left(history, other):
                written[name]["supersedes"] = other.turn_id
            if place:
                self._comes(history.user_id, path.ids[place - 1], name)
        return written

    def _new(self, history: History, path: _Path, start: str, at: datetime) -> dict[str, dict[str, Any]]:
        """What was not there; what came after the last reply was said at `at`."""
        written: dict[str, dict[str, Any]] = {}
        now = 1 + max((n for n, message in enumerate(path.messages) if role_of(message) == "assistant"), default=-1)
        steps = (self._steps.get((history.user_id, name)) for name in path.ids[: path.new])
        alone = any(step is not None and step.handed == 1 for step in steps)
        for place in range(path.new, len(path.ids)):
            name, message = path.ids[place], path.messages[place]
            before = path.ids[place - 1] if place else start
            role = role_of(message)
            replaced = self._replaced(
                history, self._comes(history.user_id, before, name, edits=alone and role == "user"), role
            )
            if role == "assistant" and before in path.turns:
                replaced = _draft_of(history, _after(history, path.turns[before])) or replaced
            if says_something(message):
                written[name] = draft(message, name, at if place >= now else None)
                if replaced is not None:
                    written[name]["supersedes"] = replaced.turn_id
        return written

    def _comes(self, user_id: str, before: str, name: str, *, edits: bool = False) -> str | None:
        """Notes that a message comes after another; the id of the one whose place it takes.

        Where it edits, that is the one that followed there, and for all that come after it, one by one, what came
        after that one.
        """
        step, own = self._step(user_id, before), self._step(user_id, name)
        others = [each for each in step.following if each != name]
        step.following, own.before = [*others, name][-_BRANCHES:], before
        if edits and others:
            own.left = others[-1]
        elif own.left is None and step.left is not None:
            own.left = next(reversed(self._step(user_id, step.left).following), None)
        return own.left

    def _replaced(self, history: History, name: str | None, role: str) -> Turn | None:
        """The turn of a message, when it is current and of this role."""
        turns, left = _current(history, _known(history, [] if name is None else [name]))
        return next((turn for each, turn in turns.items() if each not in left and turn.role == role), None)

    def _before(self, user_id: str, name: str) -> str | None:
        step = self._steps.get((user_id, name))
        return None if step is None else step.before

    def _step(self, user_id: str, name: str) -> _Step:
        key = (user_id, name)
        step = self._steps.setdefault(key, _Step())
        self._steps.move_to_end(key)
        if len(self._steps) > _STEPS:
            self._steps.popitem(last=False)
        return step

    def _add(
        self, drafts: Sequence[Message], user_id: str, session_id: str
    ) -> tuple[dict[str, str], tuple[Degradation, ...]]:
        """(turn ids of what was kept by the ids of its messages, what was not kept)."""
        if not drafts:
            return {}, ()
        names = [written["id"] for written in drafts]
        try:
            receipt: AddReceipt = self._memory.add(drafts, user_id=user_id, session_id=session_id)
        except InvalidInputError as error:
            reasons, kept = dict.fromkeys(names, str(error)), {}
        else:
            reasons = {names[item.position]: item.reason for item in receipt.rejected}
            kept = dict(zip((name for name in names if name not in reasons), receipt.turn_ids, strict=True))
        if reasons:  # another process may have been faster with the same request
            kept |= {name: turn.turn_id for name, turn in _known(self._memory.history(user_id), list(reasons)).items()}
        lost = [reason for name, reason in reasons.items() if name not in kept]
        return kept, (Degradation("store", f"a message was not kept: {lost[0]}", len(lost)),) if lost else ()


def _known(history: History, ids: Sequence[str]) -> dict[str, Turn]:
    """Turns of the record by these ids. All but the last are there most of the time."""
    return {**turns_still_there(history, ids[:-1]), **turns_still_there(history, ids[-1:])}


def _first_new(ids: Sequence[str], known: Mapping[str, Turn]) -> int:
    """The place after the last message that is known; what is not known before it was deleted, or not kept."""
    return 1 + max((place for place, name in enumerate(ids) if name in known), default=-1)


def _current(history: History, known: Mapping[str, Turn]) -> tuple[dict[str, Turn], dict[str, Turn]]:
    """(turns by id, what those of them that are superseded were left for) with the latest copy of each turn."""
    turns, left = dict(known), dict[str, Turn]()
    newer = history.successors([turn.turn_id for turn in known.values()])
    for name, turn in known.items():
        copy: Turn | None = turn
        number = 0
        other = newer.get(turn.turn_id)
        while other is not None and copy is not None:
            number += 1
            copy = _known(history, [again(name, number)]).get(again(name, number))
            if copy is not None:
                turns[name] = copy
                other = history.successors([copy.turn_id]).get(copy.turn_id)
        while other is not None:
            left[name] = other
            other = history.successors([other.turn_id]).get(other.turn_id)
    return turns, left


def _free_id(history: History, name: str) -> str:
    """The id of the next copy of a turn that was left."""
    number = 1
    while _known(history, [again(name, number)]):
        number += 1
    return again(name, number)


def _after(history: History, turn: Turn) -> list[Turn]:
    """The turns of its session after this one, superseded ones included."""
    scope = Scope(session_ids=[turn.session_id], superseded=True)
    return list(history.turns(scope, start=turn.position + 1))


def _gone_on(later: Sequence[Turn]) -> bool:
    """True when the user said something more."""
    return any(turn.role in HUMAN_ROLES for turn in later)


def _may_be_left(history: History, turn: Turn) -> bool:
    """True when the user didn't go on from a turn, so that another one can take its place."""
    return not _gone_on(_after(history, turn))


def _draft_of(history: History, later: Sequence[Turn]) -> Turn | None:
    """The reply among what followed a message, when the user didn't go on from it."""
    if _gone_on(later):
        return None
    newer = history.successors([turn.turn_id for turn in later])
    return next((turn for turn in reversed(later) if turn.role == "assistant" and turn.turn_id not in newer), None)
