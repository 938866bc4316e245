"""The stand-in for mem0's `Memory`: the calls its users write, over a real record."""

from __future__ import annotations

import hashlib
import inspect
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memory_samples import opened

import backread
from backread.errors import BlankTextError, InvalidInputError, NotFoundError
from backread.integrations.mem0 import Memory

EXCHANGE = [
    {"role": "user", "name": "Ann", "content": "I am allergic to walnuts.", "timestamp": "2025-03-01T09:00Z"},
    {"role": "assistant", "content": "Noted: no walnuts."},
]


@pytest.fixture
def mem0(memory: backread.Memory) -> Memory:
    return Memory(memory)


def memories(results: dict[str, list[dict[str, Any]]]) -> list[str]:
    return [item["memory"] for item in results["results"]]


class TestAdd:
    def test_every_message_is_a_memory_word_for_word(self, memory: backread.Memory, mem0: Memory) -> None:
        results = mem0.add(EXCHANGE, user_id="ann", run_id="trip", metadata={"topic": "food"}, agent_id="cook")
        turns = list(memory.turns(user_id="ann", session_id="trip"))
        assert results == {
            "results": [
                {
                    "id": f"{turns[0].turn_id}.ann",
                    "memory": "I am allergic to walnuts.",
                    "event": "ADD",
                    "actor_id": "Ann",
                    "role": "user",
                },
                {
                    "id": f"{turns[1].turn_id}.ann",
                    "memory": "Noted: no walnuts.",
                    "event": "ADD",
                    "actor_id": None,
                    "role": "assistant",
                },
            ]
        }
        assert [turn.text for turn in turns] == [message["content"] for message in EXCHANGE]

    def test_a_text_and_a_single_message(self, mem0: Memory) -> None:
        mem0.add("I like figs.", user_id="ann")
        mem0.add({"role": "system", "content": "Be kind."}, user_id="ann", infer=False)
        items = mem0.get_all(user_id="ann")["results"]
        assert [(item["memory"], item["role"]) for item in items] == [("I like figs.", "user"), ("Be kind.", "system")]
        assert len(mem0.memory.sessions(user_id="ann")) == 2

    @pytest.mark.parametrize("infer", [True, False])
    def test_nothing_is_inferred_either_way(self, mem0: Memory, infer: bool) -> None:
        mem0.add("I like figs. I like figs.", user_id="ann", infer=infer)
        assert memories(mem0.get_all(user_id="ann")) == ["I like figs. I like figs."]

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            ({"role": "user", "content": " "}, BlankTextError),
            ({"role": "boss", "content": "x"}, InvalidInputError),
            ({"role": "user", "content": "x", "colour": "red"}, InvalidInputError),
            ("a text in a list", InvalidInputError),
        ],
    )
    def test_a_message_that_can_t_be_kept_keeps_out_the_others(
        self, mem0: Memory, wrong: Any, error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            mem0.add([EXCHANGE[0], wrong], user_id="ann", metadata={"topic": "food"})
        assert mem0.get_all(user_id="ann") == {"results": []}

    @pytest.mark.parametrize(
        "wrong", [{"user_id": " "}, {"user_id": "ann", "run_id": ""}, {"user_id": "ann", "metadata": {"at": object()}}]
    )
    def test_what_can_t_be_kept_beside_it_is_refused(self, mem0: Memory, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError):
            mem0.add("x", **wrong)
        assert mem0.memory.users() == []


class TestFind:
    @pytest.fixture(autouse=True)
    def filled(self, mem0: Memory) -> None:
        mem0.add(EXCHANGE, user_id="ann", run_id="trip", metadata={"topic": "food", "level": 2})
        mem0.add("Walnuts grow in the garden.", user_id="ann", agent_id="gardener", metadata={"topic": "garden"})
        mem0.add("I love walnuts.", user_id="bob")

    def test_a_search_s_results(self, mem0: Memory) -> None:
        (item,) = mem0.search("Am I allergic to walnuts?", user_id="ann", limit=1)["results"]
        turn = next(mem0.memory.turns(user_id="ann"))
        assert item.pop("score") == mem0.memory.search("Am I allergic to walnuts?", user_id="ann", top_k=1)[0].score
        assert item == {
            "id": f"{turn.turn_id}.ann",
            "memory": "I am allergic to walnuts.",
            "hash": hashlib.md5(b"I am allergic to walnuts.").hexdigest(),
            "metadata": {"topic": "food", "level": 2},
            "created_at": "2025-03-01T09:00:00+00:00",
            "updated_at": turn.stored_at.isoformat(),
            "user_id": "ann",
            "role": "user",
            "run_id": "trip",
            "actor_id": "Ann",
        }
        assert mem0.get(f"{turn.turn_id}.ann") == item

    def test_of_unknown_time_is_when_it_was_stored(self, mem0: Memory) -> None:
        (item,) = mem0.get_all(user_id="bob")["results"]
        (turn,) = mem0.memory.turns(user_id="bob")
        assert (item["created_at"], item["metadata"]) == (turn.stored_at.isoformat(), None)
        assert "run_id" not in item
        assert "actor_id" not in item

    @pytest.mark.parametrize(
        ("asked", "expected"),
        [
            ({"user_id": "ann"}, 3),
            ({"filters": {"user_id": "ann"}}, 3),
            ({"user_id": "ann", "filters": {"user_id": "ann"}}, 3),
            ({"user_id": "bob"}, 1),
            ({"user_id": "ann", "run_id": "trip"}, 2),
            ({"user_id": "ann", "run_id": "other"}, 0),
            ({"user_id": "ann", "agent_id": "gardener"}, 1),
            ({"filters": {"user_id": "ann", "agent_id": "cook"}}, 0),
            ({"user_id": "ann", "filters": {"topic": "food"}}, 2),
            ({"user_id": "ann", "filters": {"topic": "food", "level": 3}}, 0),
            ({"user_id": "ann", "filters": {"role": "assistant"}}, 1),
            ({"user_id": "ann", "filters": {"actor_id": "Ann"}}, 1),
            ({"user_id": "ann", "filters": {"missing": None}}, 0),
        ],
    )
    def test_only_what_is_asked_for(self, mem0: Memory, asked: dict[str, Any], expected: int) -> None:
        everything = mem0.get_all(**asked)["results"]
        found = mem0.search("walnuts", **asked)["results"]
        assert (len(everything), len(found)) == (expected, expected)
        assert {item["id"] for item in everything} == {item["id"] for item in found}

    def test_filters_are_looked_for_below_the_best(self, mem0: Memory) -> None:
        mem0.add([{"role": "user", "content": f"walnut number {n}"} for n in range(30)], user_id="ann")
        mem0.add("A walnut, at last, and a long way down.", user_id="ann", metadata={"topic": "last"})
        found = mem0.search("walnut number", user_id="ann", filters={"topic": "last"}, top_k=1)
        assert memories(found) == ["A walnut, at last, and a long way down."]

    def test_the_same_words_in_two_scopes(self, mem0: Memory) -> None:
        for agent in ("a", "b"):
            mem0.add("Walnuts are heavy.", user_id="ann", agent_id=agent)
        for agent in ("a", "b"):
            (item,) = mem0.search("heavy walnuts", user_id="ann", agent_id=agent)["results"]
            assert item["agent_id"] == agent

    def test_how_many(self, mem0: Memory) -> None:
        mem0.add([{"role": "user", "content": f"walnut number {n}"} for n in range(30)], user_id="ann")
        assert len(mem0.search("walnut", user_id="ann")["results"]) == 20
        assert len(mem0.search("walnut", user_id="ann", top_k=5)["results"]) == 5
        assert len(mem0.get_all(user_id="ann")["results"]) == 33
        assert len(mem0.get_all(user_id="ann", limit=4)["results"]) == 4
        for call in (mem0.get_all, lambda **given: mem0.search("walnut", **given)):
            with pytest.raises(InvalidInputError, match="mean the same"):
                call(user_id="ann", limit=1, top_k=1)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({}, "no user"),
            ({"agent_id": "gardener"}, "no user"),
            ({"filters": {"agent_id": "gardener"}}, "no user"),
            ({"user_id": "ann", "filters": {"user_id": "bob"}}, "two values for user_id"),
            ({"user_id": "ann", "filters": {"level": {"gte": 2}}}, "'level' is no exact value"),
            ({"user_id": "ann", "filters": {"topic": "*"}}, "'topic' is no exact value"),
            ({"user_id": "ann", "filters": {"AND": []}}, "'AND' is no exact value"),
        ],
    )
    def test_what_can_t_be_honoured_is_refused(self, mem0: Memory, wrong: dict[str, Any], message: str) -> None:
        for call in (mem0.get_all, lambda **given: mem0.search("walnuts", **given)):
            with pytest.raises(InvalidInputError, match=message):
                call(**wrong)

    def test_unknown_arguments_are_refused(self, mem0: Memory) -> None:
        calls: list[tuple[Any, dict[str, Any]]] = [
            (mem0.add, {"messages": "x", "user_id": "ann", "expiration_date": "2026-01-01"}),
            (mem0.search, {"query": "x", "user_id": "ann", "threshold": 0.1}),
            (mem0.get_all, {"user_id": "ann", "show_expired": True}),
        ]
        for call, given in calls:
            with pytest.raises(TypeError, match="unexpected keyword"):
                call(**given)
        public = [name for name, _ in inspect.getmembers(Memory, inspect.isfunction) if not name.startswith("_")]
        swallowing = [
            name
            for name in public
            for parameter in inspect.signature(getattr(Memory, name)).parameters.values()
            if parameter.kind is parameter.VAR_KEYWORD
        ]
        assert swallowing == []


class TestChange:
    @pytest.fixture
    def walnuts(self, mem0: Memory) -> str:
        added = mem0.add(EXCHANGE, user_id="ann", run_id="trip", agent_id="cook", metadata={"topic": "food"})
        return str(added["results"][0]["id"])

    def test_an_update_supersedes_and_keeps_the_id(self, mem0: Memory, walnuts: str) -> None:
        assert mem0.update(walnuts, "I am allergic to pecans.") == {"message": "Memory updated successfully!"}
        mem0.update(walnuts, data="I am allergic to hazelnuts.")
        item = mem0.get(walnuts)
        assert item is not None
        assert (item["id"], item["memory"]) == (walnuts, "I am allergic to hazelnuts.")
        assert (item["agent_id"], item["run_id"], item["metadata"]) == ("cook", "trip", {"topic": "food"})
        assert item["created_at"] == "2025-03-01T09:00:00+00:00"
        assert memories(mem0.get_all(user_id="ann")) == ["Noted: no walnuts.", "I am allergic to hazelnuts."]
        assert [found["id"] for found in mem0.search("allergic hazelnuts", user_id="ann", limit=1)["results"]] == [
            walnuts
        ]
        assert len(list(mem0.memory.turns(user_id="ann"))) == 4

    def test_its_history(self, mem0: Memory, walnuts: str) -> None:
        mem0.update(walnuts, "I am allergic to pecans.")
        first, second = mem0.history(walnuts)
        turns = [turn for turn in mem0.memory.turns(user_id="ann") if turn.role == "user"]
        assert first == {
            "id": walnuts,
            "memory_id": walnuts,
            "old_memory": None,
            "new_memory": "I am allergic to walnuts.",
            "event": "ADD",
            "created_at": "2025-03-01T09:00:00+00:00",
            "updated_at": turns[0].stored_at.isoformat(),
            "is_deleted": False,
            "actor_id": "Ann",
            "role": "user",
        }
        assert second == {
            **first,
            "id": f"{turns[1].turn_id}.ann",
            "old_memory": "I am allergic to walnuts.",
            "new_memory": "I am allergic to pecans.",
            "event": "UPDATE",
            "updated_at": turns[1].stored_at.isoformat(),
        }
        assert mem0.history(second["id"]) == [first, second]

    def test_new_words_were_said_at_an_unknown_time_the_same_words_when_they_were(
        self, mem0: Memory, walnuts: str
    ) -> None:
        mem0.update(walnuts, metadata={"level": 2})
        mem0.update(walnuts, "I am allergic to pecans.", {"topic": "nuts"})
        item = mem0.get(walnuts)
        assert item is not None
        assert item["metadata"] == {"topic": "nuts", "level": 2}
        said = [turn.said_at for turn in mem0.memory.turns(user_id="ann") if turn.role == "user"]
        assert [at is None for at in said] == [False, False, True]
        assert said[0] == said[1]

    def test_what_is_no_update_is_refused(self, mem0: Memory, walnuts: str) -> None:
        wrong: list[dict[str, Any]] = [{}, {"text": "a", "data": "b"}, {"text": " "}]
        for given in wrong:
            with pytest.raises(InvalidInputError):
                mem0.update(walnuts, **given)
        assert len(mem0.history(walnuts)) == 1

    def test_deleting_erases_every_version(self, tmp_path: Path) -> None:
        with opened(tmp_path) as memory:
            mem0 = Memory(memory)
            (kept,) = mem0.add("a dingo", user_id="ann")["results"]
            (gone,) = mem0.add("a quokka", user_id="ann")["results"]
            mem0.update(gone["id"], "a wombat")
            assert mem0.delete(gone["id"]) == {"message": "Memory deleted successfully!"}
            assert (mem0.get(gone["id"]), mem0.history(gone["id"])) == (None, [])
            assert mem0.get(kept["id"]) is not None
        data = b"".join(path.read_bytes() for path in tmp_path.glob("m.db*"))
        assert (b"dingo" in data, b"quokka" in data, b"wombat" in data) == (True, False, False)

    def test_deleting_by_scope(self, mem0: Memory) -> None:
        for agent, run in (("a", "r1"), ("b", "r1"), ("a", "r2"), (None, None)):
            mem0.add(f"{agent} {run}", user_id="ann", agent_id=agent, run_id=run)
        mem0.add("bob's", user_id="bob")
        with pytest.raises(InvalidInputError, match="no user"):
            mem0.delete_all()
        mem0.delete_all(user_id="ann", agent_id="a", run_id="r1")
        assert memories(mem0.get_all(user_id="ann")) == ["b r1", "a r2", "None None"]
        mem0.delete_all(user_id="ann", run_id="r1")
        assert memories(mem0.get_all(user_id="ann")) == ["a r2", "None None"]
        assert mem0.delete_all("ann") == {"message": "Memories deleted successfully!"}
        assert mem0.memory.users() == ["bob"]
        mem0.reset()
        assert mem0.memory.users() == []

    @pytest.mark.parametrize("unknown", ["t0.ann", "no-such-id", "", ".ann", "t0.", "t0. "])
    def test_an_unknown_id(self, mem0: Memory, walnuts: str, unknown: str) -> None:
        assert (mem0.get(unknown), mem0.history(unknown)) == (None, [])
        for call in (mem0.delete, lambda given: mem0.update(given, "x")):
            with pytest.raises(NotFoundError):
                call(unknown)
        assert mem0.get(walnuts.replace(".ann", ".bob")) is None


def test_without_a_record_it_opens_the_one_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKREAD_PATH", str(tmp_path / "mine.db"))
    monkeypatch.setenv("BACKREAD_EMBEDDER", "none")
    with Memory() as mem0:
        mem0.add("I like figs.", user_id="ann")
    assert (tmp_path / "mine.db").exists()
    with backread.Memory.open() as memory:
        assert [turn.text for turn in memory.turns(user_id="ann")] == ["I like figs."]


class TestNumbers:
    @pytest.mark.parametrize("name", ["top_k", "limit"])
    def test_zero_is_none_of_them(self, mem0: Memory, name: str) -> None:
        mem0.add("I am allergic to walnuts.", user_id="ann")
        none: dict[str, Any] = {name: 0}
        assert mem0.search("walnuts", user_id="ann", **none) == {"results": []}
        assert mem0.get_all(user_id="ann", **none) == {"results": []}
        few: dict[str, Any] = {name: -1}
        for call in (mem0.get_all, partial(mem0.search, "walnuts")):
            with pytest.raises(InvalidInputError, match="from 0 on"):
                call(user_id="ann", **few)
