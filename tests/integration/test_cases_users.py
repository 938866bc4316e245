"""Failures other memory systems had with many users, threads and processes, as tests of `Memory` from end to end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backread import InvalidInputError, Memory, NotFoundError
from backread.models.base import ChatModel
from backread.testing.fakes import FunctionChat, HashEmbedder

SEARCH_MODES: tuple[str, ...] = ("hybrid", "interpolation", "rrf", "bm25", "dense")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory.open(path, embedder=HashEmbedder(256)) as opened:
        yield opened


def said(text: str, **more: object) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def texts_of(memory: Memory, user_id: str) -> list[str]:
    return [turn.text for turn in memory.turns(user_id=user_id)]


# CON-01
@pytest.mark.slow
def test_many_threads_write_and_search(path: Path) -> None:
    with Memory.open(path, embedder=HashEmbedder(256)) as memory:

        def write(thread: int) -> None:
            for number in range(50):
                memory.add(said(f"parcel t{thread}n{number} arrived"), user_id="ann", session_id=f"s{thread}")

        def search(thread: int) -> None:
            for number in range(50):
                memory.search(f"parcel t{thread}n{number}", user_id="ann", top_k=3)

        with ThreadPoolExecutor(16) as pool:
            jobs = [pool.submit(work, thread) for thread in range(8) for work in (write, search)]
            for job in jobs:
                job.result()
        expected = {f"parcel t{thread}n{number} arrived" for thread in range(8) for number in range(50)}
        kept = texts_of(memory, "ann")
        assert len(kept) == 400
        assert set(kept) == expected
        assert memory.index() == 0
        for thread in range(8):
            hits = memory.search(f"t{thread}n49", user_id="ann", mode="bm25")
            assert [hit.turn.text for hit in hits] == [f"parcel t{thread}n49 arrived"]
        assert memory.verify().ok
    with Memory.open(path, embedder=HashEmbedder(256)) as memory:  # close() released everything
        assert len(texts_of(memory, "ann")) == 400


_WRITER = """
import sys
from backread import Memory
memory = Memory.open(sys.argv[1], embedder="none")
for number in range(10**9):
    memory.add({"role": "user", "content": f"letter {number} came"}, user_id="bo", session_id="s")
    print(number, flush=True)
"""


# CON-01
@pytest.mark.slow
def test_two_processes_and_one_is_killed(path: Path) -> None:
    with Memory.open(path, embedder="none") as memory:
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            for number in range(30):
                other.stdout.readline()
                memory.add(said(f"mine {number}"), user_id="ann", session_id="s")
            other.kill()
            told = 30 + len(other.stdout.read().splitlines())
        assert texts_of(memory, "ann") == [f"mine {number}" for number in range(30)]
    with Memory.open(path, embedder="none") as memory:
        kept = texts_of(memory, "bo")
        assert kept == [f"letter {number} came" for number in range(len(kept))]
        assert len(kept) >= told - 1  # the last line may be cut
        assert memory.verify().ok


@pytest.fixture
def two_users(memory: Memory) -> Memory:
    memory.add(said("Tariq collects stamps", id="a1"), user_id="ann", session_id="s")
    memory.add(said("Tariq collects coins", id="b1"), user_id="bo", session_id="s")
    return memory


# ISO-01
def test_a_user_is_alone_on_every_path(two_users: Memory) -> None:
    memory = two_users
    for mode in SEARCH_MODES:
        assert [hit.turn.text for hit in memory.search("Tariq", user_id="ann", mode=mode)] == ["Tariq collects stamps"]
    for strategy in ("naive_rag", "naive_rag:session", "naive_rag:round", "full_context"):
        assert "coins" not in memory.recall("Tariq", user_id="ann", strategy=strategy).rendered
        assert "coins" not in memory.ask("What does Tariq collect?", user_id="ann", strategy=strategy).text
    assert texts_of(memory, "ann") == ["Tariq collects stamps"]
    assert [message["content"] for message in memory.export(user_id="ann")] == ["Tariq collects stamps"]
    assert [session.turns for session in memory.sessions(user_id="ann")] == [1]


# ISO-01
def test_another_users_id_is_a_missing_id(two_users: Memory) -> None:
    (other,) = (turn.turn_id for turn in two_users.turns(user_id="bo"))
    for turn_id in (other, "b1"):
        with pytest.raises(NotFoundError) as theirs:
            two_users.get(turn_id, user_id="ann")
        with pytest.raises(NotFoundError) as nobodys:
            two_users.get("nothing", user_id="ann")
        assert str(theirs.value).replace(turn_id, "nothing") == str(nobodys.value)
        assert two_users.delete(user_id="ann", turn_id=turn_id).turns == 0
        with pytest.raises(InvalidInputError):
            two_users.add(said("mine", supersedes=turn_id), user_id="ann")
    assert texts_of(two_users, "bo") == ["Tariq collects coins"]


# ISO-01
@pytest.mark.parametrize(
    "arguments",
    [{}, {"user_id": ""}, {"user_id": None}, {"user_id": "ann", "filters": {"user": "bo"}}, {"usr": "ann"}],
    ids=str,
)
def test_a_search_without_a_user_or_with_an_unknown_filter_is_refused(
    two_users: Memory, arguments: dict[str, Any]
) -> None:
    for call in (two_users.search, two_users.recall, two_users.ask):
        with pytest.raises((TypeError, InvalidInputError)):
            call("Tariq", **arguments)


# ISO-01
def test_a_prompt_holds_nothing_of_others(two_users: Memory, path: Path) -> None:
    seen: list[str] = []

    def answer(request: Any) -> str:
        seen.append(repr(request.messages))
        return "Stamps [1]."

    chat: ChatModel = FunctionChat(answer)
    with Memory.open(path, embedder=HashEmbedder(256), model=chat) as memory:
        memory.ask("What does Tariq collect?", user_id="bo")
        seen.clear()
        answered = memory.ask("What does Tariq collect?", user_id="ann")
    assert len(seen) == 1
    assert "stamps" in seen[0]
    assert "coins" not in seen[0]
    assert [citation.quote for citation in answered.citations] == ["Tariq collects stamps"]


CRAFTED = ["O'Neil", "x') OR true --", 'd"q', "new\nline", "7f3c9a10-0000-4b1e-9c55-1d2e3f405162", "main", "%", "a*"]


# ISO-03
@pytest.mark.parametrize("mode", SEARCH_MODES)
def test_a_filter_matches_exactly_its_value(memory: Memory, mode: str) -> None:
    for number, value in enumerate(CRAFTED):
        memory.add(said(f"parcel {number}", name=value), user_id="ann", session_id=value)
        memory.add(said(f"letter {number}"), user_id=value, session_id="s")
    for number, value in enumerate(CRAFTED):
        by_speaker = memory.search("parcel", user_id="ann", speaker=value, mode=mode)
        by_session = memory.search("parcel", user_id="ann", session_id=value, mode=mode)
        assert [hit.turn.text for hit in by_speaker] == [hit.turn.text for hit in by_session] == [f"parcel {number}"]
        assert [turn.text for turn in memory.turns(user_id="ann", session_id=value)] == [f"parcel {number}"]
        assert [hit.turn.text for hit in memory.search("letter", user_id=value, mode=mode)] == [f"letter {number}"]


# ISO-03
def test_a_crafted_value_deletes_nothing_else(memory: Memory) -> None:
    for number, value in enumerate(CRAFTED):
        memory.add(said(f"parcel {number}"), user_id="ann", session_id=value)
        memory.add(said(f"letter {number}"), user_id=value, session_id="s")
    for number, value in enumerate(CRAFTED):
        assert memory.delete(user_id="ann", turn_id=value).turns == 0
        assert memory.delete(user_id="ann", session_id=value).turns == 1
        assert len(texts_of(memory, "ann")) == len(CRAFTED) - number - 1
        assert memory.delete(user_id=value).turns == 1
    assert memory.users() == []


# ISO-03
def test_unknown_keys_of_a_message_are_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInputError, match="metadata"):
        memory.add(said("hello", metadata={"key' = 'k": "v' OR '1'='1"}), user_id="ann")


@pytest.fixture
def five_turns(memory: Memory) -> Memory:
    for number in range(3):
        memory.add(said(f"parcel {number} of Uma"), user_id="uma", session_id="s1")
    for number in range(2):
        memory.add(said(f"parcel {number} of Vic"), user_id="vic", session_id="s1")
    memory.index()
    return memory


# DEL-03
def test_deleting_a_user_leaves_the_others(five_turns: Memory) -> None:
    receipt = five_turns.delete(user_id="uma")
    assert (receipt.user_id, receipt.turns, receipt.sessions, receipt.vectors) == ("uma", 3, 1, 3)
    assert receipt.postings > 0
    assert five_turns.users() == ["vic"]
    for mode in SEARCH_MODES:
        assert len(five_turns.search("parcel", user_id="uma", mode=mode)) == 0
        assert len(five_turns.search("parcel", user_id="vic", mode=mode)) == 2
    assert five_turns.verify().ok


# DEL-03
@pytest.mark.parametrize(
    "arguments",
    [
        {"user_id": ""},
        {"user_id": None},
        {},
        {"session_id": "s1"},
        {"user_id": "uma", "session_id": ""},
        {"user_id": "uma", "session_id": None},
        {"user_id": "uma", "turn_id": None},
        {"user_id": " "},
    ],
    ids=str,
)
def test_an_empty_scope_is_not_everybody(five_turns: Memory, arguments: dict[str, Any]) -> None:
    with pytest.raises((TypeError, InvalidInputError)):
        five_turns.delete(**arguments)
    assert [five_turns.stats(user_id=user).turns for user in ("uma", "vic")] == [3, 2]


# DEL-03
def test_an_unknown_user_has_nothing_to_delete(five_turns: Memory) -> None:
    assert five_turns.delete(user_id="nobody").turns == 0
    assert five_turns.delete(user_id="uma", session_id="nothing").turns == 0
    assert [five_turns.stats(user_id=user).turns for user in ("uma", "vic")] == [3, 2]
