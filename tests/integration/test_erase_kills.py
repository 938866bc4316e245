"""An erase that is killed, or meets a full disk, at any moment: what it committed is finished by the next open.

Each case forks a process that deletes one turn and dies at a chosen moment; then every byte of every file is looked at.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from backread.store.base import TURNS, Progress
from backread.store.sqlite import SqliteStore
from backread.types import EntryDraft, Source, TurnDraft

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

WORDS = {
    "text": b"zebra-7731 is the code",
    "speaker": b"Quillon Vex",
    "session": b"session-of-quillon",
    "external id": b"vex@example.org/41",
    "entry": b"Quillon keeps papers",
    "entry data": b"wall-behind-the-mirror",
    "shown": b"a note by somebody who saw it",
    "reply": b"the model said: 7731-zebra",
    "vector": np.linspace(-0.7, 0.9, 8, dtype="<f4").tobytes(),
}
TEMPORARY = [Path("/var/tmp"), Path("/tmp"), Path("/usr/tmp")]


def fill(path: Path) -> str:
    """A store with one turn to be erased among others; its id."""
    with closing(SqliteStore(path)) as store:
        store.append("ann", [TurnDraft(f"s{n % 9}", "user", f"before {n} " * 9) for n in range(150)])
        secret = TurnDraft(
            WORDS["session"].decode(), "user", WORDS["text"].decode(), WORDS["speaker"].decode(), "vex@example.org/41"
        )
        (item,) = store.append("ann", [secret])
        (other, *_) = store.append("ann", [TurnDraft("s", "user", f"after {n} " * 9) for n in range(150)])
        turn_id = item.turn_id or ""
        docs = np.sort(store.layout("ann").docs)
        matrix = np.ones((len(docs), 8), np.float32)
        matrix[150] = np.frombuffer(WORDS["vector"], "<f4")
        assert store.put_vectors("ann", TURNS, "m", Progress(0, 0), docs, matrix, Progress(int(docs[-1]) + 1, 0))
        session = WORDS["session"].decode()
        state = {"sessions": {"built": {session: ["f", [f"page:{session}"]]}, "failed": {}}}
        data = {"place": WORDS["entry data"].decode()}
        entries = [
            EntryDraft("e1", "lean", "note", data, WORDS["entry"].decode(), (Source(turn_id),)),
            EntryDraft(
                "e2", "lean", "note", {}, WORDS["shown"].decode(), (Source(other.turn_id or ""),), shown=(turn_id,)
            ),
        ]
        store.commit("ann", "lean", 0, entries, state=json.dumps(state).encode())
        store.replies.put("key", json.dumps(WORDS["reply"].decode()), user_id="ann", turn_ids=[turn_id])
        (folder := path.with_name(path.name + ".ann")).mkdir(mode=0o700)
        for name in ("1-abc.usearch", "1-abc.usearch.ff.part"):  # as a build leaves them
            (folder / name).write_bytes(WORDS["vector"])
    return turn_id


def left(path: Path) -> set[str]:
    """Which words are in any file of the store's folder."""
    content = b"".join(file.read_bytes() for file in sorted(path.parent.rglob("*")) if file.is_file())
    return {name for name, word in WORDS.items() if word in content}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("filled") / "memory.db"
    turn_id = fill(path)
    assert left(path) == set(WORDS)
    return path.parent, turn_id


class Ended(NamedTuple):
    """How the process ended: killed, or with what its delete told."""

    killed: bool
    told: str


def deleting(path: Path, turn_id: str, watch: Callable[[sqlite3.Connection], None]) -> Ended:
    """Delete in a forked process, whose connections are watched from when the store is open."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        told = "no end"
        try:
            store = SqliteStore(path)
            for connection in store._pool._idle:
                watch(connection)
            receipt = store.delete("ann", turn_ids=[turn_id])
            told = f"{receipt.turns} {receipt.pending_scrub}"
        except Exception as error:  # noqa: BLE001 -- told to the parent
            told = type(error).__name__
        finally:
            os.write(write, told.encode())
            os._exit(0)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    with open(read, "rb") as pipe:
        return Ended(os.WIFSIGNALED(status), pipe.read().decode())


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_statement(number: int, act: Callable[[], None]) -> Callable[[sqlite3.Connection], None]:
    """Acts when the statement of that number begins."""

    def watch(connection: sqlite3.Connection) -> None:
        seen = 0

        def trace(_: str) -> None:
            nonlocal seen
            seen += 1
            if seen == number:
                act()

        connection.set_trace_callback(trace)

    return watch


def within(statement: str, seconds: float) -> Callable[[sqlite3.Connection], None]:
    """Dies so long after a statement of these words began."""

    def watch(connection: sqlite3.Connection) -> None:
        def later() -> None:
            time.sleep(seconds)
            die()

        def trace(sql: str) -> None:
            if statement in sql:
                threading.Thread(target=later, daemon=True).start()

        connection.set_trace_callback(trace)

    return watch


def settled(path: Path, turn_id: str) -> bool:
    """Open the store again and look at everything; whether the delete had been committed."""
    with closing(SqliteStore(path)) as store:
        report = store.verify()
        assert report.ok, report.faults
        erased = not store.docs_of_turns("ann", [turn_id])
        if erased:
            assert left(path) == set(), "finished by opening"
            assert report.notices == ()
        else:
            assert left(path) >= set(WORDS) - {"vector"}
        receipt = store.delete("ann", turn_ids=[turn_id])
        assert (receipt.turns, receipt.pending_scrub) == (int(not erased), False)
        assert left(path) == set()
        store.scrub()
        assert len(store.layout("ann").docs) == 300
        assert store.verify().ok
    assert left(path) == set()
    return erased


def temporary() -> set[Path]:
    return {file for folder in TEMPORARY if folder.exists() for file in folder.glob("etilqs_*")}


def run(filled: tuple[Path, str], folder: Path, watch: Callable[[sqlite3.Connection], None]) -> tuple[Ended, bool]:
    """One case on a copy of the store; how the process ended, and whether the delete was committed."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(filled[0], folder)
    ended = deleting(folder / "memory.db", filled[1], watch)
    return ended, settled(folder / "memory.db", filled[1])


def test_killed_at_every_statement(filled: tuple[Path, str], tmp_path: Path) -> None:
    before = temporary()
    committed: list[bool] = []
    number = 0
    while number < 1000:
        number += 1 if any(committed) else 3  # every one of those after the commit
        ended, erased = run(filled, tmp_path / "copy", at_statement(number, die))
        if not ended.killed:
            assert ended.told == "1 False"
            break
        committed.append(erased)
    assert 10 < len(committed) < number < 1000
    assert committed == sorted(committed)  # from some statement on it is done
    assert committed.count(True) >= 6  # the file written anew, the log emptied, the mark taken away
    assert temporary() == before


@pytest.mark.parametrize("statement", ["VACUUM", "wal_checkpoint", "COMMIT"])
def test_killed_inside_a_statement(filled: tuple[Path, str], tmp_path: Path, statement: str) -> None:
    before = temporary()
    killed = 0
    for step in range(12):
        ended, _ = run(filled, tmp_path / "copy", within(statement, step * 0.0008))
        killed += ended.killed
    assert killed >= 3
    assert temporary() == before


def test_a_disk_that_is_full_at_every_statement(filled: tuple[Path, str], tmp_path: Path) -> None:
    """No file may grow any more: before the commit nothing is deleted, after it the receipt says what is due."""
    assert sys.platform != "win32"
    told: list[str] = []

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    for number in range(1, 1000, 3):
        path = tmp_path / "copy" / "memory.db"
        ended, erased = run(filled, path.parent, at_statement(number, full))
        assert not ended.killed
        assert erased == ended.told.startswith("1 ")
        told.append(ended.told)
        if ended.told == "1 False":
            break
    assert {"StoreError", "1 True", "1 False"} >= set(told)
    assert told[0] == "StoreError"
    assert "1 True" in told
    assert told[-1] == "1 False"


def test_what_could_not_be_finished_is_named_until_it_is(filled: tuple[Path, str], tmp_path: Path) -> None:
    """As long as the disk is full, opening goes on without finishing, and `verify` says so."""
    shutil.copytree(filled[0], tmp_path / "copy")
    path = tmp_path / "copy" / "memory.db"

    def kill_at_rewrite(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(lambda sql: die() if sql == "VACUUM" else None)

    assert deleting(path, filled[1], kill_at_rewrite).killed
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size // 2, resource.RLIM_INFINITY))
            store = SqliteStore(path)
            os.write(write, "\n".join([str(store.verify().ok), *store.verify().notices]).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with open(read, encoding="utf-8") as pipe:
        ok, *notices = pipe.read().split("\n")
    assert ok == "True"
    assert [("scrub is due" in notice, "backread scrub" in notice) for notice in notices] == [(True, True)]
    assert left(path) != set()
    assert settled(path, filled[1])
