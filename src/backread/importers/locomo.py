"""LoCoMo (`locomo10.json`): ten long conversations between two people, with questions about them.

Maharana et al. 2024, arXiv 2402.17753. What the file says and what is made of it:

- One user per conversation: `user_id` is its sample_id ("conv-26"). Sessions are the lists `session_N`, by number; the
  session id is that key ("session_1"). A date key without its list creates nothing.
- A turn's external id is its dia_id ("D1:3"), its role "participant", its speaker the name in the file. The caption of
  an image is kept also where the image's address is missing. All turns of a session have the session's date, which
  has no offset: it is taken in the zone given.
- `question_id` is "conv-26:0", the 0-based place in the conversation's list: question texts repeat.
- Categories: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial. The numbers are in another order than
  the paper's prose, which misled many; counting evidence sessions shows these names to be right.
- Category 5 has no answer but "not mentioned": `answer` is None, `abstention` True, and adversarial_answer the trap.
  The two of the file that also have an `answer` (a plain "No") are treated alike.
- Evidence is searched for turn ids instead of compared, so that "D8:6; D9:17" gives two, "D:11:26" D11:26 and
  "D30:05" D30:5. Ids of no turn are dropped; one named twice counts once. Every string that isn't simply the id of a
  turn is in the report.

Kinds in the report: "evidence" (a string that needed a repair or names no turn), "question_without_gold",
"date_without_session", "answer_missing" (outside category 5), "unknown_category", "bad_item", "bad_question",
"bad_session", "bad_turn", "blank_turn", "duplicate_id", and the dates' "date_missing", "date_unreadable", "date_odd".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    free_id,
    read_time,
    refuse_user,
)
from backread.importers.json_items import JsonItems
from backread.types import TurnDraft

__all__ = ["CATEGORIES", "parse_evidence", "read_locomo"]

CATEGORIES: Mapping[int, str] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
"""The name of each category number (not the order of the paper's prose)."""

_ADVERSARIAL = 5
_SESSION = re.compile(r"session_(\d+)")
_DATE = re.compile(r"(session_\d+)_date_time")
_TURN_ID = re.compile(r"D:?(\d+):(\d+)")


def read_locomo(path: Path, *, zone: tzinfo = UTC, user_id: str | None = None) -> Imported:
    """The conversations and questions of a LoCoMo file; see `Importer` and this module's text.

    Raises:
        ImportFormatError: the file can't be read, or no item of it is a LoCoMo conversation.
        InvalidInputError: `user_id` was given.
    """
    refuse_user("LoCoMo", user_id)
    tally = Tally()
    sessions: list[ImportedSession] = []
    questions: list[Question] = []
    items = JsonItems(path)
    users: set[str] = set()
    for number, item in enumerate(items):
        sample_id, conversation = item.get("sample_id"), item.get("conversation")
        if not isinstance(sample_id, str) or not sample_id or not isinstance(conversation, dict):
            tally.note(f"item {number}", "bad_item", "no sample_id or no conversation; the item is left out")
            continue
        user = free_id(sample_id, users)
        if user != sample_id:
            tally.note(sample_id, "duplicate_id", f"a second conversation of this name is imported as {user}")
        own = _sessions(user, conversation, zone, tally)
        sessions.extend(own)
        questions.extend(_questions(user, item.get("qa"), own, tally))
    if not users:
        raise ImportFormatError(f"{path} holds no LoCoMo conversation (an object with sample_id and conversation)")
    tally.users, tally.questions = len(users), len(questions)
    return Imported(tuple(sessions), tuple(questions), tally.report("locomo", items.sha256))


def parse_evidence(given: object, turn_ids: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The turns that evidence strings name, in order and once each, and the strings that aren't simply a turn's id.

    Args:
        given: the file's value, a list of strings (anything else counts as a list of one, null as an empty one).
        turn_ids: the conversation's turn ids; only keys count.

    Returns:
        The ids found, and per irregular string the pair (string, what became of it).
    """
    strings = given if isinstance(given, list) else [] if given is None else [given]
    found: dict[str, None] = {}
    odd: list[tuple[str, str]] = []
    for item in strings:
        text = item if isinstance(item, str) else repr(item)
        ids = [f"D{int(session)}:{int(turn)}" for session, turn in _TURN_ID.findall(text)]
        known = [turn_id for turn_id in ids if turn_id in turn_ids]
        found.update(dict.fromkeys(known))
        if known != [item]:
            lost = [turn_id for turn_id in ids if turn_id not in turn_ids]
            outcome = f"read as {', '.join(known)}" if known else "dropped"
            odd.append((text, f"{outcome}; no turn {', '.join(lost)}" if lost else outcome))
    return tuple(found), tuple(odd)


def _sessions(user: str, conversation: Mapping[str, Any], zone: tzinfo, tally: Tally) -> list[ImportedSession]:
    """The sessions of one conversation by number, whatever the order of the keys."""
    numbered = sorted((int(match[1]), key) for key in conversation if (match := _SESSION.fullmatch(key)))
    taken: set[str] = set()
    sessions: list[ImportedSession] = []
    for number, key in numbered:
        where = f"{user} {key}"
        given = conversation[key]
        if not isinstance(given, list):
            tally.note(where, "bad_session", "not a list of turns; the session is left out")
            tally.skipped_sessions += 1
            continue
        if not given:
            tally.skipped_sessions += 1
            continue
        said = read_time(conversation.get(f"{key}_date_time"), zone, where, tally)
        time = {
            "said_at": said.at if said else None,
            "said_text": said.text if said else _wording(conversation.get(f"{key}_date_time")),
            "offset_known": said.offset_known if said else True,
        }
        drafts = [
            draft
            for index, turn in enumerate(given, start=1)
            if (draft := _turn(turn, key, f"D{number}:{index}", time, taken, f"{user} D{number}:{index}", tally))
        ]
        if drafts:
            sessions.append(ImportedSession(user, key, said, tuple(drafts)))
            tally.add(sessions[-1])
        else:
            tally.skipped_sessions += 1
    for key in conversation:
        match = _DATE.fullmatch(key)
        if match and match[1] not in conversation:
            tally.note(f"{user} {key}", "date_without_session", "a date without turns; no session is made of it")
    return sessions


def _turn(
    turn: object,
    session_id: str,
    place: str,
    time: Mapping[str, Any],
    taken: set[str],
    where: str,
    tally: Tally,
) -> TurnDraft | None:
    if not isinstance(turn, dict) or not isinstance(turn.get("text"), str):
        tally.note(where, "bad_turn", "not an object with a text; the turn is left out")
        return None
    text, caption, speaker, dia_id = turn["text"], turn.get("blip_caption"), turn.get("speaker"), turn.get("dia_id")
    images = _images(turn)
    if not text.strip() and not images:
        tally.note(where, "blank_turn", "no text and no image; the turn is left out")
        tally.skipped_blank += 1
        return None
    wanted = dia_id if isinstance(dia_id, str) and dia_id else place
    external_id = free_id(wanted, taken)
    if external_id != dia_id:
        tally.note(where, "duplicate_id", f"dia_id {dia_id!r} is missing or taken; the turn is called {external_id}")
    return TurnDraft(
        session_id=session_id,
        role="participant",
        text=text,
        speaker=speaker if isinstance(speaker, str) and speaker else None,
        external_id=external_id,
        caption=caption if isinstance(caption, str) and caption else None,
        attachments=images,
        **time,
    )


def _images(turn: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    given, query = turn.get("img_url"), turn.get("query")
    urls = given if isinstance(given, list) else [given]
    extra = {"query": query} if isinstance(query, str) and query else {}
    return tuple({"type": "image", "url": url, **extra} for url in urls if isinstance(url, str) and url)


def _questions(user: str, given: object, sessions: list[ImportedSession], tally: Tally) -> list[Question]:
    session_of = {
        draft.external_id: session.session_id for session in sessions for draft in session.turns if draft.external_id
    }
    questions: list[Question] = []
    for index, item in enumerate(given if isinstance(given, list) else []):
        question_id = f"{user}:{index}"
        if not isinstance(item, dict) or not isinstance(item.get("question"), str):
            tally.note(question_id, "bad_question", "not an object with a question; it is left out")
            continue
        questions.append(_question(question_id, user, item, session_of, tally))
    return questions


def _question(
    question_id: str, user: str, item: Mapping[str, Any], session_of: Mapping[str, str], tally: Tally
) -> Question:
    category = item.get("category")
    name = CATEGORIES.get(category) if isinstance(category, int) else None
    if name is None:
        tally.note(question_id, "unknown_category", f"category {category!r} has no name")
        name = "unknown"
    adversarial = category == _ADVERSARIAL
    answer = None if adversarial else answer_text(item.get("answer"))
    if answer is None and not adversarial:
        tally.note(question_id, "answer_missing", f"answer {item.get('answer')!r} is no answer; the question has none")
    gold, odd = parse_evidence(item.get("evidence"), session_of)
    for text, outcome in odd:
        tally.note(question_id, "evidence", f"{text!r}: {outcome}")
    if not gold:
        tally.note(question_id, "question_without_gold", "no turn supports the answer; it counts in accuracy only")
    return Question(
        question_id=question_id,
        user_id=user,
        question=item["question"],
        answer=answer,
        question_type=name,
        abstention=adversarial,
        asked_at=None,
        gold_turns=gold,
        gold_sessions=tuple(dict.fromkeys(session_of[turn_id] for turn_id in gold)),
        trap=answer_text(item.get("adversarial_answer")),
    )


def _wording(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
