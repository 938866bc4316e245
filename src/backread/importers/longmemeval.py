"""LongMemEval (oracle, s, m): 500 questions, each over its own haystack of chats with an assistant.

Wu et al. 2025, arXiv 2410.10813. What the file says and what is made of it:

- One user per question: `user_id` is the question_id. Sessions keep the order of the file, which in the oracle file
  isn't that of time, and are keyed by their place: the second session of an id becomes "<id>#2".
- A turn's external id is "<session id>:<index>", 0-based in the file's list, blank turns counted, so it never shifts.
  Blank turns and sessions without turns are skipped and counted.
- `has_answer` marks a gold turn only when it is true; in evidence sessions it is there and false on the other turns.
- Question ids that end in "_abs" ask for what the haystack doesn't say. Their `answer` is an explanation, that of
  single-session-preference a rubric; integers become text.
- A date that can't be read leaves the session's time unknown. Keys of an item that aren't LongMemEval's are ignored.

The sessions of a 277 MB file are not held: they are read again whenever they are iterated, one question at a time.

Kinds in the report: "duplicate_session_id", "duplicate_question_id", "gold_session_missing", "gold_turn_blank",
"question_without_gold" (a question to be answered with no gold turn), "lists_differ" (ids, dates and sessions aren't
equally many), "role" (other than user and assistant; kept), "answer_missing", "bad_item", "bad_session", "bad_turn",
and the dates' "date_missing", "date_unreadable", "date_odd" (a wrong weekday).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

from backread.errors import ImportFormatError
from backread.importers.base import (
    Imported,
    ImportedSession,
    Question,
    Tally,
    answer_text,
    file_stamp,
    free_id,
    read_time,
    refuse_user,
)
from backread.importers.json_items import JsonItems
from backread.text.times import SaidAt
from backread.types import TurnDraft

__all__ = ["read_items", "read_longmemeval"]


def read_longmemeval(path: Path, *, zone: tzinfo = UTC, user_id: str | None = None) -> Imported:
    """The histories and questions of a LongMemEval file; see `Importer` and this module's text.

    The file is read once here and once more each time `sessions` is iterated.

    Raises:
        ImportFormatError: the file can't be read, or no item of it is a LongMemEval question; also while iterating,
            when the file changed in the meantime.
        InvalidInputError: `user_id` was given.
    """
    refuse_user("LongMemEval", user_id)
    stamp = file_stamp(path)
    tally = Tally()
    questions: list[Question] = []
    items = JsonItems(path)
    for sessions, question in read_items(items, zone, tally):
        for session in sessions:
            tally.add(session)
        questions.append(question)
    if not questions:
        raise ImportFormatError(f"{path} holds no LongMemEval question (an object with question_id and haystacks)")
    tally.users = tally.questions = len(questions)
    report = tally.report("longmemeval", items.sha256)
    return Imported(_FileSessions(path, zone, report.sessions, stamp), tuple(questions), report)


class _FileSessions(Collection[ImportedSession]):
    """The sessions of a file that was read before, read anew at every iteration."""

    def __init__(self, path: Path, zone: tzinfo, count: int, stamp: tuple[int, int]) -> None:
        self._path = path
        self._zone = zone
        self._count = count
        self._stamp = stamp

    def __len__(self) -> int:
        return self._count

    def __contains__(self, session: object) -> bool:
        return any(session == own for own in self)

    def __iter__(self) -> Iterator[ImportedSession]:
        if file_stamp(self._path) != self._stamp:
            raise ImportFormatError(f"{self._path} changed since it was read")
        for sessions, _ in read_items(JsonItems(self._path), self._zone, Tally()):
            yield from sessions


def read_items(
    items: Iterable[Mapping[str, Any]], zone: tzinfo, tally: Tally
) -> Iterator[tuple[list[ImportedSession], Question]]:
    """The sessions and the question of each item of a LongMemEval list; `tally` gets what is odd and what is skipped.

    Sessions, turns, users and questions are for the caller to count.
    """
    taken: set[str] = set()
    for number, item in enumerate(items):
        question_id = item.get("question_id")
        named = isinstance(question_id, str) and question_id and isinstance(item.get("question"), str)
        if not named or not isinstance(item.get("haystack_sessions"), list):
            tally.note(f"item {number}", "bad_item", "no question_id, question or haystack; the item is left out")
            continue
        user = free_id(str(question_id), taken)
        if user != question_id:
            tally.note(f"item {number}", "duplicate_question_id", f"a second {question_id} is imported as {user}")
        haystack = _haystack(user, item, zone, tally)
        yield haystack.sessions, _question(user, item, haystack, zone, tally)


@dataclass(slots=True)
class _Haystack:
    """The sessions of one question, with the gold labels found in them."""

    sessions: list[ImportedSession]
    ids: list[tuple[str, str]]
    gold_turns: list[str]


def _haystack(user: str, item: Mapping[str, Any], zone: tzinfo, tally: Tally) -> _Haystack:
    given, ids, dates = item["haystack_sessions"], item.get("haystack_session_ids"), item.get("haystack_dates")
    ids, dates = ids if isinstance(ids, list) else [], dates if isinstance(dates, list) else []
    if not len(given) == len(ids) == len(dates):
        tally.note(user, "lists_differ", f"{len(given)} sessions, {len(ids)} ids, {len(dates)} dates")
    found = _Haystack([], [], [])
    taken: set[str] = set()
    for place, turns in enumerate(given):
        wanted = ids[place] if place < len(ids) and isinstance(ids[place], str) and ids[place] else f"session_{place}"
        session_id = free_id(wanted, taken)
        where = f"{user} {session_id}"
        if session_id != wanted:
            tally.note(where, "duplicate_session_id", f"{wanted} occurs twice in this haystack")
        if not isinstance(turns, list):
            tally.note(where, "bad_session", "not a list of turns; the session is left out")
            turns = []
        if not turns:
            tally.skipped_sessions += 1
            continue
        date = dates[place] if place < len(dates) else None
        said = read_time(date, zone, where, tally)
        drafts = _turns(turns, session_id, said, date, where, found.gold_turns, tally)
        if drafts:
            found.sessions.append(ImportedSession(user, session_id, said, drafts))
            found.ids.append((wanted, session_id))
        else:
            tally.skipped_sessions += 1
    return found


def _turns(
    turns: list[Any], session_id: str, said: SaidAt | None, date: object, where: str, gold: list[str], tally: Tally
) -> tuple[TurnDraft, ...]:
    """The drafts of one session; ids of gold turns are added to `gold`."""
    drafts: list[TurnDraft] = []
    for index, turn in enumerate(turns):
        place = f"{where} turn {index}"
        fine = isinstance(turn, dict) and isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str)
        if not fine or not turn["role"]:
            tally.note(place, "bad_turn", "not an object with role and content; the turn is left out")
            continue
        if not turn["content"].strip():
            tally.skipped_blank += 1
            if turn.get("has_answer") is True:
                tally.note(place, "gold_turn_blank", "a gold turn without text; it is left out")
            continue
        if turn["role"] not in ("user", "assistant"):
            tally.note(place, "role", f"role {turn['role']!r} is kept as it is")
        draft = TurnDraft(
            session_id=session_id,
            role=turn["role"],
            text=turn["content"],
            external_id=f"{session_id}:{index}",
            said_at=said.at if said else None,
            said_text=said.text if said else date if isinstance(date, str) and date else None,
            offset_known=said.offset_known if said else True,
        )
        drafts.append(draft)
        if turn.get("has_answer") is True:
            gold.append(f"{session_id}:{index}")
    return tuple(drafts)


def _question(user: str, item: Mapping[str, Any], haystack: _Haystack, zone: tzinfo, tally: Tally) -> Question:
    abstention = item["question_id"].endswith("_abs")
    answer = answer_text(item.get("answer"))
    if answer is None:
        tally.note(user, "answer_missing", f"answer {item.get('answer')!r} is no answer; the question has none")
    asked = read_time(item.get("question_date"), zone, f"{user} question_date", tally)
    wanted = item.get("answer_session_ids")
    gold_sessions: list[str] = []
    for gold_id in wanted if isinstance(wanted, list) else []:
        present = [session_id for source_id, session_id in haystack.ids if source_id == gold_id]
        if not present:
            tally.note(user, "gold_session_missing", f"{gold_id!r} is not in the haystack")
        gold_sessions.extend(present)
    if not haystack.gold_turns and not abstention:
        tally.note(user, "question_without_gold", "no turn has has_answer; it counts in accuracy only")
    question_type = item.get("question_type")
    return Question(
        question_id=user,
        user_id=user,
        question=item["question"],
        answer=answer,
        question_type=question_type if isinstance(question_type, str) and question_type else "unknown",
        abstention=abstention,
        asked_at=asked.at if asked else None,
        gold_turns=tuple(haystack.gold_turns),
        gold_sessions=tuple(dict.fromkeys(gold_sessions)),
    )
