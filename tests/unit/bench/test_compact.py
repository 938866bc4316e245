"""LongMemEval's compact form is read as the file it stands for."""

from __future__ import annotations

import hashlib
import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backread.bench.compact import Variant, read_compact
from backread.errors import ImportFormatError
from backread.importers.longmemeval import read_longmemeval

SESSIONS: dict[str, list[list[str] | None]] = {
    "answer_1": [["user", "I own a red kayak."], ["assistant", "Nice."]],
    "answer_2": [["user", "Hi again."], None, ["user", "I bought a second kayak."]],
    "answer_3": [["user", "Suggest a name for my boat"], ["assistant", "How about Petrel?"], ["user", "thanks"]],
    "sharegpt_1": [["user", "Tell me of Riga."], ["assistant", "Riga is a city."], ["assistant", " "]],
    "sharegpt_2": [["assistant", "[withheld]"]],
}
EVIDENCE: dict[str, list[tuple[str, str, list[int]]]] = {
    "q1": [("answer_2", "2023/05/09 (Tue) 14:10", [2]), ("answer_1", "2023/05/02 (Tue) 13:10", [0])],
    "q2_abs": [("answer_1", "2023/05/02 (Tue) 13:10", [])],
    "q3": [("answer_3", "2023/06/01 (Thu) 15:00", [1])],
}
TYPES = {"q1": "multi-session", "q2_abs": "multi-session", "q3": "single-session-assistant"}
ANSWERS = {"q1": 2, "q2_abs": "You did not mention a canoe.", "q3": "Petrel"}
REAL = {"q1": ["sharegpt_1", "answer_1", "answer_2", "sharegpt_1"]}
LIKE = {"q2_abs": ["answer_1", "sharegpt_2"], "q3": ["sharegpt_1", "answer_3"]}
REAL_DATE = "2023/06/09 (Fri) 10:00"
ASKED = "2023/06/08 (Thu) 10:00"


def dates(ids: list[str]) -> list[str]:
    return [f"2023/06/0{day} (Xxx) 09:00" for day in range(1, len(ids) + 1)]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def question(question_id: str) -> dict[str, Any]:
    evidence = EVIDENCE[question_id]
    return {
        "question_id": question_id,
        "question_type": TYPES[question_id],
        "question": f"What of {question_id}?",
        "answer": ANSWERS[question_id],
        "question_date": ASKED,
        "answer_session_ids": sorted(session for session, _, _ in evidence),
        "evidence": [
            {"session_id": session, "date": date, "has_answer_turns": turns} for session, date, turns in evidence
        ],
    }


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    write(tmp_path / "questions.jsonl.xz", [question(key) for key in EVIDENCE])
    rows: list[dict[str, Any]] = [{"session_id": key, "turns": turns} for key, turns in SESSIONS.items()]
    rows[-1]["withheld"] = True
    write(tmp_path / "sessions.jsonl.xz", rows)
    write(
        tmp_path / "haystacks_real.jsonl.xz",
        [
            {"question_id": key, "session_ids": ids, "dates": dates(ids), "question_date": REAL_DATE}
            for key, ids in REAL.items()
        ],
    )
    like = [{"question_id": key, "session_ids": ids, "dates": dates(ids)} for key, ids in LIKE.items()]
    write(tmp_path / "haystacks_like_7.jsonl.xz", like)
    return tmp_path


def expanded(variant: str) -> list[dict[str, Any]]:
    """The variant as a LongMemEval file, written by hand from the tables above."""
    items = []
    for key, evidence in EVIDENCE.items():
        labels = {session: turns for session, _, turns in evidence}
        ids, when, asked = REAL.get(key) or LIKE[key], dates(REAL.get(key) or LIKE[key]), ASKED
        if variant == "oracle":
            ids, when = [session for session, _, _ in evidence], [date for _, date, _ in evidence]
        elif key in REAL:
            asked = REAL_DATE
        elif variant == "s-real":
            continue
        haystack = [
            [
                {"role": "assistant", "content": ""}
                if turn is None
                else {"role": turn[0], "content": turn[1], "has_answer": number in labels.get(session, [])}
                for number, turn in enumerate(SESSIONS[session])
            ]
            for session in ids
        ]
        whole = question(key) | {"question_date": asked, "haystack_session_ids": ids, "haystack_dates": when}
        items.append(whole | {"haystack_sessions": haystack})
    return items


@pytest.mark.parametrize("variant", ["oracle", "s-real", "s-like"])
def test_it_is_read_as_the_file_it_stands_for(folder: Path, variant: Variant, tmp_path: Path) -> None:
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(expanded(variant)), encoding="utf-8")
    wanted, read = read_longmemeval(path), read_compact(folder, variant).imported
    assert list(read.sessions) == list(wanted.sessions)
    assert len(read.sessions) == len(wanted.sessions)
    assert read.questions == wanted.questions
    same = {"format": wanted.report.format, "sha256": wanted.report.sha256}
    assert replace(read.report, **same) == wanted.report  # type: ignore[arg-type]


def test_a_turn_that_is_not_there_keeps_its_number(folder: Path) -> None:
    read = read_compact(folder, "oracle").imported
    first = next(iter(read.sessions))
    assert [turn.external_id for turn in first.turns] == ["answer_2:0", "answer_2:2"]
    assert read.questions[0].gold_turns == ("answer_2:2", "answer_1:0")
    assert read.report.skipped_blank == 1


def test_variants_have_their_questions_and_dates(folder: Path) -> None:
    asked = {
        variant: {q.question_id: q.asked_at.day for q in read_compact(folder, variant).imported.questions if q.asked_at}
        for variant in ("oracle", "s-real", "s-like")
    }
    assert asked == {
        "oracle": {"q1": 8, "q2_abs": 8, "q3": 8},
        "s-real": {"q1": 9},
        "s-like": {"q1": 9, "q2_abs": 8, "q3": 8},
    }


def test_what_is_made_up_missing_or_withheld_is_said(folder: Path) -> None:
    like, real, oracle = (read_compact(folder, variant) for variant in ("s-like", "s-real", "oracle"))
    assert like.reconstructed == {"q2_abs", "q3"}
    assert not real.reconstructed | oracle.reconstructed
    assert like.gaps == real.gaps == oracle.gaps == {"q1"}
    assert like.withheld == {"q2_abs"}
    assert not oracle.withheld


def test_only_turns_of_the_roles_are_in_the_sessions(folder: Path) -> None:
    whole, read = read_compact(folder, "s-like"), read_compact(folder, "s-like", roles=["user"])
    kept = [
        replace(session, turns=turns)
        for session in whole.imported.sessions
        if (turns := tuple(turn for turn in session.turns if turn.role == "user"))
    ]
    assert list(read.imported.sessions) == kept
    assert len(read.imported.sessions) == len(kept) < len(whole.imported.sessions)
    assert read.imported.report == whole.imported.report
    assert read.imported.questions == whole.imported.questions


def test_sessions_of_some_users(folder: Path) -> None:
    sessions = read_compact(folder, "s-like").imported.sessions
    of = sessions.of(["q3"])  # type: ignore[attr-defined]
    assert list(of) == [session for session in sessions if session.user_id == "q3"]


def test_the_hash_is_of_the_files_that_were_read(folder: Path) -> None:
    names = ("questions.jsonl.xz", "sessions.jsonl.xz", "haystacks_real.jsonl.xz", "haystacks_like_7.jsonl.xz")
    hashes = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]
    for variant, used in (("oracle", hashes[:2]), ("s-real", hashes[:3]), ("s-like", hashes)):
        wanted = hashlib.sha256("\n".join(sorted(used)).encode()).hexdigest()
        assert read_compact(folder, variant).imported.report.sha256 == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        ("questions.jsonl.xz", [{"question_id": "q1"}], "line 1: evidence is missing or not a list"),
        ("questions.jsonl.xz", [question("q1"), question("q1")], "line 2: question_id 'q1' is there twice"),
        ("sessions.jsonl.xz", [{"session_id": "answer_1", "turns": [["user"]]}], r"a turn is \[role, text\] or null"),
        ("sessions.jsonl.xz", [{"session_id": "other", "turns": []}], "'sharegpt_1', which sessions.jsonl.xz doesn't"),
        ("haystacks_real.jsonl.xz", [{"question_id": "q1", "session_ids": [1]}], "session_ids is not a list of str"),
        ("haystacks_real.jsonl.xz", [{"question_id": "other"}], "no question of the variant 's-real'"),
    ],
)
def test_what_is_not_as_described_is_named(folder: Path, name: str, rows: list[dict[str, Any]], said: str) -> None:
    write(folder / name, rows)
    with pytest.raises(ImportFormatError, match=said):
        read_compact(folder, "s-real")


def test_files_that_are_not_there_or_not_whole(folder: Path) -> None:
    path = folder / "sessions.jsonl.xz"
    data = path.read_bytes()
    path.write_bytes(data[:-9])
    with pytest.raises(ImportFormatError, match="not a whole xz file"):
        read_compact(folder, "oracle")
    path.write_bytes(lzma.compress(b"[1]\n"))
    with pytest.raises(ImportFormatError, match="line 1: not an object"):
        read_compact(folder, "oracle")
    path.unlink()
    with pytest.raises(ImportFormatError, match="can't be read"):
        read_compact(folder, "oracle")
    path.write_bytes(data)
    (folder / "haystacks_like_8.jsonl.xz").write_bytes(data)
    with pytest.raises(ImportFormatError, match=r"one file .*haystacks_like_7.jsonl.xz, haystacks_like_8"):
        read_compact(folder, "s-like")
