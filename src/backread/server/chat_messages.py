"""Messages of OpenAI's chat API, as they are compared and kept: nothing here looks into the record.

Clients send a message back in other words than they got or sent it first: white space is folded, reasoning taken off,
a time put before the newest message. What doesn't count is left out of a message's id, what may not count is `wrapped`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

from backread.errors import InvalidInputError
from backread.models.thinking import split_thinking
from backread.text.fencing import fence
from backread.types import Turn

__all__ = [
    "DAY",
    "UNSPOKEN",
    "Message",
    "again",
    "chain",
    "draft",
    "in_order_of_calls",
    "is_ours",
    "last_user_place",
    "message_of",
    "name_of",
    "of_tools",
    "own_words",
    "role_of",
    "rules",
    "same",
    "says_something",
    "start_of",
    "text_of",
    "timed",
    "wrapped",
]

Message = Mapping[str, Any]

UNSPOKEN: Final = ("system", "developer")
"""Roles of instructions: they are the program's, often differ from request to request, and are not kept.

Not a set: what a client sends as a role may have no hash.
"""

DAY: Final = "\n\nToday: "
"""What stands between evidence and the day in a message that was added to."""

_STORED_KEYS: Final = (
    *("role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "annotations", "audio"),
)
_TEXT_PARTS: Final = ("text", "input_text", "output_text")
_PREFIX: Final = "chat-"
_OPENING: Final = re.compile(r'<evidence id="([0-9a-f]{6,64})">\n')
_STAMP_LENGTH: Final = 80
_WORD: Final = re.compile(r"\w+")
_TIME_WORD: Final = re.compile(
    r"\d{1,4}(?:st|nd|rd|th)?|\d{1,8}T?\d{0,6}Z?|(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*|am|pm|utc|gmt|z|ces?t|[ecmp][sd]t"
    r"|at|on|now|date|time|timestamp|current|sent|today|is|it|the",
    re.IGNORECASE,
)


def chain(messages: Sequence[Message], start: str) -> list[str]:
    """The id of each message, which stands for it and for everything before it.

    White space, a time in brackets before or after a message of the user, reasoning that leads a reply, evidence that
    we added, keys without a value and unknown keys don't count: clients send a message back with or without them.
    """
    ids: list[str] = []
    for message in messages:
        ids.append(_next(ids[-1] if ids else start, message))
    return ids


def start_of(session_id: str | None) -> str:
    """What the id of a conversation's first message stands on."""
    return "" if session_id is None else _hash(["session", session_id])


def again(name: str, number: int) -> str:
    """The id of a copy: a message that is gone on from after it was left for another one, each time by another one."""
    return f"{name}~{number}"


def name_of(turn: Turn) -> str:
    """The id of the message that a turn is, whichever copy of it."""
    return (turn.external_id or turn.turn_id).partition("~")[0] if is_ours(turn) else turn.external_id or turn.turn_id


def is_ours(turn: Turn) -> bool:
    """True when the turn was kept by the proxy."""
    return (turn.external_id or "").startswith(_PREFIX)


def last_user_place(messages: Sequence[Message]) -> int | None:
    """The place of the last message of the user; None when there is none."""
    places = (
        place
        for place in range(len(messages) - 1, -1, -1)
        if isinstance(messages[place], Mapping) and messages[place].get("role") == "user"
    )
    return next(places, None)


def text_of(message: Message) -> str:
    """The text of a message, without evidence that we added; its text parts joined by newlines."""
    content = message.get("content")
    if isinstance(content, str):
        return own_words(content)
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS]
    return "\n".join(own_words(text) for text in texts if isinstance(text, str))


def own_words(text: str) -> str:
    """A text without blocks of evidence that we made, our rules before and the day behind them: nobody said them.

    A block is ours when its id is the one that `fence` gives to what it holds.
    """
    kept: list[str] = []
    at = 0
    while opening := _OPENING.search(text, at):
        closing = f'\n</evidence id="{opening[1]}">'
        end = text.find(closing, opening.end() - 1) + len(closing)
        block = text[opening.start() : end]
        if end < opening.end() or fence(block.split("\n")[1:-1], label="evidence") != block:
            break
        kept.append(text[at : opening.start()].removesuffix(f"{rules()}\n\n"))
        at = end
        if text.startswith(DAY, at):
            after = text.find("\n\n", at + len(DAY))
            at = len(text) if after < 0 else after + 2
    return "".join([*kept, text[at:]])


@cache
def rules() -> str:
    """Our words around evidence."""
    return files("backread.server").joinpath("prompts/proxy.md").read_text(encoding="utf-8").strip()


def role_of(message: object) -> str:
    """The role of a message.

    Raises:
        InvalidInputError: it is no message.
    """
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(role, str):
        raise InvalidInputError("a message is an object with a role")
    return role


def says_something(message: Message) -> bool:
    """True when there is something to keep."""
    others = any(message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio"))
    return others or bool(text_of(message).strip()) or bool(_other_parts(message))


def of_tools(message: Message) -> bool:
    """True for a call of tools without words, and for what a tool gave: what some clients leave out, or put in."""
    if message.get("role") in ("tool", "function"):
        return True
    calls = message.get("tool_calls") or message.get("function_call")
    return message.get("role") == "assistant" and bool(calls) and not text_of(message).strip()


def same(one: Message, other: Message) -> bool:
    """True when two messages say the same, wherever they stand."""
    return _next("", one) == _next("", other) or (
        one.get("role") == other.get("role") and _words(one) == _words(other) != ""
    )


def timed(one: Message, other: Message) -> bool:
    """True when two messages of the user say the same but for a time before or after them."""
    if one.get("role") != "user" or other.get("role") != "user":
        return False
    return _unstamped(text_of(one)) == _unstamped(text_of(other)) != ""


def wrapped(one: Message, other: Message) -> bool:
    """True when one of two messages of the user is the other with a time or a block of lines around it."""
    if one.get("role") != "user" or other.get("role") != "user":
        return False
    shorter, longer = sorted((_unstamped(text_of(one)), _unstamped(text_of(other))), key=len)
    if not shorter:
        return False
    for at in {longer.find(shorter), longer.rfind(shorter)} - {-1}:
        before, after = longer[:at], longer[at + len(shorter) :]
        if _apart(before, by_line=before.endswith("\n")) and _apart(after, by_line=after.startswith("\n")):
            return True
    return False


def in_order_of_calls(messages: Sequence[Message]) -> list[Message]:
    """The messages, with what tools gave in the order in which they were called, whichever came first."""
    ordered: list[Message] = []
    given: list[Message] = []
    rank: dict[object, int] = {}
    for message in [*messages, {}]:
        if message.get("role") == "tool":
            given.append(message)
            continue
        ordered += sorted(given, key=lambda each: rank.get(each.get("tool_call_id"), len(rank)))
        given = []
        rank = {name: place for place, call in enumerate(_calls(message)) if isinstance(name := _id_of(call), str)}
        ordered.append(message)
    return ordered[:-1]


def draft(message: Message, name: str, at: datetime | None) -> dict[str, Any]:
    """A message with only what is kept of it."""
    kept = {key: message[key] for key in _STORED_KEYS if message.get(key) not in (None, "", [], {})}
    kept["content"] = _own_content(kept.get("content"))
    return {**kept, "id": name, **({} if at is None else {"timestamp": at.isoformat()})}


def message_of(turn: Turn) -> dict[str, Any]:
    """A turn that was kept, as the message it was."""
    keys = {item["type"]: item[item["type"]] for item in turn.attachments if item["type"] in item}
    kept = {key: value for key, value in keys.items() if key in _STORED_KEYS}
    parts = [dict(item) for item in turn.attachments if item["type"] not in kept]
    content = [{"type": "text", "text": turn.text}, *parts] if parts else turn.text
    return {"role": turn.role, "content": content, "name": turn.speaker, **kept}


def _own_content(content: object) -> object:
    if isinstance(content, str):
        return own_words(content)
    if not isinstance(content, list):
        return content
    own: list[object] = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS else None
        kept = own_words(text) if isinstance(text, str) else None
        if kept is None or kept == text:
            own.append(part)
        elif kept.strip():
            own.append({**part, "text": kept})
    return own


def _words(message: Message) -> str:
    """The text of a message as it is compared."""
    text, role = text_of(message), message.get("role")
    if role == "assistant":
        text = split_thinking(text).answer or text
    elif role == "user":
        text = _without_bracketed_time(text.strip())
    return " ".join(text.split())


def _without_bracketed_time(text: str) -> str:
    """A text without "[2026-05-01 12:00]" at its beginning or end; that alone is a text."""
    rest = text
    if rest.startswith("["):
        inside, closed, after = rest[1 : _STAMP_LENGTH + 2].partition("]")
        if closed and _is_time(inside):
            rest = (after + rest[_STAMP_LENGTH + 2 :]).lstrip()
    if rest.endswith("]"):
        before, opened, inside = rest[-_STAMP_LENGTH - 2 : -1].rpartition("[")
        if opened and _is_time(inside):
            rest = (rest[: -_STAMP_LENGTH - 2] + before).rstrip()
    return rest or text


def _unstamped(text: str) -> str:
    """A text without a time before or after it, its white space folded but for the ends of its lines."""
    lines = [folded for line in _without_bracketed_time(text.strip()).split("\n") if (folded := " ".join(line.split()))]
    if len(lines) > 1 and _is_time(lines[0]):
        lines = lines[1:]
    if len(lines) > 1 and _is_time(lines[-1]):
        lines = lines[:-1]
    if lines:
        words = lines[0].split(" ", 2)
        dated = len(words) > 2 and _is_time(f"{words[0]} {words[1]}") and _is_time(words[0]) and _is_time(words[1])
        lines[0] = words[2] if dated else lines[0]
    return "\n".join(lines)


def _apart(around: str, *, by_line: bool) -> bool:
    """True for what can stand around a message and be no part of it: lines of their own, brackets, or a time."""
    around = around.strip()
    if not around or by_line:
        return True
    bracketed = around.rstrip(":") if len(around) <= _STAMP_LENGTH else ""
    if bracketed[:1] + bracketed[-1:] in ("[]", "()", "<>", "{}") and not re.search(r"[\])>}]", bracketed[:-1]):
        return True
    return _is_time(around)


def _is_time(text: str) -> bool:
    """True for a short text of numbers and words of a date or a time of day."""
    words = _WORD.findall(text) if len(text) <= _STAMP_LENGTH else []
    digits = any(word[0].isdigit() for word in words)
    return digits and ("-" in text or ":" in text or "/" in text) and all(_TIME_WORD.fullmatch(word) for word in words)


def _next(before: str, message: Message) -> str:
    said = {
        "role": message.get("role"),
        "name": message.get("name") or None,
        "text": _words(message) or message.get("refusal") or "",
        "parts": _other_parts(message),
        "calls": [
            [_id_of(call), _function(call.get("function"))] if isinstance(call, Mapping) else call
            for call in _calls(message)
        ],
        "call": _function(message.get("function_call")),
        "answers": message.get("tool_call_id") or None,
    }
    return _hash([before, said])


def _calls(message: Message) -> list[object]:
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def _id_of(call: object) -> object:
    return call.get("id") if isinstance(call, Mapping) else None


def _function(function: object) -> object:
    """A call's name and arguments, which some clients write anew."""
    if not isinstance(function, Mapping):
        return None
    arguments = function.get("arguments")
    with contextlib.suppress(ValueError, RecursionError):
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return [function.get("name"), arguments]


def _hash(value: object) -> str:
    return f"{_PREFIX}{hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]}"


def _other_parts(message: Message) -> list[object]:
    """The parts of a message's content that are no text."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return [part for part in parts if not (isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS)]
