"""What a chat client sends again and again, kept once: each turn of a conversation is known by all that led to it.

Clients of a chat API send the whole conversation with every request. A message's id is the hash of the message and of
the id before it, so the same message after the same words is the same turn: only what is new is stored, a request that
is sent again stores nothing, and an earlier message that was edited begins a branch with ids of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from backread.errors import ConflictError, InvalidInputError
from backread.finding import turns_still_there
from backread.memory import Memory
from backread.models.thinking import split_thinking
from backread.store.history import History, Scope
from backread.types import AddReceipt, Degradation, Turn

__all__ = ["Conversations", "Taken", "chain", "last_user_place", "text_of"]

Message = Mapping[str, Any]

UNSPOKEN: Final = frozenset({"system", "developer"})
"""Roles of instructions: they are the program's, often differ from request to request, and are not kept."""

_STORED_KEYS: Final = (
    *("role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "annotations", "audio"),
)
_TEXT_PARTS: Final = ("text", "input_text", "output_text")
_SEARCHED: Final = 500
"""Characters of a reply that it is looked for by."""

_SESSION_LENGTH: Final = len("chat-") + 16


@dataclass(frozen=True, slots=True)
class Taken:
    """A request's conversation as it is kept.

    Attributes:
        user_id: whose history.
        session_id: the session its new turns belong to; None when nothing was said.
        turn_ids: all turns of it that are in the record, in order.
        stored: those that are new.
        later: turns that followed when the same request came before: replies to it, and what came of them.
        head: id of its last message, which that of a reply follows.
        degraded: what could not be kept.
    """

    user_id: str
    session_id: str | None
    turn_ids: tuple[str, ...]
    stored: tuple[str, ...]
    later: tuple[str, ...]
    head: str
    degraded: tuple[Degradation, ...] = ()


class Conversations:
    """Keeps the conversations of requests. Thread-safe; several processes may share a store.

    Args:
        memory: where they are kept.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = threading.Lock()  # a request that is sent twice at once is found by its second self

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
        spoken = [message for message in messages if _role(message) not in UNSPOKEN]
        start = _start(session_id)
        ids = chain(spoken, start)
        if not ids:
            return Taken(user_id, session_id, (), (), (), start)
        with self._lock:
            known = _known(self._memory.history(user_id), ids)
            if not known and len(spoken) > 1:
                ids, known = self._after_a_cut(user_id, session_id, spoken, ids)
            new = 1 + max((place for place, name in enumerate(ids) if name in known), default=-1)
            session = session_id or self._session(user_id, ids, known, new)
            added, degraded = self._add(_drafts(spoken, ids, new, at), user_id, session)
        there = {**{name: turn.turn_id for name, turn in known.items()}, **added}
        return Taken(
            user_id,
            session,
            tuple(there[name] for name in ids if name in there),
            tuple(added.values()),
            self._later(user_id, session, known[ids[-1]]) if new == len(ids) else (),
            ids[-1],
            degraded,
        )

    def reply(self, taken: Taken, message: Message, at: datetime) -> str | None:
        """Keep the reply to a conversation; its turn id, None when it is there already, or there is nothing to keep.

        Raises:
            BackreadError: it could not be kept.
        """
        if taken.session_id is None or not taken.turn_ids or not _says_something(message):
            return None
        name = _next(taken.head, message)
        try:
            receipt = self._memory.add(_draft(message, name, at), user_id=taken.user_id, session_id=taken.session_id)
        except ConflictError:  # the same reply to the same words, at another time
            return None
        return receipt.turn_ids[0] if receipt.stored else None

    def _add(
        self, drafts: Sequence[Message], user_id: str, session_id: str
    ) -> tuple[dict[str, str], tuple[Degradation, ...]]:
        """(turn ids of what was kept by the ids of its messages, what was not kept)."""
        if not drafts:
            return {}, ()
        names = [draft["id"] for draft in drafts]
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

    def _session(self, user_id: str, ids: Sequence[str], known: Mapping[str, Turn], new: int) -> str:
        """Where the turns from place `new` on go: on with the turn before them, or into a branch of their own."""
        if new == 0:
            return ids[0][:_SESSION_LENGTH]
        before = known[ids[new - 1]]
        if new == len(ids):
            return before.session_id
        turns = next(
            (item.turns for item in self._memory.sessions(user_id=user_id) if item.session_id == before.session_id), 0
        )
        return before.session_id if before.position + 1 >= turns else ids[new][:_SESSION_LENGTH]

    def _later(self, user_id: str, session_id: str, last: Turn) -> tuple[str, ...]:
        if last.session_id != session_id:
            return ()
        scope = Scope(session_ids=[session_id], superseded=True)
        turns = self._memory.history(user_id).turns(scope)
        return tuple(turn.turn_id for turn in turns if turn.position > last.position)

    def _after_a_cut(
        self, user_id: str, session_id: str | None, spoken: Sequence[Message], ids: list[str]
    ) -> tuple[list[str], dict[str, Turn]]:
        """(ids, known turns) of a conversation whose beginning the client left out, as it does when it grows long.

        It goes on from the last reply, when that and what it replied to stand in the record one after the other.
        """
        replies = [place for place in range(1, len(spoken)) if _role(spoken[place]) == "assistant"]
        for place in reversed(replies[-2:]):
            text = text_of(spoken[place])
            if not text.strip():
                continue
            found = self._memory.search(
                text[:_SEARCHED], user_id=user_id, mode="bm25", roles=["assistant"], session_id=session_id, top_k=5
            )
            for turn in (turn for hit in found for turn in (hit.turn, *hit.also)):
                before = self._same_before(user_id, turn, spoken[: place + 1])
                if len(before) > 1:
                    names = [each.external_id or each.turn_id for each in before]
                    rest = chain(spoken[place + 1 :], names[-1])
                    ids = [*ids[: place + 1 - len(before)], *names, *rest]
                    return ids, {**dict(zip(names, before, strict=True)), **_known(self._memory.history(user_id), rest)}
        return ids, {}

    def _same_before(self, user_id: str, turn: Turn, messages: Sequence[Message]) -> list[Turn]:
        """The turns up to this one that say the same as the last of the messages, in order."""
        scope = Scope(session_ids=[turn.session_id], superseded=True)
        turns = list(self._memory.history(user_id).turns(scope))[: turn.position + 1]
        same = 0
        while same < min(len(turns), len(messages)) and _same(turns[-1 - same], messages[-1 - same]):
            same += 1
        return turns[len(turns) - same :]


def chain(messages: Sequence[Message], start: str) -> list[str]:
    """The id of each message, which stands for it and for everything before it.

    White space at the ends, reasoning that leads a reply, keys without a value and unknown keys don't count: clients
    send a reply back with or without them.
    """
    ids: list[str] = []
    for message in messages:
        ids.append(_next(ids[-1] if ids else start, message))
    return ids


def last_user_place(messages: Sequence[Message]) -> int | None:
    """The place of the last message of the user; None when there is none."""
    places = (place for place in range(len(messages) - 1, -1, -1) if _role(messages[place]) == "user")
    return next(places, None)


def text_of(message: Message) -> str:
    """The text of a message; its text parts joined by newlines."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS]
    return "\n".join(text for text in texts if isinstance(text, str))


def _drafts(spoken: Sequence[Message], ids: Sequence[str], new: int, at: datetime) -> list[dict[str, Any]]:
    """What is new and says something; what came after the last reply was said at `at`."""
    now = 1 + max((place for place, message in enumerate(spoken) if _role(message) == "assistant"), default=-1)
    return [
        _draft(spoken[place], ids[place], at if place >= now else None)
        for place in range(new, len(spoken))
        if _says_something(spoken[place])
    ]


def _same(turn: Turn, message: Message) -> bool:
    return turn.role == message.get("role") and _words(turn.role, turn.text) == _words(turn.role, text_of(message))


def _words(role: str, text: str) -> str:
    """A text as it is compared."""
    return ((split_thinking(text).answer or text) if role == "assistant" else text).strip()


def _start(session_id: str | None) -> str:
    return "" if session_id is None else _hash(["session", session_id])


def _next(before: str, message: Message) -> str:
    said = {
        "role": message.get("role"),
        "name": message.get("name") or None,
        "text": _words(str(message.get("role")), text_of(message)) or message.get("refusal") or "",
        "parts": _other_parts(message),
        "calls": [_call(call) for call in message.get("tool_calls") or ()],
        "call": _function(message.get("function_call")),
        "answers": message.get("tool_call_id") or None,
    }
    return _hash([before, said])


def _call(call: object) -> object:
    return [call.get("id"), _function(call.get("function"))] if isinstance(call, Mapping) else call


def _function(function: object) -> object:
    """A call's name and arguments, which some clients write anew."""
    if not isinstance(function, Mapping):
        return None
    arguments = function.get("arguments")
    with contextlib.suppress(ValueError, RecursionError):
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return [function.get("name"), arguments]


def _hash(value: object) -> str:
    return f"chat-{hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]}"


def _role(message: object) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(role, str):
        raise InvalidInputError("a message is an object with a role")
    return role


def _known(history: History, ids: Sequence[str]) -> dict[str, Turn]:
    """Turns of the record by these ids. All but the last are there most of the time."""
    return {**turns_still_there(history, ids[:-1]), **turns_still_there(history, ids[-1:])}


def _says_something(message: Message) -> bool:
    others = any(message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio"))
    return others or bool(text_of(message).strip()) or bool(_other_parts(message))


def _other_parts(message: Message) -> list[object]:
    """The parts of a message's content that are no text."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return [part for part in parts if not (isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS)]


def _draft(message: Message, name: str, at: datetime | None) -> dict[str, Any]:
    """A message with only what is kept of it."""
    kept = {key: message[key] for key in _STORED_KEYS if message.get(key) not in (None, "", [], {})}
    kept.setdefault("content", None)
    return {**kept, "id": name, **({} if at is None else {"timestamp": at.isoformat()})}
