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

The file is read line by line, and again when its sessions are iterated: only where the lines are is kept.

A line or message that can't be read is left out and reported by the number of the line (from 1) and of the message in
it, the others are imported. Kinds in the report: "bad_json", "bad_line", "bad_message", "truncated" (the last line ends
early), "blank" (no text and no attachment) and "ignored_keys" (of a conversation).
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, BinaryIO, overload

from backread.errors import BlankTextError, ImportFormatError, InvalidInputError
from backread.importers.base import Imported, ImportedSession, Irregularity, Tally, file_stamp, open_file
from backread.messages import RECEIVED_KEY, TIME_KEYS, draft_from_message
from backread.text.times import SaidAt
from backread.types import TurnDraft

__all__ = ["read_jsonl"]

_EXPORT_KEYS = ("user_id", "session_id", "turn_id", "stored_at", "position")
_MARK = b"\xef\xbb\xbf"
_LONG_SESSION = 500  # turns from which they are read one by one
_CONVERSATION_KEYS = ("messages", "user_id", "session_id", *TIME_KEYS)


def read_jsonl(path: Path, *, zone: tzinfo = UTC, user_id: str | None = None) -> Imported:
    """The sessions of a file of JSON lines; see `Importer` and this module's text. There are no questions.

    Raises:
        ImportFormatError: the file can't be read, it has lines but none that can be read, or a line names no user and
            `user_id` wasn't given.
    """
    stamp = file_stamp(path)
    with open_file(path) as file:
        unnamed = not any(
            line.get("session_id") is not None
            for _, _, line in _lines(file)
            if isinstance(line, dict) and "messages" not in line
        )
    reading = _Reading(path, zone, user_id, path.stem if unnamed else None)
    digest = hashlib.sha256()
    with open_file(path) as file:
        for number, at, line in _lines(file, digest.update):
            if isinstance(line, Irregularity):
                reading.tally.note(line.where, line.kind, line.detail)
                continue
            for place, names, draft in reading.turns(number, line):
                reading.keep(at, number, place, names, draft)
    sessions = _FileSessions(reading, stamp)
    if not len(sessions) and reading.tally.irregularities:
        first = reading.tally.irregularities[0]
        raise ImportFormatError(
            f"nothing in {path} can be read as JSON lines of messages; {first.where}: {first.detail}",
            hint='each line is {"role": …, "content": …} or {"messages": [ … ]}, UTF-8',
        )
    return Imported(sessions, (), reading.tally.report("jsonl", digest.hexdigest()))


def _lines(
    file: BinaryIO, seen: Callable[[bytes], object] | None = None
) -> Iterator[tuple[int, int, dict[str, Any] | Irregularity]]:
    """Number and place in the file of each line that isn't blank, and the object it holds or what is wrong with it.

    `seen` is given every byte of the file.
    """
    at = 0
    for number, whole in enumerate(file, start=1):
        if seen is not None:
            seen(whole)
        if (whole.removeprefix(_MARK) if number == 1 else whole).strip():
            yield number, at, _object(whole, number)
        at += len(whole)


def _object(whole: bytes, number: int) -> dict[str, Any] | Irregularity:
    """The object of a line, or what is wrong with it."""
    where = f"line {number}"
    line = whole.removeprefix(_MARK) if number == 1 else whole
    try:
        value = json.loads(line.removesuffix(b"\n").decode("utf-8"))
    except (ValueError, RecursionError) as error:
        last = not whole.endswith(b"\n")
        kind, what = ("truncated", "the last line is not whole") if last else ("bad_json", "not JSON")
        return Irregularity(where, kind, f"{what}: {error}")
    return value if isinstance(value, dict) else Irregularity(where, "bad_line", "not an object")


class _Group:
    """Where the turns of one session are: place and number of each line, and the message in it, -1 for a whole line."""

    __slots__ = ("lines", "messages", "numbers", "started_at")

    def __init__(self) -> None:
        self.started_at: SaidAt | None = None
        self.lines, self.numbers, self.messages = array("Q"), array("Q"), array("l")


class _FileTurns(Sequence[TurnDraft]):
    """The turns of a long session, read from the file as they are asked for."""

    def __init__(self, sessions: _FileSessions, names: tuple[str, str], group: _Group) -> None:
        self._sessions, self._names, self._group = sessions, names, group

    def __len__(self) -> int:
        return len(self._group.lines)

    @overload
    def __getitem__(self, index: int) -> TurnDraft: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TurnDraft]: ...
    def __getitem__(self, index: int | slice) -> TurnDraft | Sequence[TurnDraft]:
        places = range(len(self))[index]
        if isinstance(places, int):
            return next(self._sessions.read(self._names, self._group, [places]))
        return list(self._sessions.read(self._names, self._group, places))

    def __iter__(self) -> Iterator[TurnDraft]:
        return self._sessions.read(self._names, self._group, range(len(self)))


class _FileSessions(Collection[ImportedSession]):
    """The sessions of a file, user by user; only where their lines are is kept, the turns are read anew each time."""

    def __init__(self, reading: _Reading, stamp: tuple[int, int]) -> None:
        self._reading, self._stamp = reading, stamp
        reading.tally.users = len(reading.groups)
        reading.tally.sessions = len(self)
        reading.tally.turns = sum(len(group.lines) for groups in reading.groups.values() for group in groups.values())

    def __len__(self) -> int:
        return sum(map(len, self._reading.groups.values()))

    def __contains__(self, session: object) -> bool:
        return any(session == own for own in self)

    def __iter__(self) -> Iterator[ImportedSession]:
        for user, groups in self._reading.groups.items():
            for name, group in groups.items():
                turns: Sequence[TurnDraft] = _FileTurns(self, (user, name), group)
                yield ImportedSession(
                    user, name, group.started_at, turns if len(turns) > _LONG_SESSION else tuple(turns)
                )

    def read(self, names: tuple[str, str], group: _Group, places: Iterable[int]) -> Iterator[TurnDraft]:
        """The turns of a group at these places.

        Raises:
            ImportFormatError: the file changed since it was read first.
        """
        if file_stamp(self._reading.path) != self._stamp:
            raise ImportFormatError(f"{self._reading.path} changed since it was read")
        with open_file(self._reading.path) as file:
            found: dict[int, TurnDraft] = {}
            known = -1
            for place in places:
                at, message = group.lines[place], group.messages[place]
                if at != known:
                    file.seek(at)
                    line = _object(file.readline(), group.numbers[place])
                    assert not isinstance(line, Irregularity)
                    turns = self._reading.turns(group.numbers[place], line, Tally())
                    known, found = at, {number: draft for number, own, draft in turns if own == names}
                yield found[message]


class _Reading:
    """How lines become turns, and the groups by user and session in the order they first occur."""

    def __init__(self, path: Path, zone: tzinfo, user_id: str | None, session_id: str | None) -> None:
        self.path = path
        self.tally = Tally()
        self.groups: dict[str, dict[str, _Group]] = {}
        self._zone = zone
        self._user_id = user_id
        self._session_id = session_id

    def turns(
        self, number: int, line: Mapping[str, Any], tally: Tally | None = None
    ) -> Iterator[tuple[int, tuple[str, str], TurnDraft]]:
        """(message in the line or -1, (user, session), turn) of all that a line holds; what it lacks is noted."""
        tally = self.tally if tally is None else tally
        where = f"line {number}"
        if "messages" in line:
            yield from self._conversation(number, line, tally)
            return
        names = self._names(where, line, self._session_id, tally)
        if names is not None:
            draft = self._draft(where, {key: line[key] for key in line if key not in _EXPORT_KEYS}, names[1], tally)
            if draft is not None:
                yield -1, names, draft

    def _conversation(
        self, number: int, line: Mapping[str, Any], tally: Tally
    ) -> Iterator[tuple[int, tuple[str, str], TurnDraft]]:
        where = f"line {number}"
        names = self._names(where, line, f"{self.path.stem}:{number}", tally)
        if names is None:
            return
        messages = line["messages"]
        if not isinstance(messages, list):
            tally.note(where, "bad_line", "messages is not a list")
            return
        ignored = [key for key in line if key not in _CONVERSATION_KEYS]
        if ignored:
            tally.note(where, "ignored_keys", f"{', '.join(ignored)} of the conversation")
        times = {key: line[key] for key in TIME_KEYS if line.get(key) is not None}
        kept = 0
        for place, message in enumerate(messages, start=1):
            timed = message
            if isinstance(message, dict) and all(message.get(key) is None for key in (*TIME_KEYS, RECEIVED_KEY)):
                timed = {**message, **times}
            draft = self._draft(f"{where}, message {place}", timed, names[1], tally)
            if draft is not None:
                kept += 1
                yield place, names, draft
        if not kept:
            tally.skipped_sessions += 1

    def keep(self, at: int, number: int, place: int, names: tuple[str, str], draft: TurnDraft) -> None:
        """Remember where a turn is."""
        user, session = names
        group = self.groups.setdefault(user, {}).setdefault(session, _Group())
        group.lines.append(at)
        group.numbers.append(number)
        group.messages.append(place)
        known = group.started_at
        if draft.said_at is not None and (known is None or draft.said_at < known.at):
            group.started_at = SaidAt(draft.said_at, draft.offset_known, draft.said_text, None)

    def _names(
        self, where: str, line: Mapping[str, Any], session_id: str | None, tally: Tally
    ) -> tuple[str, str] | None:
        """User and session of a line; None, and noted, when they can't be names."""
        user = line.get("user_id")
        user = self._user_id if user is None else user
        session = line.get("session_id")
        session = session_id if session is None else session
        if user is None:
            raise ImportFormatError(
                f"{self.path}, {where} names no user",
                hint="give user_id (on the command line --user), or a user_id on every line",
            )
        for key, value in (("user_id", user), ("session_id", session)):
            if not isinstance(value, str) or not value:
                found = "missing" if value is None else "not a non-empty string"
                tally.note(where, "bad_line", f"{key} is {found}")
                return None
        return str(user), str(session)

    def _draft(self, where: str, message: Mapping[str, Any], session: str, tally: Tally) -> TurnDraft | None:
        """The turn of a message; None, and noted, when it is none."""
        try:
            return draft_from_message(message, session_id=session, zone=self._zone)
        except BlankTextError as error:
            tally.skipped_blank += 1
            tally.note(where, "blank", f"{error}")
        except InvalidInputError as error:
            tally.note(where, "bad_message", f"{error}")
        return None
