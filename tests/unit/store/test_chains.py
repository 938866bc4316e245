"""Chains of corrections: which wording of each is current, and that no erasure or import breaks one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from memory_samples import opened
from store_samples import NOON, draft

from backread import Memory
from backread.cli.loading import load
from backread.importers.jsonl import read_jsonl
from backread.store.history import History, Scope
from backread.store.sqlite import SqliteStore
from backread.types import TurnDraft

MINUTE = timedelta(minutes=1)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        yield made


def say(memory: Memory, name: str, older: str | None = None, minute: int | None = None, session: str = "s1") -> None:
    at = None if minute is None else NOON + minute * MINUTE
    memory.add_turns([TurnDraft(session, "user", name, external_id=name, said_at=at, supersedes=older)], user_id="ann")


def chain(memory: Memory, names: str) -> None:
    """Each wording replaces the one before it."""
    for older, name in zip([None, *names], names, strict=False):
        say(memory, name, older)


def current(memory: Memory, user: str = "ann", minute: int | None = None) -> str:
    view = memory.history(user, as_of=None if minute is None else NOON + minute * MINUTE)
    return "".join(sorted(turn.text for turn in view.turns(Scope())))


def erase(memory: Memory, *names: str) -> None:
    for name in names:
        memory.delete(user_id="ann", turn_id=name, scrub=False)
    assert memory.verify().faults == ()


@pytest.mark.parametrize(
    ("erased", "left"),
    [("b", "d"), ("a", "d"), ("ab", "d"), ("cb", "d"), ("d", "c"), ("dc", "b"), ("bd", "c"), ("cd", "b")],
)
def test_the_newest_that_is_left_is_current(memory: Memory, erased: str, left: str) -> None:
    chain(memory, "abcd")
    assert current(memory) == "d"
    erase(memory, *erased)
    assert current(memory) == left


def test_a_session_is_erased_out_of_a_chain(memory: Memory) -> None:
    for older, name in zip([None, *"abcd"], "abcd", strict=False):
        say(memory, name, older, session="odd" if name in "ac" else "even")
    memory.delete(user_id="ann", session_id="odd")
    assert current(memory) == "d"
    assert memory.get("d", user_id="ann").supersedes == memory.get("b", user_id="ann").turn_id
    assert memory.get("b", user_id="ann").supersedes is None


def test_two_corrections_of_one_turn(memory: Memory) -> None:
    """The later one stands; without times, the one that arrived last."""
    say(memory, "a", minute=0)
    say(memory, "c", "a", minute=9)
    say(memory, "b", "a", minute=5)  # late
    assert current(memory) == "c"
    assert [current(memory, minute=at) for at in (0, 4, 5, 8, 9)] == list("aabbc")
    say(memory, "d", "b", minute=7)
    assert current(memory) == "c"
    erase(memory, "a")
    assert current(memory) == "c"
    erase(memory, "c")
    assert current(memory) == "d"
    for name, older in (("x", None), ("y", "x"), ("z", "x")):
        say(memory, name, older)
    assert current(memory) == "dz"
    erase(memory, "x")
    assert current(memory) == "dz"
    erase(memory, "z")
    assert current(memory) == "dy"


def test_a_correction_with_an_earlier_time_still_replaces(memory: Memory) -> None:
    say(memory, "a", minute=5)
    say(memory, "b", "a", minute=1)
    assert current(memory) == "b"
    assert current(memory, minute=3) == "b"
    erase(memory, "b")
    assert current(memory) == "a"


def test_what_comes_next_in_a_chain(memory: Memory) -> None:
    say(memory, "a", minute=0)
    say(memory, "c", "a", minute=9)
    say(memory, "b", "a", minute=5)
    newer = memory.history("ann").successors(["a", "b", "c"])
    assert {name: turn.text for name, turn in newer.items()} == {"a": "b", "b": "c"}
    then = memory.history("ann", as_of=NOON + 6 * MINUTE).successors(["a", "b", "c"])
    assert {name: turn.text for name, turn in then.items()} == {"a": "b"}


def import_lines(memory: Memory, lines: list[dict[str, object]], user: str, folder: Path) -> int:
    file = folder / "x.jsonl"
    file.write_text("".join(json.dumps({**line, "user_id": user}) + "\n" for line in lines))
    loaded = load(memory, read_jsonl(file))
    assert not loaded.rejected
    return loaded.stored


def test_a_chain_goes_to_another_user_and_back(memory: Memory, tmp_path: Path) -> None:
    memory.add({"role": "user", "content": "first"}, user_id="ann", session_id="s")  # it has no id of its own
    (first,) = memory.turns(user_id="ann")
    memory.add({"role": "user", "content": "second", "supersedes": first.turn_id}, user_id="ann", session_id="t")
    for giver, taker in (("ann", "bo"), ("bo", "eve"), ("eve", "ann")):
        import_lines(memory, list(memory.export(user_id=giver)), taker, tmp_path)
        assert current(memory, taker) == "second"
    assert memory.stats(user_id="ann").turns == 2


@pytest.mark.parametrize("erased", ["a", "b", "ab", "bc", "ac"])
def test_what_was_erased_comes_back_as_old_as_it_was(memory: Memory, tmp_path: Path, erased: str) -> None:
    chain(memory, "abcd")
    lines = list(memory.export(user_id="ann"))
    erase(memory, *erased)
    assert import_lines(memory, lines, "ann", tmp_path) == len(erased)
    assert current(memory) == "d"
    links = [memory.get(name, user_id="ann").supersedes for name in "abcd"]
    assert links == [None, *(memory.get(name, user_id="ann").turn_id for name in "abc")]
    assert memory.verify().faults == ()
    again = {line["id"]: line.get("supersedes") for line in memory.export(user_id="ann")}
    assert again == {"a": None, "b": "a", "c": "b", "d": "c"}
    order = [line["id"] for line in memory.export(user_id="ann")]
    assert order == sorted(order)  # what replaces comes after what it replaces, whenever it arrived
    assert import_lines(memory, list(memory.export(user_id="ann")), "bo", tmp_path) == 4
    assert current(memory, "bo") == "d"


def test_a_link_to_a_later_session_of_the_file(memory: Memory, tmp_path: Path) -> None:
    for name, older, session in (("a", None, "s1"), ("b", "a", "s2"), ("c", "b", "s1"), ("e", None, "s1")):
        say(memory, name, older, session=session)
    assert import_lines(memory, list(memory.export(user_id="ann")), "bo", tmp_path) == 4
    assert current(memory, "bo") == "ce"
    assert [turn.text for turn in memory.turns(user_id="bo", session_id="s1")] == ["a", "c", "e"]


def test_a_link_to_nothing_is_said_and_the_turn_kept(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"user_id": "ann", "role": "user", "content": "b", "id": "b", "supersedes": "gone"}\n')
    loaded = load(memory, read_jsonl(file))
    assert [item.reason for item in loaded.rejected] == [
        "supersedes names 'gone', which is not a turn of this user; kept as one of its own"
    ]
    assert current(memory) == "b"


def test_a_known_turn_keeps_to_its_chain(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "m.db")

    def add(name: str, older: str | None = None) -> bool:
        (item,) = store.append("ann", [draft(name, external_id=name, supersedes=older)])
        assert item.problem is None
        return item.new

    for name, older in (("a", None), ("b", "a"), ("x", None)):
        assert add(name, older)
    for older in ("x", "b", "gone", None):  # of another chain, itself, nothing
        assert not add("b", older)
    assert not add("a", "b")  # that would be a circle
    turns = {turn.text: turn.supersedes for turn in History(store, "ann").turns()}
    names = {turn.text: turn.turn_id for turn in History(store, "ann").turns()}
    assert turns == {"a": None, "b": names["a"], "x": None}
    assert store.verify().ok
    store.close()
