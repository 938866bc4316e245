"""Processes that write to a store until they are killed: the library, builds with entries, and commands."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from attack_ledger import USER, Operation, text_of

from backread import Memory
from backread.importers import read_jsonl
from backread.testing.fakes import HashEmbedder

__all__ = ["FORKED", "commands", "messages_of", "operations", "quiet"]

Step = tuple[str, int]
_PLANS: Final[dict[str, tuple[Step, ...]]] = {
    # (what, how many turns, or the place in the plan whose turns it is about)
    "library": (
        ("add", 1),
        ("add", 32),
        ("add", 1),
        ("index", 0),
        ("import", 24),
        ("erase", 0),
        ("add", 6),
        ("erase_session", 1),
        ("index", 0),
    ),
    "builds": (
        ("add", 6),
        ("add", 6),
        ("leanmem", 0),
        ("lightmem", 0),
        ("t2mem", 0),
        ("erase", 0),
        ("lightmem", 0),
        ("erase_session", 1),
        ("leanmem", 0),
    ),
    "cli": (("add", 1), ("import", 12), ("t2mem", 0), ("erase", 0), ("add", 1), ("lightmem", 0), ("erase_session", 1)),
}


def operations(victim: str, run: int) -> Iterator[Operation]:
    """What a victim does in its life number `run`, without end; always the same."""
    plan = _PLANS[victim]
    for cycle in itertools.count():
        for place, (what, about) in enumerate(plan):
            name = f"{run}x{cycle}x{place if what in ('add', 'import') else about}"
            session = f"zs{name}sz"
            if what in ("add", "import"):
                words = tuple(f"zq{name}x{number}qz" for number in range(about))
                yield Operation("add", words, session, whole=what == "add", detail=what)
            elif what == "erase":
                yield Operation("erase", (f"zq{name}x0qz",), session)
            elif what == "erase_session":
                words = tuple(f"zq{name}x{number}qz" for number in range(plan[about][1]))
                yield Operation("erase_session", words, session)
            else:
                yield Operation("other", detail=what)


def messages_of(operation: Operation) -> list[dict[str, str]]:
    """The turns of an operation as messages, each with its word as id."""
    return [
        {"role": "user", "content": text_of(word), "id": word, "session_id": operation.session}
        for word in operation.words
    ]


def _written(folder: Path, operation: Operation) -> Path:
    file = folder / "import.jsonl"
    file.write_text("".join(f"{json.dumps(item)}\n" for item in messages_of(operation)), encoding="utf-8")
    return file


def _calls(path: Path) -> Callable[[Operation], None]:
    """Operations as calls of the library."""
    memory = Memory.open(path, embedder=HashEmbedder(32))

    def do(operation: Operation) -> None:
        if operation.kind == "erase":
            memory.delete(user_id=USER, turn_id=operation.words[0])
        elif operation.kind == "erase_session":
            memory.delete(user_id=USER, session_id=operation.session)
        elif operation.detail == "import":
            for session in read_jsonl(_written(path.parent, operation), user_id=USER).sessions:
                memory.add_turns(session.turns, user_id=USER)
        elif operation.kind == "add":
            messages = [{key: item[key] for key in ("role", "content", "id")} for item in messages_of(operation)]
            memory.add(messages, user_id=USER, session_id=operation.session)
        elif operation.detail == "index":
            memory.index(user_id=USER)
        else:
            memory.build(user_id=USER, strategy=operation.detail, flush=True, maintain=True)

    return do


def _commands(path: Path) -> Callable[[Operation], None]:
    """Operations as commands, each as `backread` runs it, without the start of Python."""
    return lambda operation: _command(commands(path, operation))


def commands(path: Path, operation: Operation) -> list[str]:
    """The arguments of `backread` for an operation."""
    where = ["--path", str(path), "--user", USER]
    if operation.kind == "erase":
        return ["delete", *where, "--turn", operation.words[0], "--yes"]
    if operation.kind == "erase_session":
        return ["delete", *where, "--session", operation.session, "--yes"]
    if operation.detail == "import":
        return ["import", *where, str(_written(path.parent, operation))]
    if operation.kind == "add":
        word = operation.words[0]
        return ["add", *where, "--session", operation.session, "--id", word, text_of(word)]
    return ["build", *where, "--strategy", operation.detail, "--flush"]


def _command(arguments: list[str]) -> None:
    from backread.cli import main

    sys.argv = ["backread", *arguments]
    try:
        main()
    except SystemExit as done:
        if done.code:
            raise RuntimeError(f"backread {' '.join(arguments)[:200]} ended with {done.code}") from None


FORKED: Final = {"library": _calls, "builds": _calls, "cli": _commands}
"""What carries out the operations of a victim that is a fork of the attacker."""


def quiet(errors: int | None = None) -> None:
    """This process shows nothing from now on, but for stderr when a descriptor is given for it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number, stream in enumerate((nowhere, nowhere, nowhere if errors is None else errors)):
        os.dup2(stream, number)
    # The streams of Python remember what they were: a command that sets them up anew would seek in what can't be.
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, 1, encoding="utf-8", closefd=False) for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
