"""Several processes on one file: nobody fails, nothing is lost, and what one has stored the others see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from backread.store.base import TURNS
from backread.store.sqlite import SqliteStore
from backread.types import TurnDraft

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

BATCHES, SIZE, WRITERS = 60, 8, 4

HEAD = """
import sys
import numpy as np
from backread.store.base import TURNS, Progress
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.types import TurnDraft

def say(text):
    print(text, flush=True)

def wait():
    return sys.stdin.readline().strip()

path, name = sys.argv[1:]
say("ready")
wait()
"""

WRITER = (
    HEAD
    + f"""
store = SqliteStore(path)
for batch in range({BATCHES}):
    ids = [f"{{name}}-{{batch}}-{{n}}" for n in range({SIZE})]
    drafts = [TurnDraft(f"s{{name}}", "user", f"kettle {{i}} of writer{{name}}", external_id=i) for i in ids]
    user = "shared" if batch % 2 else f"own-{{name}}"
    assert all(item.new for item in store.append(user, drafts))
    found = store.docs_of_turns(user, ids)
    assert len(found) == {SIZE}
    reached = store.progress("shared", TURNS, "m")
    due = [unit.doc for unit in store.pending("shared", TURNS, "m", {SIZE})]
    if due:  # of several writers that try, one wins
        until = Progress(due[-1] + 1, 0)
        store.put_vectors("shared", TURNS, "m", reached, np.array(due), np.ones((len(due), 4), np.float32), until)
store.close()
say("done")
"""
)

READER = (
    HEAD
    + """
import os, select
store = SqliteStore(path)
rounds = last = 0
while not select.select([0], [], [], 0)[0]:
    corpus = History(store, "shared").corpus()
    scores = corpus.top_text({"kettl": 1.0, "0": 1.0}, 10)
    assert corpus.size >= last and corpus.size % 8 == 0, "a batch is seen in full or not at all"
    assert (scores > 0).sum() <= corpus.size
    assert len(corpus.unit_ids(range(min(10, corpus.size)))) == min(10, corpus.size)
    corpus.vector_scores("m", np.ones(4, np.float32))
    store.sessions("shared")
    last = corpus.size
    rounds += 1
say(f"done {rounds}")
"""
)

OPENER = (
    HEAD
    + """
store = SqliteStore(path)
store.append("ann", [TurnDraft("s", "user", f"hello from {name}")])
store.close()
say("done")
"""
)

SEARCHER = (
    HEAD
    + """
store = SqliteStore(path)
say("open")
while word := wait():
    (found,) = store.postings("ann", TURNS, [word])
    say(" ".join(turn.text for turn in store.turns_by_doc("ann", found.docs.tolist())))
"""
)

DELETER = (
    HEAD
    + """
store = SqliteStore(path)
for n in range(15):
    store.append(f"passing-{name}", [TurnDraft("s", "user", f"to delete {i} " * 50) for i in range(40)])
    assert store.delete(f"passing-{name}").turns == 40
say("done")
"""
)


class Process:
    """A script in another process, led line by line."""

    def __init__(self, script: str, path: Path, name: str) -> None:
        command = [sys.executable, "-c", script, str(path), name]
        self.run = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def hear(self) -> str:
        """Its next line; when it ended instead, its error fails the test."""
        assert self.run.stdout is not None
        assert self.run.stderr is not None
        line = self.run.stdout.readline()
        assert line, self.run.stderr.read()
        return line.strip()

    def tell(self, line: str = "") -> None:
        assert self.run.stdin is not None
        assert self.run.stderr is not None
        try:
            self.run.stdin.write(line + "\n")
            self.run.stdin.flush()
        except BrokenPipeError:
            pytest.fail(self.run.stderr.read())

    def end(self) -> None:
        """Kill it and close its pipes."""
        self.run.kill()
        self.run.wait()
        for pipe in (self.run.stdin, self.run.stdout, self.run.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


@contextmanager
def processes(path: Path, *scripts: str) -> Iterator[list[Process]]:
    """All of them started, with everything imported, and waiting for a line; killed at the end."""
    with ExitStack() as stack:
        started = []
        for number, script in enumerate(scripts):
            process = Process(script, path, str(number))
            stack.callback(process.end)
            started.append(process)
        for process in started:
            assert process.hear() == "ready"
        yield started


def go(*started: Process) -> None:
    for process in started:
        process.tell()


@pytest.mark.slow
def test_four_writers_and_a_reader_lose_nothing(tmp_path: Path) -> None:  # CON-01
    path = tmp_path / "memory.db"
    SqliteStore(path).close()
    with processes(path, *[WRITER] * WRITERS, READER) as (*writers, reader):
        go(reader, *writers)
        assert [writer.hear() for writer in writers] == ["done"] * WRITERS
        reader.tell("stop")
        done, rounds = reader.hear().split()
        assert done == "done"
        assert int(rounds) > 0
    with closing(SqliteStore(path)) as store:
        assert store.verify().ok
        assert store.stats().turns == WRITERS * BATCHES * SIZE
        wanted = {f"{w}-{b}-{n}" for w in range(WRITERS) for b in range(1, BATCHES, 2) for n in range(SIZE)}
        turns = store.turns_by_doc("shared", store.layout("shared").docs.tolist())
        assert {turn.external_id for turn in turns} == wanted
        for writer in range(WRITERS):  # each session holds its writer's turns in the order they were appended
            own = [turn.external_id for turn in turns if turn.session_id == f"s{writer}"]
            assert own == [f"{writer}-{b}-{n}" for b in range(1, BATCHES, 2) for n in range(SIZE)]


def test_eight_processes_make_the_same_new_store(tmp_path: Path) -> None:
    for attempt in range(2):
        path = tmp_path / f"folder-{attempt}" / "memory.db"
        with processes(path, *[OPENER] * 8) as openers:
            go(*openers)
            assert [opener.hear() for opener in openers] == ["done"] * 8
        with closing(SqliteStore(path)) as store:
            texts = {turn.text for turn in store.turns_by_doc("ann", store.layout("ann").docs.tolist())}
            assert texts == {f"hello from {number}" for number in range(8)}
            assert store.verify().ok


def test_another_process_sees_what_was_added_and_deleted_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(SqliteStore(path)) as store, processes(path, SEARCHER) as (searcher,):
        go(searcher)
        assert searcher.hear() == "open"
        for number in range(20):
            (item,) = store.append("ann", [TurnDraft("s", "user", f"word{number} was said")])
            searcher.tell(f"word{number}")
            assert searcher.hear() == f"word{number} was said"
            if number % 5 == 0:
                store.delete("ann", turn_ids=[item.turn_id or ""])
                searcher.tell(f"word{number}")
                assert searcher.hear() == ""
        searcher.tell()


@pytest.mark.slow
def test_deleting_in_one_process_disturbs_no_reader_in_another(tmp_path: Path) -> None:
    """A delete writes the file anew and cuts it, while others have it mapped into their memory."""
    path = tmp_path / "memory.db"
    with closing(SqliteStore(path)) as store:
        for _ in range(10):
            store.append("shared", [TurnDraft("s", "user", f"kettle {n} " * 20) for n in range(8)])
        with processes(path, DELETER, DELETER, READER) as (one, two, reader):
            go(reader, one, two)
            (found,) = store.postings("shared", TURNS, ["kettl"])
            assert len(found.docs) == 80
            assert one.hear() == "done"
            assert two.hear() == "done"
            reader.tell("stop")
            assert reader.hear().startswith("done")
        assert store.stats().turns == 80
        assert store.verify().ok
