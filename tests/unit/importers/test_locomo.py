from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from backread.errors import ImportFormatError
from backread.importers import Imported, Question, read_locomo
from backread.importers.locomo import parse_evidence
from backread.types import TurnDraft

GOLDEN = Path(__file__).parents[2] / "golden" / "importers" / "locomo.json"
TURNS = {"D1:1": "session_1", "D1:2": "session_1", "D2:1": "session_2", "D10:1": "session_10"}


@pytest.fixture(name="read")
def _read() -> Imported:
    return read_locomo(GOLDEN)


def question(read: Imported, question_id: str) -> Question:
    return next(item for item in read.questions if item.question_id == question_id)


def test_sessions_are_ordered_by_number(read: Imported) -> None:
    assert [(item.user_id, item.session_id, len(item.turns)) for item in read.sessions] == [
        ("conv-a", "session_1", 2),
        ("conv-a", "session_2", 3),
        ("conv-a", "session_10", 1),
        ("conv-b", "session_1", 3),
        ("conv-b", "session_2", 1),
        ("conv-b#2", "session_1", 1),
    ]


def test_the_turns_of_a_session(read: Imported) -> None:
    said = datetime(2022, 5, 9, 14, 10, tzinfo=UTC)
    common = {"session_id": "session_2", "role": "participant", "said_at": said, "offset_known": False}
    wording = "2:10 pm on 9 May, 2022"
    assert list(read.sessions)[1].turns == (
        TurnDraft(
            text="Look at this!",
            speaker="Max",
            external_id="D2:1",
            caption="a red kayak on a beach",
            attachments=({"type": "image", "url": "https://example.org/boat.jpg", "query": "red kayak"},),
            said_text=wording,
            **common,  # type: ignore[arg-type]
        ),
        TurnDraft(
            text="Nice one.",
            speaker="Lena",
            external_id="D2:2",
            caption="a paddle",
            said_text=wording,
            **common,  # type: ignore[arg-type]
        ),
        TurnDraft(
            text="",
            speaker="Max",
            external_id="D2:4",
            attachments=(
                {"type": "image", "url": "https://example.org/a.jpg"},
                {"type": "image", "url": "https://example.org/b.jpg"},
            ),
            said_text=wording,
            **common,  # type: ignore[arg-type]
        ),
    )


def test_text_is_verbatim(read: Imported) -> None:
    assert list(read.sessions)[2].turns[0].text == "The  kayak\tis   back. "


def test_dates_are_taken_in_the_zone_given() -> None:
    zone = timezone(timedelta(hours=-5))
    started = next(iter(read_locomo(GOLDEN, zone=zone).sessions)).started_at
    assert started is not None
    assert started.at == datetime(2022, 5, 2, 13, 10, tzinfo=zone)


def test_a_time_that_cannot_be_read_is_unknown_and_its_wording_kept(read: Imported) -> None:
    sessions = [item for item in read.sessions if item.user_id == "conv-b"]
    assert [item.started_at for item in sessions] == [None, None]
    assert [item.turns[0].said_at for item in sessions] == [None, None]
    assert [item.turns[0].said_text for item in sessions] == ["one fine day", None]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["D1:1; D2:1"], ("D1:1", "D2:1")),
        (["D1:1 D1:2"], ("D1:1", "D1:2")),
        (["D:2:1"], ("D2:1",)),
        (["D10:01"], ("D10:1",)),
        (["D"], ()),
        (["D1:99"], ()),
        (["D1:1", "D1:1"], ("D1:1",)),
        ([], ()),
        (None, ()),
        ("D1:1", ("D1:1",)),
        ([5, "D2:1"], ("D2:1",)),
    ],
)
def test_evl_03_evidence(given: object, found: tuple[str, ...]) -> None:
    assert parse_evidence(given, TURNS)[0] == found


def test_evl_03_only_irregular_strings_are_reported() -> None:
    strings = ["D1:1", "D1:1", "D2:1; D10:01", "D", "D1:99"]
    assert parse_evidence(strings, TURNS)[1] == (
        ("D2:1; D10:01", "read as D2:1, D10:1"),
        ("D", "dropped"),
        ("D1:99", "dropped; no turn D1:99"),
    )


def test_evl_03_gold(read: Imported) -> None:
    assert [(item.gold_turns, item.gold_sessions) for item in read.questions[:9]] == [
        (("D1:1", "D2:1"), ("session_1", "session_2")),
        (("D1:1", "D1:2"), ("session_1",)),
        (("D2:1",), ("session_2",)),
        (("D10:1",), ("session_10",)),
        ((), ()),
        (("D1:2",), ("session_1",)),
        (("D1:1",), ("session_1",)),
        ((), ()),
        (("D2:2",), ("session_2",)),
    ]


def test_evl_03_the_report_lists_every_irregularity_and_no_other(read: Imported) -> None:
    assert [(item.where, item.kind) for item in read.report.irregularities] == [
        ("conv-a D2:3", "blank_turn"),
        ("conv-a D13:1", "blank_turn"),
        ("conv-a session_11_date_time", "date_without_session"),
        ("conv-a:0", "evidence"),
        ("conv-a:1", "evidence"),
        ("conv-a:2", "evidence"),
        ("conv-a:3", "evidence"),
        ("conv-a:4", "answer_missing"),
        ("conv-a:4", "evidence"),
        ("conv-a:4", "question_without_gold"),
        ("conv-a:5", "evidence"),
        ("conv-a:7", "question_without_gold"),
        ("conv-a:10", "unknown_category"),
        ("conv-a:11", "bad_question"),
        ("conv-b session_1", "date_unreadable"),
        ("conv-b D1:2", "duplicate_id"),
        ("conv-b D1:3", "duplicate_id"),
        ("conv-b D1:4", "bad_turn"),
        ("conv-b session_2", "date_missing"),
        ("conv-b session_3", "bad_session"),
        ("item 2", "bad_item"),
        ("conv-b", "duplicate_id"),
    ]
    assert read.report.kinds["evidence"] == 6


def test_the_counts(read: Imported) -> None:
    report = read.report
    assert (report.format, report.users, report.sessions, report.turns, report.questions) == ("locomo", 3, 6, 11, 12)
    assert (report.skipped_blank, report.skipped_sessions) == (2, 3)


def test_a_repeated_turn_id_gets_one_of_its_own_and_gold_means_the_first(read: Imported) -> None:
    session = next(item for item in read.sessions if item.user_id == "conv-b")
    assert [turn.external_id for turn in session.turns] == ["D1:1", "D1:1#2", "D1:3"]
    assert question(read, "conv-b:0").gold_turns == ("D1:1",)


def test_evl_02_adversarial_questions_have_a_trap_and_no_answer(read: Imported) -> None:
    for question_id, trap in (("conv-a:8", "red"), ("conv-a:9", "Elm Street")):
        item = question(read, question_id)
        assert (item.answer, item.abstention, item.question_type, item.trap) == (None, True, "adversarial", trap)


def test_evl_04_answers_that_are_not_text(read: Imported) -> None:
    answers = [item.answer for item in read.questions[:6]]
    assert answers == ["3", "2022", "0.5", "yes", None, "Riga, Turku"]


def test_categories_have_the_names_that_the_data_shows(read: Imported) -> None:
    types = [item.question_type for item in read.questions[:4]]
    assert types == ["multi-hop", "temporal", "open-domain", "single-hop"]
    assert question(read, "conv-a:10").question_type == "unknown"


def test_questions_with_the_same_words_stay_apart(read: Imported) -> None:
    same = [item.question_id for item in read.questions if item.question == "Which cities?"]
    assert same == ["conv-a:5", "conv-a:6", "conv-b:0"]


def test_sessions_hold_nothing_of_the_gold(read: Imported) -> None:
    shown = repr(read.sessions)
    assert "tractor" not in shown
    assert "Elm Street" not in shown
    assert "evidence" not in shown


@pytest.mark.parametrize("data", [[], [{"question_id": "q1", "haystack_sessions": []}]])
def test_a_file_of_another_format_is_refused(data: object, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ImportFormatError, match="no LoCoMo conversation"):
        read_locomo(path)
