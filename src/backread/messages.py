"""One message of a chat, as a chat model's API takes it, made into a `TurnDraft`.

Shared by `Memory.add` and the importers, so that a message means the same whichever way it comes in. Text is never
changed, not even stripped. What isn't text (images, tool calls, a refusal) goes to the attachments as it was given;
what isn't known is refused by name, so that a misspelt key can't lose anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from backread.errors import BlankTextError, InvalidInputError
from backread.text.times import SaidAt, parse_time
from backread.types import AddReceipt, Rejection, Turn, TurnDraft

__all__ = [
    "MESSAGE_KEYS",
    "RECEIVED_KEY",
    "ROLES",
    "TIME_KEYS",
    "draft_from_message",
    "drafts_of",
    "export_message",
    "receipt_of",
    "received",
]

ROLES = ("system", "developer", "user", "assistant", "tool", "function", "participant")
"""The roles of OpenAI's chat API, and "participant" for conversations between people."""

TIME_KEYS = ("timestamp", "time", "created_at", "said_at")
"""The names a message's time may have; a message has at most one of them."""

RECEIVED_KEY = "received_at"
"""When a message that names no time came in, as an export says it."""

_KEPT_KEYS = ("tool_calls", "tool_call_id", "function_call", "refusal", "annotations", "audio")
"""Keys of the chat API whose value, unless null or empty, becomes the attachment {"type": key, key: value}."""

MESSAGE_KEYS = (
    *("role", "content", "name", "speaker", "id", *TIME_KEYS, RECEIVED_KEY, "said_text"),
    *("caption", "attachments", "supersedes", *_KEPT_KEYS),
)
"""Every key a message may have."""

_TEXT_PARTS = ("text", "input_text", "output_text")
_MAX_DEPTH = 64


def draft_from_message(message: Mapping[str, Any], *, session_id: str, zone: tzinfo = UTC) -> TurnDraft:
    r"""The draft of one message, with `text` exactly as given.

    `role` is required, one of `ROLES`. `content` is a string, a list of parts, or null when there is something else
    to keep. Text parts are joined with "\n"; other parts are attachments, verbatim, and so are the values of
    `tool_calls` and its kin, as {"type": key, key: value}; a message's own `attachments` come first. A key whose
    value is None counts as absent, but for `said_text`.

    `name` (or `speaker`) is the speaker, `id` the external id (an int becomes its decimal string). The time is read
    from one of `TIME_KEYS`. `said_text` is its wording where that isn't the value itself, null saying that there is no
    wording, and may stand alone when the time is unknown. A time without offset is taken in `zone`.

    Raises:
        BlankTextError: no text, or only white space, and no attachment.
        TimeError: the time can't be read.
        InvalidInputError: anything else; the message names the key and what was expected.
    """
    if not isinstance(message, Mapping):
        raise InvalidInputError(f"a message is an object with role and content, not {_kind(message)}")
    _check_keys(message)
    role = _role(message)
    text, parts = _content(message.get("content"))
    attachments = (*_given_attachments(message), *parts, *_kept(message))
    if not text.strip() and not any(part["type"] not in _TEXT_PARTS for part in attachments):
        raise BlankTextError(f"the {role} message has no text and no attachment")
    said, came_in = _times(message, zone)
    wording = _text(message, "said_text")
    if "said_text" not in message and said is not None:
        wording = said.text
    return TurnDraft(
        session_id=session_id,
        role=role,
        text=text,
        speaker=_speaker(message),
        external_id=_id(message, "id"),
        caption=_text(message, "caption"),
        attachments=attachments,
        said_at=said.at if said else None,
        said_text=wording,
        offset_known=said.offset_known if said else True,
        supersedes=_id(message, "supersedes"),
        received_at=came_in.at if came_in else None,
    )


def received(draft: TurnDraft, at: datetime) -> TurnDraft:
    """The draft of a message that comes in at `at`: that is its time of receipt, where it says nothing of a time."""
    return draft if draft.said_at or draft.received_at else replace(draft, received_at=at)


def drafts_of(
    messages: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, session_id: str, zone: tzinfo
) -> tuple[list[tuple[int, TurnDraft]], list[tuple[int, InvalidInputError]]]:
    """Messages that come in now as drafts, and what is wrong with the others, each with its position."""
    now = datetime.now(zone)
    drafts: list[tuple[int, TurnDraft]] = []
    problems: list[tuple[int, InvalidInputError]] = []
    for position, message in enumerate([messages] if isinstance(messages, Mapping) else messages):
        try:
            drafts.append((position, received(draft_from_message(message, session_id=session_id, zone=zone), now)))
        except InvalidInputError as error:
            problems.append((position, error))
    return drafts, problems


def receipt_of(
    session_id: str, turn_ids: tuple[str, ...], new: int, problems: Sequence[tuple[int, InvalidInputError]]
) -> AddReceipt:
    """The receipt for messages of which `turn_ids` are in the record now, `new` of them for the first time.

    Raises:
        InvalidInputError: none could be kept; the first problem.
    """
    told = sorted(problems, key=lambda problem: problem[0])
    if told and not turn_ids:
        raise told[0][1]
    rejected = tuple(Rejection(position, str(error)) for position, error in told)
    return AddReceipt(session_id, turn_ids, new, len(turn_ids) - new, rejected)


def export_message(turn: Turn, *, user_id: str, supersedes: str | None = None) -> dict[str, Any]:
    """A turn as a message that `draft_from_message` takes back unchanged, with the user and session it belongs to.

    `id` is the external id, or the turn id where there is none, so that importing an export into the same store finds
    every turn known; `supersedes` is that id of the turn that it replaces. A time whose zone was assumed is written
    without one. Keys without a value are left out, except `said_text`, where null says that the time came without a
    wording.
    """
    said_at = turn.said_at if turn.offset_known or turn.said_at is None else turn.said_at.replace(tzinfo=None)
    message: dict[str, Any] = {
        "user_id": user_id,
        "session_id": turn.session_id,
        "id": turn.external_id or turn.turn_id,
        "role": turn.role,
        "name": turn.speaker,
        "content": turn.text,
        "caption": turn.caption,
        "attachments": [dict(item) for item in turn.attachments] or None,
        "timestamp": None if said_at is None else said_at.isoformat(),
        "received_at": None if turn.received_at is None else turn.received_at.isoformat(),
        "supersedes": supersedes,
    }
    message = {key: value for key, value in message.items() if value is not None}
    if said_at is not None or turn.said_text is not None:
        message["said_text"] = turn.said_text
    return message


def _check_keys(message: Mapping[str, Any]) -> None:
    unknown = [key for key in message if key not in MESSAGE_KEYS]
    if unknown:
        names = ", ".join(repr(key) for key in unknown)
        raise InvalidInputError(f"unknown key {names} in a message", hint=f"known keys: {', '.join(MESSAGE_KEYS)}")


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        found = "has no role" if role is None else f"has the unknown role {role!r}"
        raise InvalidInputError(f"the message {found}; roles are {', '.join(ROLES)}")
    return role


def _content(content: object) -> tuple[str, list[dict[str, Any]]]:
    """The text of a message's content, and the parts of it that aren't text."""
    if content is None:
        return "", []
    if isinstance(content, str):
        return content, []
    if not isinstance(content, list | tuple):
        raise InvalidInputError(f"content is a string, a list of parts or null, not {_kind(content)}")
    texts: list[str] = []
    others: list[dict[str, Any]] = []
    for number, given in enumerate(content):
        part = _attachment(given, f"content[{number}]")
        if part["type"] not in _TEXT_PARTS:
            others.append(part)
            continue
        text = part.pop("text", None)
        if not isinstance(text, str):
            raise InvalidInputError(f"content[{number}].text is a string, not {_kind(text)}")
        texts.append(text)
        extra = {key: value for key, value in part.items() if key != "type" and not _nothing(value)}
        if extra:  # such as the citations of an output_text part: kept, without the text they belong to
            others.append({"type": part["type"], **extra})
    return "\n".join(texts), others


def _given_attachments(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = message.get("attachments")
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise InvalidInputError(f"attachments is a list of objects, not {_kind(given)}")
    return [_attachment(item, f"attachments[{number}]") for number, item in enumerate(given)]


def _kept(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Tool calls, a refusal and the like, each as one attachment; null and empty values are nothing."""
    return [_attachment({"type": key, key: message[key]}, key) for key in _KEPT_KEYS if not _nothing(message.get(key))]


def _attachment(given: object, where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"{where} is an object with a type, not {_kind(given)}")
    part = dict(given)
    kind = part.get("type")
    if not isinstance(kind, str) or not kind:
        raise InvalidInputError(f'{where} has no "type"')
    _check_json(part, where)
    return part


def _check_json(value: object, where: str) -> None:
    """Raises InvalidInputError unless `value` comes back from JSON as it went in (a tuple as a list)."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise InvalidInputError(f"{where} is nested more than {_MAX_DEPTH} deep")
        if isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                raise InvalidInputError(f"{where} has a key that is not a string")
            waiting.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list | tuple):
            waiting.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidInputError(f"{where} holds {item}, which JSON can't carry")
        elif item is not None and not isinstance(item, str | int | float | bool):
            raise InvalidInputError(f"{where} holds {_kind(item)}, which JSON can't carry")


def _times(message: Mapping[str, Any], zone: tzinfo) -> tuple[SaidAt | None, SaidAt | None]:
    """When a message was said and when it was received, at most one of them."""
    given = [key for key in (*TIME_KEYS, RECEIVED_KEY) if message.get(key) is not None]
    if len(given) > 1:
        raise InvalidInputError(f"the message has two times, {given[0]} and {given[1]}; give one")
    at = parse_time(message[given[0]], zone=zone) if given else None
    return (None, at) if given == [RECEIVED_KEY] else (at, None)


def _speaker(message: Mapping[str, Any]) -> str | None:
    name, speaker = _text(message, "name"), _text(message, "speaker")
    if name is not None and speaker is not None:
        raise InvalidInputError("the message has both name and speaker, which mean the same; give one")
    if "" in (name, speaker):
        raise InvalidInputError("name is empty; leave it out when the speaker has none")
    return speaker if name is None else name


def _id(message: Mapping[str, Any], key: str) -> str | None:
    value = message.get(key)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        found = "an empty string" if value == "" else _kind(value)
        raise InvalidInputError(f"{key} is a non-empty string or an integer, not {found}")
    return value


def _text(message: Mapping[str, Any], key: str) -> str | None:
    value = message.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"{key} is a string, not {_kind(value)}")
    return value


def _nothing(value: object) -> bool:
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
