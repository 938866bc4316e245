from __future__ import annotations

import hashlib
import json
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.errors import ImportFormatError
from backread.importers import Imported, read_jsonl
from backread.types import TurnDraft

GOLDEN = Path(__file__).parents[2] / "golden" / "importers" / "messages.jsonl"


@pytest.fixture(name="read")
def _read() -> Imported:
    return read_jsonl(GOLDEN, user_id="ann")


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def exported(user_id: str, draft: TurnDraft) -> dict[str, Any]:
    """A line as backread's own export writes it."""
    said = draft.said_at
    if said is not None and not draft.offset_known:
        said = said.replace(tzinfo=None)
    line = {
        "user_id": user_id,
        "session_id": draft.session_id,
        "turn_id": "t",
        "id": draft.external_id,
        "role": draft.role,
        "name": draft.speaker,
        "content": draft.text,
        "caption": draft.caption,
        "attachments": list(draft.attachments) or None,
        "timestamp": said.isoformat() if said else None,
        "said_text": draft.said_text,
        "supersedes": draft.supersedes,
        "stored_at": "2026-01-01T00:00:00+00:00",
    }
    return {key: value for key, value in line.items() if value is not None or (key == "said_text" and said)}


def test_messages_of_a_session_belong_together(read: Imported) -> None:
    assert [(item.user_id, item.session_id, [turn.text for turn in item.turns]) for item in read.sessions] == [
        ("ann", "s1", ["  Hello,\n\tthere \u2028 ", "Hi.", "look\nat this"]),
        ("ann", "s2", [""]),
        ("ann", "messages:12", ["Who am I?"]),
        ("bob", "c1", ["Early", "Late"]),
    ]


def test_the_first_message(read: Imported) -> None:
    assert next(iter(read.sessions)).turns[0] == TurnDraft(
        session_id="s1",
        role="user",
        text="  Hello,\n\tthere \u2028 ",
        speaker="Ann",
        external_id="m1",
        said_at=datetime(2024, 5, 1, 7, tzinfo=UTC),
        said_text="May 1st, nine",
    )


def test_a_session_starts_with_its_earliest_known_time(read: Imported) -> None:
    started = {item.session_id: item.started_at.at if item.started_at else None for item in read.sessions}
    assert started == {
        "s1": datetime(2024, 5, 1, 7, tzinfo=UTC),
        "s2": None,
        "messages:12": None,
        "c1": datetime(2024, 5, 1, 10, tzinfo=UTC),
    }


def test_the_time_of_a_conversation_is_for_messages_without_one(read: Imported) -> None:
    times = [turn.said_at for item in read.sessions if item.session_id == "c1" for turn in item.turns]
    assert times == [datetime(2024, 5, 1, 10, tzinfo=UTC), datetime(2024, 5, 2, 10, tzinfo=UTC)]


def test_lines_that_cannot_be_read_are_reported_by_number(read: Imported) -> None:
    assert [(item.where, item.kind) for item in read.report.irregularities] == [
        ("line 6", "blank"),
        ("line 7", "bad_message"),
        ("line 8", "bad_line"),
        ("line 9", "bad_line"),
        ("line 10", "bad_json"),
        ("line 11", "ignored_keys"),
        ("line 11, message 3", "blank"),
        ("line 11, message 4", "bad_message"),
        ("line 14", "bad_line"),
        ("line 15", "bad_line"),
        ("line 16", "truncated"),
    ]


def test_the_counts(read: Imported) -> None:
    report = read.report
    assert (report.format, report.users, report.sessions, report.turns, report.questions) == ("jsonl", 2, 4, 7, 0)
    assert (report.skipped_blank, report.skipped_sessions) == (2, 1)
    assert report.sha256 == hashlib.sha256(GOLDEN.read_bytes()).hexdigest()
    assert read.questions == ()


def test_a_line_without_a_user_names_the_option(tmp_path: Path) -> None:
    path = write(tmp_path / "chat.jsonl", {"role": "user", "content": "x"})
    with pytest.raises(ImportFormatError, match="line 1 names no user") as caught:
        read_jsonl(path)
    assert "--user" in str(caught.value.hint)


def test_a_file_without_sessions_is_one_session(tmp_path: Path) -> None:
    path = write(tmp_path / "chat.jsonl", {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"})
    (session,) = read_jsonl(path, user_id="ann").sessions
    assert (session.session_id, len(session.turns)) == ("chat", 2)


def test_line_separators_inside_text_do_not_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    text = "one\u2028two\u2029three\x85four"
    data = json.dumps({"role": "user", "content": text}, ensure_ascii=False).encode()
    path.write_bytes(b"\xef\xbb\xbf" + data + b"\r\n\r\n")
    (session,) = read_jsonl(path, user_id="ann").sessions
    assert session.turns[0].text == text


def test_one_line_that_is_not_utf_8_costs_that_line_only(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(b'{"role": "user", "content": "\xff"}\n{"role": "user", "content": "x"}\n')
    read = read_jsonl(path, user_id="ann")
    assert [(item.where, item.kind) for item in read.report.irregularities] == [("line 1", "bad_json")]
    assert read.report.turns == 1


@pytest.mark.parametrize(
    "data", [b"hello\n", b"[" * 200_000 + b"\n", '{"role": "user"}'.encode("utf-16"), b'{"role": "x"}']
)
def test_a_file_with_nothing_to_read_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(data)
    with pytest.raises(ImportFormatError, match="line 1: "):
        read_jsonl(path, user_id="ann")


@pytest.mark.parametrize("data", [b"", b"\n \n", b'{"messages": []}\n'])
def test_a_file_without_messages_is_an_empty_import(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(data)
    read = read_jsonl(path, user_id="ann")
    assert list(read.sessions) == []
    assert read.report.turns == 0


@pytest.mark.parametrize(
    "line",
    [
        {"user_id": "", "role": "user", "content": "x"},
        {"user_id": ["ann"], "messages": [{"role": "user", "content": "x"}]},
        {"session_id": 5, "messages": [{"role": "user", "content": "x"}]},
    ],
)
def test_names_that_are_no_names_cost_their_line(line: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "chat.jsonl", line, {"session_id": "s", "role": "user", "content": "y"})
    read = read_jsonl(path, user_id="ann")
    assert [(item.where, item.kind) for item in read.report.irregularities] == [("line 1", "bad_line")]
    assert read.report.turns == 1


def test_a_users_own_name_stands_before_the_one_given(tmp_path: Path) -> None:
    path = write(
        tmp_path / "chat.jsonl",
        {"user_id": "bob", "session_id": "s", "role": "user", "content": "x"},
        {"session_id": "s", "role": "user", "content": "y"},
    )
    assert [item.user_id for item in read_jsonl(path, user_id="ann").sessions] == ["bob", "ann"]


ZONE = timezone(timedelta(hours=3))
EPOCH = datetime(1970, 1, 1, tzinfo=ZONE)
DRAFTS = st.builds(
    TurnDraft,
    session_id=st.sampled_from(["s1", "s2"]),
    role=st.sampled_from(["user", "assistant", "participant"]),
    text=st.text(st.characters(codec=None, exclude_categories=())).map(lambda text: text + "."),
    speaker=st.none() | st.text(min_size=1),
    external_id=st.none() | st.text(min_size=1),
    caption=st.none() | st.text(),
    attachments=st.sampled_from([(), ({"type": "tool_calls", "tool_calls": [{"id": "1"}]},)]),
    supersedes=st.none() | st.text(min_size=1),
) | st.builds(
    TurnDraft,
    session_id=st.just("s1"),
    role=st.just("user"),
    text=st.just("x"),
    said_at=st.integers(-(10**9), 10**10).map(lambda seconds: EPOCH + timedelta(seconds=seconds, microseconds=seconds)),
    said_text=st.none() | st.text(),
    offset_known=st.booleans(),
)


@given(drafts=st.lists(DRAFTS, max_size=6))
def test_what_backread_exports_comes_back_identical(
    tmp_path_factory: pytest.TempPathFactory, drafts: list[TurnDraft]
) -> None:
    path = write(tmp_path_factory.mktemp("export") / "export.jsonl", *(exported("ann", draft) for draft in drafts))
    read = read_jsonl(path, zone=ZONE)
    assert read.report.irregularities == ()
    back = [turn for session in read.sessions for turn in session.turns]
    assert back == sorted(drafts, key=lambda draft: [item.session_id for item in drafts].index(draft.session_id))


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("w") as file:
        for number in range(4000):
            line = {"user_id": "ann", "role": "user", "content": f"{number} " + "word " * 400, "id": f"m{number}"}
            file.write(json.dumps(line) + "\n")
    size = path.stat().st_size
    tracemalloc.start()
    try:
        read = read_jsonl(path)
        (session,) = read.sessions
        count = sum(len(draft.text) > 2000 for draft in session.turns)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (count, len(session.turns), session.turns[7].external_id) == (4000, 4000, "m7")
    assert [draft.external_id for draft in session.turns[1:3]] == ["m1", "m2"]
    assert peak < size / 4


def test_a_file_that_changes_between_two_readings_is_told(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"role": "user", "content": "Hi"}\n')
    read = read_jsonl(path, user_id="ann")
    assert session_texts(read) == ["Hi"]
    path.write_text('{"role": "user", "content": "Hello"}\n')
    with pytest.raises(ImportFormatError, match="changed"):
        session_texts(read)


def session_texts(read: Imported) -> list[str]:
    return [draft.text for session in read.sessions for draft in session.turns]
