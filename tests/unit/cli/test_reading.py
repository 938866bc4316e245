from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from backread import Memory

Run = Callable[..., Result]
Data = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("filled")


def test_users(run: Run, data: Data) -> None:
    assert data("users") == [
        {"user_id": "ann", "sessions": 2, "turns": 3},
        {"user_id": "bob", "sessions": 1, "turns": 1},
    ]
    assert [line.split() for line in run("users").stdout.split("\n")[1:3]] == [["ann", "2", "3"], ["bob", "1", "1"]]


def test_sessions(run: Run, data: Data) -> None:
    assert [session["session_id"] for session in data("sessions", "--user", "ann")] == ["garden", "boiler"]
    lines = run("sessions", "--user", "ann").stdout.split("\n")
    assert lines[1].split() == ["garden", "2", "2025-03-01", "10:00", "2025-03-01", "10:01"]
    assert "has no turns" in run("sessions", "--user", "zoe").stderr
    assert data("sessions", "--user", "zoe") == []


def test_show_a_turn_and_those_around_it(run: Run, data: Data) -> None:
    ids = [turn["turn_id"] for turn in data("show", "--user", "ann", "--session", "garden")]
    assert isinstance(data("show", "--user", "ann", ids[0]), dict)
    around = data("show", "--user", "ann", ids[1], "--context", "5")
    assert [turn["turn_id"] for turn in around] == ids
    told = run("show", "--user", "ann", ids[1], "-C", "1").stdout
    assert told.startswith("   2025-03-01 10:00  Ann  garden")
    assert "\n→  2025-03-01 10:01  Tom  garden" in told
    assert "    I shall water the roses on Monday.\n" in told


def test_show_needs_one_of_turn_and_session(run: Run) -> None:
    run("show", "--user", "ann", code=2)
    run("show", "--user", "ann", "t", "--session", "garden", code=2)
    run("show", "--user", "ann", "--session", "garden", "--raw", code=2)


def test_what_is_not_there_looks_like_what_is_anothers(run: Run, data: Data) -> None:
    (own,) = data("show", "--user", "bob", "--session", "b")
    missing = run("show", "--user", "ann", "t0000000000000000", code=3).stderr
    others = run("show", "--user", "ann", own["turn_id"], code=3).stderr
    assert missing.replace("t0000000000000000", own["turn_id"]) == others
    run("show", "--user", "ann", "--session", "b", code=3)


def test_export_comes_back_by_import(run: Run, data: Data, tmp_path: Path) -> None:
    run("add", "--user", "ann", stdin="line\u2028end \ud800 é".encode("utf-8", "surrogatepass"))
    lines = run("export", "--user", "ann").stdout_bytes.split(b"\n")[:-1]
    messages = [json.loads(line) for line in lines]
    assert messages == data("export", "--user", "ann")
    assert b"\\u2028" in lines[-1]
    file = tmp_path / "ann.jsonl"
    result = run("export", "--user", "ann", "-o", str(file))
    assert result.stdout == ""
    assert "wrote 4 turns" in result.stderr
    assert file.read_bytes() == b"".join(line + b"\n" for line in lines)
    assert file.stat().st_mode & 0o777 == 0o600
    assert data("export", "--user", "ann", "-o", str(file))["turns"] == 4
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".ann")) == []
    again = data("import", str(file))
    assert (again["stored"], again["known"]) == (0, 4)


def test_export_to_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    told = run("export", "--user", "ann", "-o", str(tmp_path / "no" / "file"), code=2).stderr
    assert "can't be written" in told


def test_delete_a_turn_then_it_is_gone(run: Run, data: Data) -> None:
    turn_id = data("show", "--user", "ann", "--session", "boiler")[0]["turn_id"]
    assert run("delete", "--user", "ann", "--turn", turn_id, "--yes").stdout.startswith("deleted 1 turn, 1 session")
    run("delete", "--user", "ann", "--turn", turn_id, "--yes", code=3)
    assert data("search", "--user", "ann", "boiler")["items"] == []


def test_delete_a_session_and_a_user(run: Run, data: Data) -> None:
    assert data("delete", "--user", "ann", "--session", "garden", "--yes")["turns"] == 2
    assert data("delete", "--user", "ann", "--yes")["turns"] == 1
    run("delete", "--user", "ann", "--yes", code=3)
    run("delete", "--user", "bob", "--session", "nope", "--yes", code=3)
    assert [user["user_id"] for user in data("users")] == ["bob"]


def test_scrub(run: Run, data: Data, filled: Path) -> None:
    assert data("scrub") == {"path": str(filled), "scrubbed": True}
    assert run("scrub").stdout == f"nothing that was deleted is left in {filled}\n"


def test_a_scrub_that_is_due_is_told_of_and_done(run: Run, data: Data, filled: Path) -> None:
    with Memory.open(filled, embedder=None) as memory:
        turn = next(iter(memory.turns(user_id="ann")))
        assert memory.delete(user_id="ann", turn_id=turn.turn_id, scrub=False).pending_scrub
    told = run("verify")
    assert "no fault" in told.stdout
    assert "run `backread scrub`" in told.stderr
    assert len(data("verify")["notices"]) == 1
    run("scrub")
    assert data("verify")["notices"] == []


def test_a_reader_keeps_a_delete_pending_and_scrub_from_ending(run: Run, data: Data, filled: Path) -> None:
    with closing(sqlite3.connect(filled, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchone()
        told = run("delete", "--user", "ann", "--session", "garden", "--yes")
        assert told.stdout.startswith("deleted 2 turns")
        assert "backread scrub" in told.stderr
        assert "stays due" in run("scrub", code=4).stderr
        reader.execute("ROLLBACK")
    assert data("verify")["notices"] == []  # opening finished it
    assert b"spare key" not in filled.read_bytes()


@pytest.mark.parametrize(
    "args", [("--user", ""), ("--user", " "), ("--user", "ann", "--session", ""), ("--user", "ann", "--turn", "")]
)
def test_an_empty_value_is_never_everything(run: Run, data: Data, args: tuple[str, ...]) -> None:
    assert "is empty" in run("delete", *args, "--yes", code=2).stderr
    assert data("stats")["turns"] == 4


def test_a_turn_of_another_session_is_not_deleted(run: Run, data: Data) -> None:
    turn_id = data("show", "--user", "ann", "--session", "boiler")[0]["turn_id"]
    run("delete", "--user", "ann", "--session", "garden", "--turn", turn_id, "--yes", code=3)


def test_where_nobody_can_be_asked_yes_is_needed(run: Run, data: Data) -> None:
    told = run("delete", "--user", "ann", code=2, stdin="y\n").stderr
    assert "everything of user 'ann': 3 turns in 2 sessions" in told
    assert "--yes" in told
    assert data("stats")["turns"] == 4


@pytest.mark.parametrize(("said", "left"), [("y\n", 1), ("n\n", 4)])
def test_on_a_terminal_it_asks_with_the_counts(
    run: Run, data: Data, monkeypatch: pytest.MonkeyPatch, said: str, left: int
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("backread.cli.deleting.is_terminal", lambda: True)
        result = run("delete", "--user", "ann", stdin=said)
    assert "Delete everything of user 'ann': 3 turns in 2 sessions?" in result.stderr
    assert data("stats")["turns"] == left


def test_stats(run: Run, data: Data, filled: Path) -> None:
    found = data("stats")
    assert (found["users"], found["sessions"], found["turns"], found["pending"]) == (2, 3, 4, 0)
    assert found["path"] == str(filled)
    assert data("stats", "--user", "bob")["turns"] == 1
    assert "turns     4" in run("stats").stdout


def test_verify_finds_nothing_wrong(run: Run, data: Data) -> None:
    assert "no fault" in run("verify").stdout
    report = data("verify", "--user", "ann")
    assert (report["ok"], report["faults"], report["checked"]["turns"]) == (True, [], 3)


def test_verify_names_faults_and_ends_with_6(run: Run, data: Data, filled: Path) -> None:
    with sqlite3.connect(filled) as db:
        db.execute("UPDATE turns SET text = ? WHERE rowid = 1", (b"The spare key is gone.",))
    db.close()
    report = data("verify", code=6)
    assert report["ok"] is False
    told = run("verify", code=6).stdout
    assert "checksum" in told
    assert report["faults"][0]["detail"] in told


def test_reindex(run: Run, data: Data) -> None:
    assert run("reindex", code=5).stderr.startswith("error: ")
    assert "the text index was derived again" in run("reindex", "--text").stdout
    found = data("reindex", "--text")
    assert found == {"embedded": 0, "pending": 0, "text": True, "embedder": None, "previous": None}
    assert data("search", "--user", "ann", "boiler")["items"]
