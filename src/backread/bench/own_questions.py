"""Questions about the user's own history: JSON lines beside the file of messages.

    {"question": "When does the ferry leave?", "answer": "at seven", "gold_turns": ["m3"], "asked_at": "2024-06-02"}

Only `question` is required. `answer` is the gold answer; `gold_turns` are the ids of the messages that support it, as
the messages' `id` says; `gold_sessions` are session ids, those of the gold turns are added; `question_id` is "q" and
the line's number when missing; `question_type` is "own"; `asked_at` is when the question is asked; `user` may be left
out when the history has one user; `abstention` true says that the history doesn't tell.

Gold ids that name nothing are listed in the report ("gold_turn_missing", "gold_session_missing", by question): a
question that has no other gold counts in accuracy only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic

from backread.errors import ImportFormatError, TimeError
from backread.importers.base import Imported, Question, Tally, answer_text, open_file
from backread.text.times import parse_time

__all__ = ["read_questions"]

_SHOWN = 5


class _Line(pydantic.BaseModel):
    """One line of the file."""

    model_config = pydantic.ConfigDict(extra="forbid")

    question: str = pydantic.Field(min_length=1)
    answer: Any = None
    gold_turns: tuple[str, ...] = ()
    gold_sessions: tuple[str, ...] = ()
    question_id: str | None = pydantic.Field(None, min_length=1)
    question_type: str = pydantic.Field("own", min_length=1)
    asked_at: str | float | None = None
    user: str | None = None
    abstention: bool = False


def read_questions(path: Path, imported: Imported, tally: Tally) -> tuple[Question, ...]:
    """The questions of a file, in its order; `tally` gets gold ids that name nothing.

    Args:
        path: the file, UTF-8.
        imported: the histories they are about.
        tally: of the report.

    Raises:
        ImportFormatError: the file can't be read, holds no question, or has lines that can't be used: each is named.
    """
    with open_file(path) as file:
        data = file.read()
    reading = _Reading(imported, tally)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            reading.line(number, line)
    if reading.faults:
        shown = "; ".join(reading.faults[:_SHOWN])
        more = f"; and {len(reading.faults) - _SHOWN} more" if len(reading.faults) > _SHOWN else ""
        raise ImportFormatError(
            f"{path}: {shown}{more}", hint="each line is an object with a question; see docs/bench.md"
        )
    if not reading.questions:
        raise ImportFormatError(f"{path} holds no question")
    return tuple(reading.questions.values())


class _Reading:
    """The questions so far, and what is wrong with the lines."""

    def __init__(self, imported: Imported, tally: Tally) -> None:
        self.questions: dict[str, Question] = {}
        self.faults: list[str] = []
        self._tally = tally
        self._session_of: dict[str, dict[str, str]] = {}
        self._sessions: dict[str, set[str]] = {}
        for session in imported.sessions:
            turns = self._session_of.setdefault(session.user_id, {})
            turns |= {turn.external_id: session.session_id for turn in session.turns if turn.external_id is not None}
            self._sessions.setdefault(session.user_id, set()).add(session.session_id)

    def line(self, number: int, line: bytes) -> None:
        """Take in one line, or note what is wrong with it."""
        try:
            given = _Line.model_validate(json.loads(line.decode("utf-8")))
            said = parse_time(given.asked_at)
        except pydantic.ValidationError as error:
            faults = (f"{'.'.join(map(str, fault['loc'])) or 'the line'}: {fault['msg']}" for fault in error.errors())
            self._fault(number, ", ".join(faults))
            return
        except (ValueError, RecursionError) as error:  # TimeError is one of them
            self._fault(number, f"asked_at: {error}" if isinstance(error, TimeError) else f"not JSON: {error}")
            return
        user = self._user(number, given.user)
        answer = answer_text(given.answer)
        question_id = given.question_id or f"q{number}"
        if given.answer is not None and answer is None:
            self._fault(number, f"answer {given.answer!r} is no answer")
        elif question_id in self.questions:
            self._fault(number, f"question_id {question_id!r} is taken by a line before it")
        elif user is not None:
            turns, sessions = self._gold(question_id, user, given)
            self.questions[question_id] = Question(
                question_id=question_id,
                user_id=user,
                question=given.question,
                answer=answer,
                question_type=given.question_type,
                abstention=given.abstention,
                asked_at=None if said is None else said.at,
                gold_turns=turns,
                gold_sessions=sessions,
            )

    def _fault(self, number: int, what: str) -> None:
        self.faults.append(f"line {number}: {what}")

    def _user(self, number: int, named: str | None) -> str | None:
        """Whose history a line asks; None, and noted, when that isn't clear."""
        if named is None and len(self._sessions) == 1:
            return next(iter(self._sessions))
        if named is None:
            self._fault(number, f"user is missing, and the histories are of {len(self._sessions)} users")
        elif named not in self._sessions:
            self._fault(number, f"user {named!r} has no history")
        else:
            return named
        return None

    def _gold(self, question_id: str, user: str, given: _Line) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The gold turns and sessions that are there; the others are noted."""
        session_of: Mapping[str, str] = self._session_of[user]
        turns = self._present(question_id, "gold_turn_missing", given.gold_turns, session_of)
        sessions = self._present(question_id, "gold_session_missing", given.gold_sessions, self._sessions[user])
        return turns, tuple(dict.fromkeys((*(session_of[turn] for turn in turns), *sessions)))

    def _present(
        self, question_id: str, kind: str, ids: Sequence[str], there: Mapping[str, str] | set[str]
    ) -> tuple[str, ...]:
        for missing in dict.fromkeys(gold_id for gold_id in ids if gold_id not in there):
            what = "message" if kind == "gold_turn_missing" else "session"
            self._tally.note(question_id, kind, f"{missing!r} is no {what} of this history; it doesn't count as gold")
        return tuple(dict.fromkeys(gold_id for gold_id in ids if gold_id in there))
