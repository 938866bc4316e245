from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backread.errors import ImportFormatError
from backread.importers import Imported, read_longmemeval
from backread.types import TurnDraft

GOLDEN = Path(__file__).parents[2] / "golden" / "importers" / "longmemeval.json"


@pytest.fixture(name="read")
def _read() -> Imported:
    return read_longmemeval(GOLDEN)


def test_sessions_keep_the_order_of_the_file_and_their_own_ids(read: Imported) -> None:
    assert [(item.user_id, item.session_id, len(item.turns)) for item in read.sessions] == [
        ("q1", "answer_1", 3),
        ("q1", "sharegpt_x", 2),
        ("q1", "sharegpt_x#2", 1),
        ("q1", "answer_2", 2),
        ("q2_abs", "answer_4", 1),
        ("q3", "a", 1),
        ("q3", "session_1", 1),
        ("q3#2", "a", 1),
    ]


def test_sessions_can_be_iterated_again(read: Imported) -> None:
    assert list(read.sessions) == list(read.sessions)
    assert len(read.sessions) == 8
    assert next(iter(read.sessions)) in read.sessions
    assert None not in read.sessions


def test_a_turn_is_verbatim_and_numbered_by_its_place_in_the_file(read: Imported) -> None:
    session = next(iter(read.sessions))
    assert [turn.external_id for turn in session.turns] == ["answer_1:0", "answer_1:1", "answer_1:3"]
    assert session.turns[1] == TurnDraft(
        session_id="answer_1",
        role="user",
        text=" I bought two  plants.\n",
        external_id="answer_1:1",
        said_at=datetime(2023, 5, 21, 10, tzinfo=UTC),
        said_text="2023/05/21 (Sun) 10:00",
        offset_known=False,
    )


def test_external_ids_are_unique_within_a_user(read: Imported) -> None:
    ids = [(item.user_id, turn.external_id) for item in read.sessions for turn in item.turns]
    assert len(ids) == len(set(ids))


def test_a_date_that_cannot_be_read_is_unknown(read: Imported) -> None:
    session = list(read.sessions)[3]
    assert session.started_at is None
    assert {turn.said_at for turn in session.turns} == {None}
    assert {turn.said_text for turn in session.turns} == {"some day in May"}


def test_gold_is_what_is_marked_true_and_is_there(read: Imported) -> None:
    first, second, third, fourth = read.questions
    assert first.gold_turns == ("answer_1:1", "answer_2:0")
    assert first.gold_sessions == ("answer_2", "answer_1")
    assert (second.gold_turns, second.gold_sessions) == ((), ("answer_4",))
    assert (third.gold_turns, third.gold_sessions) == ((), ())
    assert (fourth.gold_turns, fourth.gold_sessions) == (("a:0",), ("a",))


def test_questions(read: Imported) -> None:
    assert [(item.question_id, item.user_id, item.answer, item.abstention) for item in read.questions] == [
        ("q1", "q1", "5", False),
        ("q2_abs", "q2_abs", "You did not mention a cat.", True),
        ("q3", "q3", None, False),
        ("q3#2", "q3#2", "yes", False),
    ]
    assert read.questions[0].asked_at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert read.questions[2].asked_at is None
    assert read.questions[1].question_type == "knowledge-update"
    assert {item.trap for item in read.questions} == {None}


def test_the_report_lists_every_irregularity_and_no_other(read: Imported) -> None:
    assert [(item.where, item.kind) for item in read.report.irregularities] == [
        ("q1 sharegpt_x#2", "duplicate_session_id"),
        ("q1 sharegpt_x#2", "date_odd"),
        ("q1 blank turn 1", "gold_turn_blank"),
        ("q1 answer_2", "date_unreadable"),
        ("q1 answer_2 turn 1", "role"),
        ("q1 answer_2 turn 2", "bad_turn"),
        ("q1", "gold_session_missing"),
        ("q3", "lists_differ"),
        ("q3 a", "date_missing"),
        ("q3 session_1", "date_missing"),
        ("q3 session_2", "bad_session"),
        ("q3", "answer_missing"),
        ("q3 question_date", "date_missing"),
        ("q3", "question_without_gold"),
        ("item 3", "bad_item"),
        ("item 4", "duplicate_question_id"),
    ]
    assert read.report.kinds["date_missing"] == 3


def test_the_counts(read: Imported) -> None:
    report = read.report
    assert (report.format, report.users, report.sessions, report.turns, report.questions) == (
        "longmemeval",
        4,
        8,
        12,
        4,
    )
    assert (report.skipped_blank, report.skipped_sessions) == (3, 3)
    assert report.sha256 == hashlib.sha256(GOLDEN.read_bytes()).hexdigest()


def test_sessions_hold_nothing_of_the_gold(read: Imported) -> None:
    shown = repr(list(read.sessions))
    assert "has_answer" not in shown
    assert "How many plants" not in shown


def test_a_file_that_changed_is_not_read_as_if_it_were_the_same(tmp_path: Path) -> None:
    path = tmp_path / "lme.json"
    path.write_bytes(GOLDEN.read_bytes())
    read = read_longmemeval(path)
    path.write_bytes(GOLDEN.read_bytes() + b"\n")
    with pytest.raises(ImportFormatError, match="changed since it was read"):
        list(read.sessions)
    path.unlink()
    with pytest.raises(ImportFormatError, match="can't be read"):
        list(read.sessions)


@pytest.mark.parametrize("data", [[], [{"sample_id": "conv-26", "conversation": {}}]])
def test_a_file_of_another_format_is_refused(data: object, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ImportFormatError, match="no LongMemEval question"):
        read_longmemeval(path)
