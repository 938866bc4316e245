"""Questions about the user's own history."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backread.bench.own_questions import read_questions
from backread.errors import ImportFormatError
from backread.importers.base import Imported, ImportedSession, ImportReport, Question, Tally
from backread.types import TurnDraft


def session(user: str, session_id: str, *ids: str | None) -> ImportedSession:
    return ImportedSession(
        user, session_id, None, tuple(TurnDraft(session_id, "user", "x", external_id=i) for i in ids)
    )


REPORT = ImportReport("jsonl", "", 0, 0, 0, 0, 0, 0, ())
ONE = Imported((session("ann", "s1", "m1", None), session("ann", "s2", "m3")), (), REPORT)
TWO = Imported((*ONE.sessions, session("bob", "s1", "m1")), (), REPORT)


def read(folder: Path, text: str, imported: Imported = ONE, tally: Tally | None = None) -> tuple[Question, ...]:
    path = folder / "questions.jsonl"
    path.write_bytes(text.encode())
    return read_questions(path, imported, tally or Tally())


def test_every_key_is_read(tmp_path: Path) -> None:
    line = {
        "question": "When does the ferry leave?",
        "answer": "at seven",
        "gold_turns": ["m3", "m3", "m1"],
        "gold_sessions": ["s1"],
        "question_id": "ferry",
        "question_type": "temporal",
        "asked_at": "2024-06-02",
        "user": "ann",
        "abstention": True,
    }
    tally = Tally()
    assert read(tmp_path, json.dumps(line), TWO, tally) == (
        Question(
            question_id="ferry",
            user_id="ann",
            question="When does the ferry leave?",
            answer="at seven",
            question_type="temporal",
            abstention=True,
            asked_at=datetime(2024, 6, 2, tzinfo=UTC),
            gold_turns=("m3", "m1"),
            gold_sessions=("s2", "s1"),
        ),
    )
    assert not tally.irregularities


def test_only_the_question_is_needed(tmp_path: Path) -> None:
    text = '\ufeff{"question": "Who?"}\n\n{"question": "How many?", "answer": 3}\n'
    first, second = read(tmp_path, text)
    assert (first.question_id, first.user_id, first.answer, first.question_type) == ("q1", "ann", None, "own")
    assert (first.abstention, first.asked_at, first.gold_turns, first.gold_sessions) == (False, None, (), ())
    assert (second.question_id, second.answer) == ("q3", "3")


def test_gold_that_names_nothing_is_reported_never_dropped_silently(tmp_path: Path) -> None:
    tally = Tally()
    line = {"question": "Who?", "gold_turns": ["m1", "m9", "m9"], "gold_sessions": ["s9", "s2"]}
    (found,) = read(tmp_path, json.dumps(line), tally=tally)
    assert (found.gold_turns, found.gold_sessions) == (("m1",), ("s1", "s2"))
    assert [(item.where, item.kind) for item in tally.irregularities] == [
        ("q1", "gold_turn_missing"),
        ("q1", "gold_session_missing"),
    ]
    assert "'m9' is no message of this history" in tally.irregularities[0].detail


def test_gold_of_another_user_is_no_gold(tmp_path: Path) -> None:
    tally = Tally()
    line = {"question": "Who?", "user": "bob", "gold_turns": ["m3"]}
    assert read(tmp_path, json.dumps(line), TWO, tally)[0].gold_turns == ()
    assert len(tally.irregularities) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "line 1: the line: Input should be"),
        ("{}", "line 1: question: Field required"),
        ('{"question": ""}', "line 1: question: String should have at least 1 character"),
        ('{"question": "Who?", "anwser": "x"}', "line 1: anwser: Extra inputs are not permitted"),
        ('{"question": "Who?", "gold_turns": "m1"}', "line 1: gold_turns: Input should be a valid tuple"),
        ('{"question": "Who?", "answer": {}}', "line 1: answer {} is no answer"),
        ('{"question": "Who?", "asked_at": "soon"}', "line 1: asked_at: .*soon"),
        ('{"question": "Who?"}\n{"question": "Who?", "question_id": "q1"}', "line 2: question_id 'q1' is taken"),
        ('{"question": "Who?", "user": "eve"}', "line 1: user 'eve' has no history"),
        ("\n", "holds no question"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ImportFormatError, match=said):
        read(tmp_path, text)


def test_of_several_users_one_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match="line 1: user is missing, and the histories are of 2 users"):
        read(tmp_path, '{"question": "Who?"}', TWO)


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match=r"line 1: .*; line 5: .*; and 2 more"):
        read(tmp_path, "{\n" * 7)
