from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from backread import Memory
from backread.cli import loading
from backread.importers import importer
from backread.testing.fakes import HashEmbedder

Run = Callable[..., Result]
Data = Callable[..., Any]

GOLDEN = Path(__file__).parents[2] / "golden" / "importers"


def chats(path: Path, sessions: int, turns: int = 3) -> Path:
    lines = [
        {"session_id": f"s{session}", "user_id": f"u{session % 2}", "id": f"{session}-{turn}", "role": "user"}
        | {"content": f"turn {turn} of session {session}"}
        for session in sorted(range(sessions), key=lambda number: number % 2)
        for turn in range(turns)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_import_twice_stores_nothing_new(run: Run, data: Data, tmp_path: Path) -> None:
    file = chats(tmp_path / "c.jsonl", 4)
    report = data("import", str(file))
    assert (report["stored"], report["known"], report["sessions"], report["users"]) == (12, 0, 4, 2)
    assert report["finished"] is True
    again = data("import", str(file))
    assert (again["stored"], again["known"]) == (0, 12)
    told = run("import", str(file)).stdout
    assert "stored    0" in told
    assert "known     12" in told


@pytest.mark.parametrize("name", ["locomo", "longmemeval"])
def test_gold_of_benchmarks_is_counted_and_not_stored(run: Run, data: Data, name: str) -> None:
    report = data("import", str(GOLDEN / f"{name}.json"), "--format", name)
    assert report["format"] == name
    assert report["stored"] == report["turns"] > 0
    assert report["questions"] > 0
    stats = data("stats")
    assert (stats["turns"], stats["sessions"], stats["entries"]) == (report["turns"], report["sessions"], 0)
    told = run("import", str(GOLDEN / f"{name}.json"), "-f", name).stdout
    assert "questions" in told
    for kind, number in report["kinds"].items():
        assert f"{kind}: {number}" in told


def test_irregularities_are_listed_with_examples(run: Run, data: Data, tmp_path: Path) -> None:
    file = chats(tmp_path / "c.jsonl", 1)
    with file.open("a", encoding="utf-8") as more:
        more.write("nope\n" * 5)
    told = run("import", str(file)).stdout
    assert "bad_json: 5" in told
    assert "  line 4: " in told
    assert "… and 2 more" in told
    assert data("import", str(file))["kinds"] == {"bad_json": 5}


def test_rejected_turns_are_named(run: Run, data: Data, tmp_path: Path) -> None:
    file = chats(tmp_path / "c.jsonl", 2)
    run("import", str(file))
    file.write_text(file.read_text(encoding="utf-8").replace("turn 1 of session 0", "another"), encoding="utf-8")
    report = data("import", str(file))
    assert (report["stored"], report["known"]) == (0, 5)
    (rejected,) = report["rejected"]
    assert (rejected["user_id"], rejected["session_id"], rejected["external_id"]) == ("u0", "s0", "0-1")
    assert "rejected: u0, s0, 0-1: " in run("import", str(file)).stderr


def test_when_every_turn_is_rejected_it_ends_with_2(run: Run, data: Data, tmp_path: Path) -> None:
    file = chats(tmp_path / "c.jsonl", 2)
    run("import", str(file))
    file.write_text(file.read_text(encoding="utf-8").replace("turn", "word"), encoding="utf-8")
    report = data("import", str(file), code=2)
    assert (report["stored"], report["known"], len(report["rejected"])) == (0, 0, 6)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("nowhere.jsonl",), "can't be read"),
        (("chat.txt",), "--format"),
        (("c.jsonl", "--zone", "Mars/Base"), "Mars/Base"),
        (("c.jsonl", "--format", "nope"), "nope"),
    ],
)
def test_what_cannot_be_imported(run: Run, store: Path, args: tuple[str, ...], told: str) -> None:
    assert told in run("import", *args, code=2).stderr
    assert not store.exists()


def test_a_zone_is_for_times_without_one(run: Run, data: Data, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text('{"role": "user", "content": "x", "timestamp": "2025-07-01T12:00:00"}\n', encoding="utf-8")
    run("import", str(file), "--user", "ann", "--zone", "Europe/Paris")
    started = datetime.fromisoformat(data("sessions", "--user", "ann")[0]["started_at"])
    assert started == datetime(2025, 7, 1, 10, tzinfo=UTC)


def test_sessions_of_a_user_share_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int]] = []
    original = Memory.add_turns

    def counting(self: Memory, drafts: Any, *, user_id: str) -> Any:
        calls.append((user_id, len(drafts)))
        return original(self, drafts, user_id=user_id)

    monkeypatch.setattr(Memory, "add_turns", counting)
    monkeypatch.setattr(loading, "BATCH_TURNS", 6)
    imported = importer("jsonl")(chats(tmp_path / "c.jsonl", 10))
    with Memory.open(tmp_path / "m.db", embedder=HashEmbedder(16)) as memory:
        loaded = loading.load(memory, imported)
    assert calls == [("u0", 6), ("u0", 6), ("u0", 3), ("u1", 6), ("u1", 6), ("u1", 3)]
    assert (loaded.stored, loaded.sessions, loaded.finished) == (30, 10, True)


class Interrupted(HashEmbedder):
    """Stands for Ctrl-C while it embeds."""

    def embed(self, *args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt


def test_vectors_may_be_stopped_and_go_on_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported = importer("jsonl")(chats(tmp_path / "c.jsonl", 4))
    with Memory.open(tmp_path / "m.db", embedder=Interrupted(16)) as memory:
        loading.load(memory, imported)
        stopped = loading.embed(memory, memory.users())
    assert (stopped.pending, stopped.interrupted) == (12, True)
    assert "vectors resume with `backread reindex`" in capsys.readouterr().err
    with Memory.open(tmp_path / "m.db", embedder=HashEmbedder(16)) as memory:
        assert loading.embed(memory, memory.users()) == loading.Embedded(0)
        assert memory.pending() == 0


def test_an_import_that_is_stopped_says_how_far_it_came_and_can_be_finished(
    run: Run, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = chats(tmp_path / "c.jsonl", 4)
    original = loading._batches

    def stopping(sessions: Any) -> Iterator[Any]:
        yield next(original(sessions))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loading, "_batches", stopping)
        result = run("import", str(file), code=130)
    assert "stopped after 2 of 4 sessions" in result.stderr
    assert data("import", str(file))["stored"] == 6


def test_no_vectors_is_said_with_the_command_that_makes_them(run: Run, store: Path, tmp_path: Path) -> None:
    file = chats(tmp_path / "c.jsonl", 1)
    assert f"`backread reindex --path {store}`" in run("import", str(file), "--no-vectors").stdout
    assert "no embedder is set" in run("import", str(file)).stdout


def lines_of(path: Path, *users: str | None) -> Path:
    lines = [
        {"session_id": f"s{number}", "id": f"m{number}", "role": "user", "content": f"kettle {number}"}
        | ({} if user is None else {"user_id": user})
        for number, user in enumerate(users)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("users", [("bob",), ("bob", "bob"), (None, "bob"), ("bob", "ann"), ("ann",), (None, None)])
def test_a_file_of_one_user_goes_to_whoever_is_named(
    run: Run, data: Data, tmp_path: Path, users: tuple[str | None, ...]
) -> None:
    done = run("import", str(lines_of(tmp_path / "c.jsonl", *users)), "--user", "ann", "--json")
    report = json.loads(done.stdout)
    assert (report["users"], report["stored"]) == (1, len(users))
    assert data("users") == [{"user_id": "ann", "sessions": len(users), "turns": len(users)}]
    assert ("the file says 'bob'; imported as 'ann'" in done.stderr) == ("bob" in users)
    again = data("import", str(tmp_path / "c.jsonl"), "--user", "ann")
    assert (again["stored"], again["known"]) == (0, len(users))


def test_several_users_do_not_become_one(run: Run, tmp_path: Path) -> None:
    file = lines_of(tmp_path / "c.jsonl", "bob", "cy", None)
    done = run("import", str(file), "--user", "ann", code=2)
    assert "names 2 users ('bob', 'cy')" in done.stderr
    assert "nothing was stored" in done.stderr
    run("users", code=3)


@pytest.mark.parametrize("name", ["locomo", "longmemeval"])
def test_benchmarks_are_told_by_what_they_hold(data: Data, tmp_path: Path, name: str) -> None:
    file = tmp_path / "renamed.json"
    file.write_bytes((GOLDEN / f"{name}.json").read_bytes())
    assert data("import", str(file))["format"] == name


def test_what_looks_like_nothing_needs_a_format(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('[{"role": "user", "content": "hi"}]', encoding="utf-8")
    assert "--format jsonl|locomo|longmemeval" in run("import", str(file), code=2).stderr
    assert "can't be read" in run("import", str(tmp_path / "none.json"), code=2).stderr
