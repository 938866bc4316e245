"""JSON lines: one message or one conversation per line, in the shape of a chat API.

    {"session_id": "s1", "user_id": "ann", "role": "user", "content": "Hi", "timestamp": "2024-05-01T09:00:00Z"}
    {"messages": [{"role": "user", "content": "Hi"}], "session_id": "s1", "user_id": "ann", "timestamp": 1714554000}

- What a message may hold is said in `backread.messages`. This is also the shape in which backread exports; the keys
  that only an export has (turn_id, stored_at, position) are left aside. Its lines come back as they were: its times
  without known offset have none, and a null said_text says that a time has no wording.
- A line's own user stands before the `user_id` given; a line with neither ends the import.
- Messages of one user and session belong together wherever they are in the file. When no message line has a session_id
  the file is one session with the name of the file; when only some lack it, those are refused. A conversation without
  one is named after file and line ("chat:12").
- The time of a conversation is that of its messages that have none.
- Lines end at a line feed alone: U+2028 and its like are text. Blank lines are nothing.

A line or message that can't be read is left out and reported by the number of the line (from 1) and of the message in
it, the others are imported. Kinds in the report: "bad_json", "bad_line", "bad_message", "truncated" (the last line ends
early), "blank" (no text and no attachment) and "ignored_keys" (of a conversation).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

from backread.errors import BlankTextError, ImportFormatError, InvalidInputError
from backread.importers.base import Imported, ImportedSession, Irregularity, Tally, open_file
from backread.messages import RECEIVED_KEY, TIME_KEYS, draft_from_message
from backread.text.times import SaidAt
from backread.types import TurnDraft

__all__ = ["read_jsonl"]

_EXPORT_KEYS = ("user_id", "session_id", "turn_id", "stored_at", "position")
_CONVERSATION_KEYS = ("messages", "user_id", "session_id", *TIME_KEYS)


def read_jsonl(path: Path, *, zone: tzinfo = UTC, user_id: str | None = None) -> Imported:
    """The sessions of a file of JSON lines; see `Importer` and this module's text. There are no questions.

    Raises:
        ImportFormatError: the file can't be read, it has lines but none that can be read, or a line names no user and
            `user_id` wasn't given.
    """
    reading = _Reading(path, zone, user_id)
    with open_file(path) as file:
        data = file.read()
    lines = list(_lines(data))
    objects = (line for _, line in lines if isinstance(line, dict))
    unnamed = not any(line.get("session_id") is not None for line in objects if "messages" not in line)
    for number, line in lines:
        if isinstance(line, Irregularity):
            reading.tally.note(line.where, line.kind, line.detail)
        elif "messages" in line:
            reading.conversation(number, line)
        else:
            reading.message(number, line, path.stem if unnamed else None)
    sessions = reading.sessions()
    if not sessions and reading.tally.irregularities:
        first = reading.tally.irregularities[0]
        raise ImportFormatError(
            f"nothing in {path} can be read as JSON lines of messages; {first.where}: {first.detail}",
            hint='each line is {"role": …, "content": …} or {"messages": [ … ]}, UTF-8',
        )
    report = reading.tally.report("jsonl", hashlib.sha256(data).hexdigest())
    return Imported(sessions, (), report)


def _lines(data: bytes) -> Iterator[tuple[int, dict[str, Any] | Irregularity]]:
    """The number of each line that isn't blank, and the object it holds or what is wrong with it."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            last = number == len(lines)  # no line feed at its end
            kind, what = ("truncated", "the last line is not whole") if last else ("bad_json", "not JSON")
            yield number, Irregularity(where, kind, f"{what}: {error}")
        else:
            yield number, value if isinstance(value, dict) else Irregularity(where, "bad_line", "not an object")


@dataclass(slots=True)
class _Group:
    """The turns of one session so far."""

    started_at: SaidAt | None = None
    turns: list[TurnDraft] = field(default_factory=list)


class _Reading:
    """The state of one import: groups by user and session, in the order they first occur."""

    def __init__(self, path: Path, zone: tzinfo, user_id: str | None) -> None:
        self.tally = Tally()
        self._path = path
        self._zone = zone
        self._user_id = user_id
        self._groups: dict[str, dict[str, _Group]] = {}

    def message(self, number: int, line: Mapping[str, Any], session_id: str | None) -> None:
        """Takes in a line that is one message; `session_id` is for lines without one."""
        where = f"line {number}"
        names = self._names(where, line, session_id)
        if names is not None:
            self._draft(where, {key: line[key] for key in line if key not in _EXPORT_KEYS}, *names)

    def conversation(self, number: int, line: Mapping[str, Any]) -> None:
        """Takes in a line that is a list of messages."""
        where = f"line {number}"
        names = self._names(where, line, f"{self._path.stem}:{number}")
        if names is None:
            return
        messages = line["messages"]
        if not isinstance(messages, list):
            self.tally.note(where, "bad_line", "messages is not a list")
            return
        ignored = [key for key in line if key not in _CONVERSATION_KEYS]
        if ignored:
            self.tally.note(where, "ignored_keys", f"{', '.join(ignored)} of the conversation")
        times = {key: line[key] for key in TIME_KEYS if line.get(key) is not None}
        kept = 0
        for place, message in enumerate(messages, start=1):
            timed = message
            if isinstance(message, dict) and all(message.get(key) is None for key in (*TIME_KEYS, RECEIVED_KEY)):
                timed = {**message, **times}
            kept += self._draft(f"{where}, message {place}", timed, *names)
        if not kept:
            self.tally.skipped_sessions += 1

    def sessions(self) -> tuple[ImportedSession, ...]:
        """All sessions read, user by user, counted in the tally."""
        found = tuple(
            ImportedSession(user, name, group.started_at, tuple(group.turns))
            for user, groups in self._groups.items()
            for name, group in groups.items()
        )
        self.tally.users = len(self._groups)
        for session in found:
            self.tally.add(session)
        return found

    def _names(self, where: str, line: Mapping[str, Any], session_id: str | None) -> tuple[str, str] | None:
        """User and session of a line; None, and noted, when they can't be names."""
        user = line.get("user_id")
        user = self._user_id if user is None else user
        session = line.get("session_id")
        session = session_id if session is None else session
        if user is None:
            raise ImportFormatError(
                f"{self._path}, {where} names no user",
                hint="give user_id (on the command line --user), or a user_id on every line",
            )
        for key, value in (("user_id", user), ("session_id", session)):
            if not isinstance(value, str) or not value:
                found = "missing" if value is None else "not a non-empty string"
                self.tally.note(where, "bad_line", f"{key} is {found}")
                return None
        return str(user), str(session)

    def _draft(self, where: str, message: Mapping[str, Any], user: str, session: str) -> bool:
        """Adds a message to its session, or notes why not; True when it was added."""
        try:
            draft = draft_from_message(message, session_id=session, zone=self._zone)
        except BlankTextError as error:
            self.tally.skipped_blank += 1
            self.tally.note(where, "blank", f"{error}")
            return False
        except InvalidInputError as error:
            self.tally.note(where, "bad_message", f"{error}")
            return False
        group = self._groups.setdefault(user, {}).setdefault(session, _Group())
        group.turns.append(draft)
        known = group.started_at
        if draft.said_at is not None and (known is None or draft.said_at < known.at):
            group.started_at = SaidAt(draft.said_at, draft.offset_known, draft.said_text, None)
        return True
