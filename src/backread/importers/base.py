"""What every importer returns, and what they share.

An importer is a function from a file to `Imported`: sessions to store, questions with their gold labels, and a report
of what was found. Sessions hold nothing of the gold, so whatever is handed the sessions can't see it. Importers never
change text and never call a model; what they can't read is left out and named in the report, never guessed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import BinaryIO, Protocol, cast, runtime_checkable

from backread.errors import ImportFormatError, InvalidInputError, TimeError
from backread.text.times import SaidAt, parse_time
from backread.types import TurnDraft

__all__ = [
    "ImportReport",
    "Imported",
    "ImportedSession",
    "Importer",
    "Irregularity",
    "Question",
    "Tally",
    "answer_text",
    "file_stamp",
    "free_id",
    "open_file",
    "read_time",
    "refuse_user",
]


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """The turns of one sitting, in the order of the file; every draft has the same `session_id`.

    A long session's `turns` may be read from the file each time they are iterated.
    """

    user_id: str
    session_id: str
    started_at: SaidAt | None
    turns: Sequence[TurnDraft]


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a benchmark with its gold labels, for the bench only.

    Attributes:
        question_id: unique in the file.
        user_id: whose history is asked.
        answer: the gold answer as text; None when the question has none, or none that can be read.
        question_type: the benchmark's own category.
        abstention: True when the right answer is that the history doesn't say.
        asked_at: when the question is asked, None when the benchmark doesn't say.
        gold_turns: external ids of the turns that support the answer, all of them among the imported turns.
        gold_sessions: session ids that support the answer, all of them among the imported sessions.
        trap: the wrong answer an adversarial question is after.
    """

    question_id: str
    user_id: str
    question: str
    answer: str | None
    question_type: str
    abstention: bool
    asked_at: datetime | None
    gold_turns: tuple[str, ...]
    gold_sessions: tuple[str, ...]
    trap: str | None = None


@dataclass(frozen=True, slots=True)
class Irregularity:
    """Something of the file that isn't as its format says: where, which kind, and what became of it."""

    where: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Counts of what was read. Nothing is left out of an import that isn't counted here.

    Attributes:
        sha256: of the file's bytes, lower-case hexadecimal.
        users: histories with at least one session or question.
        skipped_blank: messages with no text and no attachment; they are not imported.
        skipped_sessions: sessions without a turn to import.
        irregularities: in the order of the file.
    """

    format: str
    sha256: str
    users: int
    sessions: int
    turns: int
    questions: int
    skipped_blank: int
    skipped_sessions: int
    irregularities: tuple[Irregularity, ...]

    @property
    def kinds(self) -> Mapping[str, int]:
        """How many irregularities there are of each kind, in the order the kinds first occur."""
        return Counter(item.kind for item in self.irregularities)


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file holds. `sessions` can be iterated any number of times; a large file is read anew each time."""

    sessions: Collection[ImportedSession]
    questions: tuple[Question, ...]
    report: ImportReport


@runtime_checkable
class Importer(Protocol):
    """Reads a file of one format.

    Sessions come in the order of the file, the sessions of one user one after the other; a history orders them by
    time later. Ids are stable: the same file gives the same ids, so importing it twice stores nothing twice.
    """

    def __call__(self, path: Path, *, zone: tzinfo = UTC, user_id: str | None = None) -> Imported:
        """What `path` holds.

        Args:
            path: the file, UTF-8 with or without a byte order mark.
            zone: where a time without offset was said.
            user_id: the user of what names no user itself. A format that always names its users refuses it.

        Raises:
            ImportFormatError: the file can't be read, or nothing in it can be read as this format.
            InvalidInputError: `user_id` was given to a format that names its users.
        """
        ...


@dataclass(slots=True)
class Tally:
    """The counts of a report while a file is read."""

    users: int = 0
    sessions: int = 0
    turns: int = 0
    questions: int = 0
    skipped_blank: int = 0
    skipped_sessions: int = 0
    irregularities: list[Irregularity] = field(default_factory=list)

    def note(self, where: str, kind: str, detail: str) -> None:
        """Records one irregularity."""
        self.irregularities.append(Irregularity(where, kind, detail))

    def add(self, session: ImportedSession) -> None:
        """Counts a session and its turns."""
        self.sessions += 1
        self.turns += len(session.turns)

    def report(self, name: str, sha256: str) -> ImportReport:
        """The finished report of the format `name`."""
        return ImportReport(
            format=name,
            sha256=sha256,
            users=self.users,
            sessions=self.sessions,
            turns=self.turns,
            questions=self.questions,
            skipped_blank=self.skipped_blank,
            skipped_sessions=self.skipped_sessions,
            irregularities=tuple(self.irregularities),
        )


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """The file, opened for reading bytes; what the system says against it is an ImportFormatError."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise ImportFormatError(f"{path} can't be read: {error.strerror or error}") from error


def file_stamp(path: Path) -> tuple[int, int]:
    """(bytes, time of the last change) of a file, by which a change between two readings is told.

    Raises:
        ImportFormatError: there is no such file.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise ImportFormatError(f"{path} can't be read: {error.strerror or error}") from error
    return stat.st_size, stat.st_mtime_ns


def answer_text(answer: object) -> str | None:
    """A gold answer as text, or None when it isn't one.

    Strings stay as they are; 3 and 3.0 give "3", 0.5 gives "0.5", true "yes", false "no"; the items of a list are
    joined with ", ". Null, an object, an infinity, an empty list or a list that holds one of these gives None.
    """
    if isinstance(answer, str):
        return answer
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if isinstance(answer, int):
        return str(answer)
    if isinstance(answer, float):
        if not math.isfinite(answer):
            return None
        return str(int(answer)) if answer.is_integer() else str(answer)
    if isinstance(answer, list) and answer:
        items = [answer_text(item) for item in answer]
        return None if None in items else ", ".join(item for item in items if item is not None)
    return None


def free_id(wanted: str, taken: set[str]) -> str:
    """`wanted`, or the first of "wanted#2", "wanted#3", … that isn't taken; the result is taken from then on."""
    chosen, number = wanted, 1
    while chosen in taken:
        number += 1
        chosen = f"{wanted}#{number}"
    taken.add(chosen)
    return chosen


def read_time(value: object, zone: tzinfo, where: str, tally: Tally) -> SaidAt | None:
    """The time `value` gives, or None when it is absent or can't be read: then it is unknown and noted, never now.

    Notes "date_missing", "date_unreadable" or, when the time is readable but odd (a wrong weekday), "date_odd".
    """
    if value is None or value == "":
        tally.note(where, "date_missing", "no date; the time is unknown")
        return None
    try:
        said = parse_time(cast("str", value), zone=zone)  # it refuses other types itself
    except TimeError as error:
        tally.note(where, "date_unreadable", f"{error}; the time is unknown")
        return None
    if said is not None and said.warning is not None:
        tally.note(where, "date_odd", said.warning)
    return said


def refuse_user(name: str, user_id: str | None) -> None:
    """Raises InvalidInputError when a user is named for a format whose files name their users."""
    if user_id is not None:
        raise InvalidInputError(f"a {name} file names its users itself; user_id can't be given for it")
