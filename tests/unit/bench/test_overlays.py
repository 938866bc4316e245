"""What an audit of an answer key does to the questions."""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from backread.bench.overlays import Overlaid, overlaid
from backread.errors import ImportFormatError, InvalidInputError
from backread.importers.base import Imported, ImportedSession, ImportReport, Question
from backread.types import TurnDraft

REPORT = ImportReport("made up", "", 0, 0, 0, 0, 0, 0, ())


def question(question_id: str, answer: str | None, gold: dict[str, str], **more: Any) -> Question:
    values: dict[str, Any] = {
        "question_id": question_id,
        "user_id": question_id.partition(":")[0],
        "question": f"What of {question_id}?",
        "answer": answer,
        "question_type": "single-hop",
        "abstention": False,
        "asked_at": None,
        "gold_turns": tuple(gold),
        "gold_sessions": tuple(dict.fromkeys(gold.values())),
    }
    return Question(**(values | more))


def session(user: str, session_id: str, *turn_ids: str) -> ImportedSession:
    drafts = (TurnDraft(session_id, "participant", f"Words of {name}", external_id=name) for name in turn_ids)
    return ImportedSession(user, session_id, None, tuple(drafts))


LOCOMO = Imported(
    (
        session("conv-1", "session_1", "D1:1"),
        session("conv-2", "session_1", "D1:1", "D1:2"),
        session("conv-2", "session_2", "D2:1"),
    ),
    (
        question("conv-1:0", "red", {"D1:1": "session_1"}),
        question("conv-2:0", "2", {"D1:1": "session_1"}),
        question("conv-2:1", "Riga", {"D1:2": "session_1"}),
        question("conv-2:2", None, {"D1:1": "session_1"}, abstention=True),
    ),
    REPORT,
)


def entry(named: str, asked: str, answer: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"question_id": named, "question": asked, "golden_answer": answer, "error_type": kind, "category": 4, **more}


def apply(folder: Path, entries: object, imported: Imported = LOCOMO) -> Overlaid:
    path = folder / "errors.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return overlaid(path, "locomo", imported)


def of(overlay: Overlaid, question_id: str) -> Question:
    return next(item for item in overlay.questions if item.question_id == question_id)


def test_a_wrong_citation_corrects_the_gold_turns_alone(tmp_path: Path) -> None:
    comment = "2 (answer is correct, citation is wrong)"
    cited = entry(
        "locomo_1_qa0",
        "What of conv-2:0?",
        "2",
        "WRONG_CITATION",
        correct_evidence=["D2:1", "D1:2"],
        correct_answer=comment,
    )
    overlay = apply(tmp_path, [cited])
    found = of(overlay, "conv-2:0")
    assert (found.answer, found.gold_turns, found.gold_sessions) == ("2", ("D2:1", "D1:2"), ("session_2", "session_1"))
    assert not overlay.disputed
    assert not overlay.answers
    assert overlay.evidence == {"conv-2:0"}
    assert [item for item in overlay.questions if item.question_id != "conv-2:0"] == [
        item for item in LOCOMO.questions if item.question_id != "conv-2:0"
    ]


def test_a_wrong_answer_is_disputed_and_replaced_by_what_the_entry_gives(tmp_path: Path) -> None:
    entries = [
        entry("locomo_0_qa0", "What of conv-1:0?", "red", "HALLUCINATION", correct_answer="green"),
        entry("locomo_1_qa1", "What of conv-2:1?", "Riga", "AMBIGUOUS", correct_evidence=["D1:2"]),
    ]
    overlay = apply(tmp_path, entries)
    assert dict(overlay.disputed) == {"conv-1:0": "HALLUCINATION", "conv-2:1": "AMBIGUOUS"}
    assert (of(overlay, "conv-1:0").answer, of(overlay, "conv-1:0").gold_turns) == ("green", ("D1:1",))
    assert of(overlay, "conv-2:1") == LOCOMO.questions[2]
    assert overlay.answers == {"conv-1:0"}
    assert not overlay.evidence


def test_another_answer_without_evidence_is_an_abstention(tmp_path: Path) -> None:
    entries = [
        entry(
            "locomo_0_qa0",
            "What of conv-1:0?",
            "red",
            "TEMPORAL_ERROR",
            correct_answer="Nobody says.",
            correct_evidence=[],
        )
    ]
    found = of(apply(tmp_path, entries), "conv-1:0")
    assert (found.abstention, found.gold_turns, found.gold_sessions) == (True, (), ())


def test_the_note_counts_the_questions_that_are_asked(tmp_path: Path) -> None:
    entries = [
        entry("locomo_0_qa0", "What of conv-1:0?", "red", "HALLUCINATION", correct_answer="green"),
        entry("locomo_1_qa0", "What of conv-2:0?", "2", "WRONG_CITATION", correct_evidence=["D2:1"]),
        entry("locomo_7_qa0", "Of nothing?", "x", "HALLUCINATION"),
        entry("locomo_1_qa9", "Of nothing?", "x", "HALLUCINATION"),
    ]
    overlay = apply(tmp_path, entries)
    sha256 = hashlib.sha256((tmp_path / "errors.json").read_bytes()).hexdigest()
    assert overlay.sha256 == sha256
    assert overlay.note(["conv-2:0", "conv-2:1"]) == (
        f"The answer key was corrected by errors.json (sha256 {sha256[:12]}): 0 gold answers and the evidence of 1"
        " questions are not the benchmark's; 0 questions count as disputed; 2 of its entries name no question of the"
        " data."
    )
    assert overlay.unknown == ("locomo_7_qa0", "locomo_1_qa9")


@pytest.mark.parametrize(
    ("asked", "answer", "said"),
    [("Another?", "red", "another question"), ("What of conv-1:0?", "blue", "another answer")],
)
def test_an_overlay_of_other_data_is_refused(tmp_path: Path, asked: str, answer: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=f"locomo_0_qa0 has {said}"):
        apply(tmp_path, [entry("locomo_0_qa0", asked, answer, "INCOMPLETE")])


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([entry("conv-1:0", "?", "x", "INCOMPLETE")], "entry 0: question_id: String should match"),
        ([{"question_id": "locomo_0_qa0"}], "entry 0: question: Field required; golden_answer: .*; error_type: "),
        ([entry("locomo_0_qa0", "What of conv-1:0?", "red", "WRONG_CITATION", correct_evidence=["D9:9"])], "'D9:9'"),
        ("text", "entry 0: the entry: Input should be"),
    ],
)
def test_entries_that_cannot_be_used_are_named(tmp_path: Path, entries: object, said: str) -> None:
    with pytest.raises(ImportFormatError, match=said):
        apply(tmp_path, entries)


LONGMEMEVAL = Imported(
    (),
    (
        question("q1", "2", {"answer_1:0": "answer_1", "answer_2:4": "answer_2"}),
        question("q2", "7 days", {"answer_3:1": "answer_3"}),
        question("q3_abs", "Not said.", {}, abstention=True, gold_sessions=("answer_4",)),
    ),
    REPORT,
)
LINES: list[dict[str, Any]] = [
    {
        "question_id": "q1",
        "official_answer": 2,
        "reme_answer": "3",
        "official_answer_session_ids": ["answer_1", "answer_2"],
        "reme_answer_session_ids": ["answer_2"],
    },
    {"question_id": "q2", "official_answer": "7 days", "reme_answer": "Not enough.", "reme_answer_session_ids": []},
    {
        "question_id": "q3_abs",
        "official_answer": "Not said.",
        "reme_answer": "Not said.",
        "reme_answer_session_ids": [],
    },
    {"question_id": "q4", "official_answer": "a", "reme_answer": "b"},
]


@pytest.mark.parametrize("name", ["revised.jsonl", "revised.jsonl.xz"])
def test_revised_answers_of_longmemeval(tmp_path: Path, name: str) -> None:
    data = "".join(json.dumps(line) + "\n" for line in LINES).encode()
    (tmp_path / name).write_bytes(lzma.compress(data) if name.endswith("xz") else data)
    overlay = overlaid(tmp_path / name, "longmemeval", LONGMEMEVAL)
    first, second, third = overlay.questions
    assert (first.answer, first.gold_turns, first.gold_sessions) == ("3", ("answer_2:4",), ("answer_2",))
    assert not first.abstention
    assert (second.answer, second.gold_turns, second.abstention) == ("Not enough.", (), True)
    assert (third.answer, third.gold_sessions, third.abstention) == ("Not said.", (), True)
    assert dict(overlay.disputed) == {"q1": "REVISED_ANSWER", "q2": "REVISED_ANSWER"}
    assert overlay.answers == {"q1", "q2"}
    assert overlay.evidence == {"q1", "q2", "q3_abs"}
    assert overlay.unknown == ("q4",)


def test_evidence_that_was_none_before_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "revised.jsonl"
    path.write_text(json.dumps(LINES[0] | {"reme_answer_session_ids": ["answer_9"]}), encoding="utf-8")
    with pytest.raises(ImportFormatError, match="line 1: 'answer_9' is not among the gold sessions"):
        overlaid(path, "longmemeval", LONGMEMEVAL)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "revised.jsonl.xz"
    path.write_bytes(b"no xz")
    with pytest.raises(ImportFormatError, match="not a whole xz file"):
        overlaid(path, "longmemeval", LONGMEMEVAL)
    with pytest.raises(ImportFormatError, match="Expecting value"):
        overlaid(path, "locomo", LOCOMO)
    with pytest.raises(InvalidInputError, match="no overlays of 'own'"):
        overlaid(path, "own", LOCOMO)
