"""The LangGraph store: the interface call by call, beside LangGraph's own store, and in graphs that LangGraph runs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, ListNamespacesOp, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from memory_samples import opened

from backread import Memory
from backread.errors import ConflictError, InvalidInputError
from backread.integrations.langgraph import BackreadStore

ANN = ("memories", "ann")


@pytest.fixture
def store(memory: Memory) -> BackreadStore:
    return BackreadStore(memory)


def keys(items: Any) -> list[str]:
    return [item.key for item in items]


class TestPutAndGet:
    def test_a_value_comes_back(self, store: BackreadStore) -> None:
        value = {"food": "ramen", "spice": 3, "with": [{"egg": True}, None, 1.5], "é": "ü"}
        store.put(ANN, "k1", value)
        item = store.get(ANN, "k1")
        assert item is not None
        assert (item.value, item.key, item.namespace) == (value, "k1", ANN)
        assert item.created_at == item.updated_at
        assert item.created_at.tzinfo is not None
        assert store.get(ANN, "k2") is None
        assert store.get(("memories", "bob"), "k1") is None
        assert store.get(("memories",), "k1") is None

    def test_the_last_put_counts_and_what_was_before_stays_in_the_record(
        self, memory: Memory, store: BackreadStore
    ) -> None:
        for food in ("ramen", "pho", "soba"):
            store.put(ANN, "food", {"likes": food})
        store.put(ANN, "drink", {"likes": "tea"})
        item = store.get(ANN, "food")
        assert item is not None
        assert item.value == {"likes": "soba"}
        first, second, third, _ = memory.turns(user_id="memories.ann")
        assert (item.created_at, item.updated_at) == (first.stored_at, third.stored_at)
        assert (first.text, second.supersedes, third.supersedes) == (
            '{"likes": "ramen"}',
            first.turn_id,
            second.turn_id,
        )
        assert keys(store.search(ANN)) == ["food", "drink"]
        by_words = BackreadStore(memory, mode="bm25")
        assert [keys(by_words.search(ANN, query=food)) for food in ("ramen", "soba")] == [[], ["food"]]

    def test_a_key_is_found_by_its_name(self, store: BackreadStore) -> None:
        store.put(ANN, "travel", {"plan": "to Lindau by boat"})
        store.put(ANN, "food", {"likes": "ramen"})
        assert keys(store.search(ANN, query="what about travel"))[0] == "travel"
        assert keys(store.search(ANN, query="what about travel", limit=0)) == []

    def test_keys_that_look_like_something_else(self, store: BackreadStore) -> None:
        names = ["assistant", "user", "a/b#1", "a/b", "k.1", " ", "ключ"]
        for name in names:
            store.put(ANN, name, {"name": name})
        assert [item.value for item in store.search(ANN)] == [{"name": name} for name in names]
        assert [store.get(ANN, name).value["name"] for name in names] == names  # type: ignore[union-attr]

    def test_deleting_a_key_erases_all_it_was(self, tmp_path: Path) -> None:
        with opened(tmp_path) as memory:
            store = BackreadStore(memory)
            store.put(ANN, "secret", {"code": "quokka"})
            store.put(ANN, "secret", {"code": "wombat"})
            store.put(ANN, "other", {"code": "dingo"})
            store.delete(ANN, "secret")
            store.delete(ANN, "secret")
            assert store.get(ANN, "secret") is None
            assert [turn.text for turn in memory.turns(user_id="memories.ann")] == ['{"code": "dingo"}']
            store.put(ANN, "secret", {"code": "emu"})
            assert keys(store.search(ANN)) == ["other", "secret"]
        data = b"".join(path.read_bytes() for path in tmp_path.glob("m.db*"))
        assert (b"dingo" in data, b"quokka" in data, b"wombat" in data) == (True, False, False)

    def test_from_several_threads_no_put_is_lost(self, memory: Memory) -> None:
        stores = [BackreadStore(memory) for _ in range(2)]  # two stores share no lock
        work = [
            threading.Thread(target=stores[number % 2].put, args=(ANN, "n", {"number": number})) for number in range(4)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        turns = list(memory.turns(user_id="memories.ann"))
        assert sorted(turn.attachments[0]["value"]["number"] for turn in turns) == [0, 1, 2, 3]
        assert [turn.attachments[0]["version"] for turn in turns] == [1, 2, 3, 4]
        assert len(store_items := BackreadStore(memory).search(ANN)) == 1
        assert store_items[0].value == turns[-1].attachments[0]["value"]

    def test_a_version_that_is_something_else_already_is_a_conflict(self, memory: Memory, store: BackreadStore) -> None:
        taken = {"role": "user", "content": "x", "id": "langgraph:memories.ann/k#1"}
        memory.add(taken, user_id="memories.ann", session_id="s")
        with pytest.raises(ConflictError, match=r"langgraph:memories\.ann/k#1"):
            store.put(ANN, "k", {"a": 1})
        assert store.get(ANN, "k") is None

    @pytest.mark.parametrize("wrong", [{"at": object()}, {"n": float("nan")}, {1: "x"}])
    def test_what_json_can_t_carry_is_refused(self, store: BackreadStore, wrong: Any) -> None:
        with pytest.raises(InvalidInputError):
            store.put(ANN, "k", wrong)
        assert store.search(ANN) == []

    def test_an_empty_key_and_a_lifetime_are_refused(self, store: BackreadStore) -> None:
        with pytest.raises(InvalidInputError):
            store.put(ANN, "", {"a": 1})
        with pytest.raises(NotImplementedError):
            store.put(ANN, "k", {"a": 1}, ttl=5)

    @pytest.mark.parametrize(
        "op",
        [
            PutOp(("a.b",), "k", {}),
            GetOp(("a", ""), "k"),
            SearchOp(("a.b",)),
        ],
    )
    def test_labels_that_could_be_mistaken_are_refused_before_anything_is_done(
        self, memory: Memory, store: BackreadStore, op: Any
    ) -> None:
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(("a", "b"), "k", {"v": 1}), op])
        assert memory.users() == []


class TestSearch:
    def test_by_meaning_best_first_with_scores(self, store: BackreadStore) -> None:
        store.put(ANN, "k1", {"text": "The spare key is under the blue pot"})
        store.put(ANN, "k2", {"text": "Ferries leave at seven"})
        best, *_ = store.search(ANN, query="where is the key")
        assert (best.key, best.value) == ("k1", {"text": "The spare key is under the blue pot"})
        assert best.score is not None
        assert best.score > 0
        assert [item.score for item in store.search(ANN)] == [None, None]

    def test_equal_values_of_two_keys_are_two_items(self, store: BackreadStore) -> None:
        for key in ("a", "b"):
            store.put(ANN, key, {"text": "blue pot"})
        assert sorted(keys(store.search(ANN, query="pot"))) == ["a", "b"]

    def test_below_a_prefix_namespaces_take_turns(self, memory: Memory) -> None:
        store = BackreadStore(memory, mode="bm25")
        for who, count in (("ann", 3), ("bob", 1), ("cal", 2)):
            for number in range(count):
                store.put(("notes", who), f"{who}{number}", {"text": "kettle " * (count - number)})
        store.put(("other", "dan"), "dan0", {"text": "kettle"})
        found = store.search(("notes",), query="kettle")
        first = [item.namespace[1] for item in found]
        assert first == ["ann", "bob", "cal", "ann", "cal", "ann"]
        assert keys(store.search(("notes",), query="kettle", limit=2, offset=2)) == keys(found)[2:4]
        assert len(store.search((), query="kettle")) == 7
        assert store.search(("note",), query="kettle") == []

    def test_filters_leave_as_many_as_are_asked_for(self, store: BackreadStore) -> None:
        for number in range(12):
            store.put(ANN, f"k{number}", {"text": "kettle", "number": number, "even": number % 2 == 0})
        assert keys(store.search(ANN, filter={"even": True}, limit=3)) == ["k0", "k2", "k4"]
        assert keys(store.search(ANN, filter={"number": {"$gte": 10}})) == ["k10", "k11"]
        found = store.search(ANN, query="kettle", filter={"number": {"$gte": 10}}, limit=2)
        assert sorted(keys(found)) == ["k10", "k11"]
        with pytest.raises(InvalidInputError, match=r"\$in"):
            store.search(ANN, filter={"number": {"$in": [1]}})

    def test_only_the_fields_named_are_searched(self, memory: Memory) -> None:
        store = BackreadStore(memory, fields=["text", "tags[*]"], mode="bm25")
        store.put(ANN, "k1", {"text": "kettle", "tags": ["copper", "old"], "source": "catalogue"})
        store.put(ANN, "k2", {"text": "kettle", "note": "lamp"}, index=["note"])
        store.put(ANN, "k3", {"text": "kettle"}, index=False)
        assert [turn.text for turn in memory.turns(user_id="memories.ann")] == ["kettle\ncopper\nold", "lamp", ""]
        assert [keys(store.search(ANN, query=query)) for query in ("kettle", "old", "catalogue", "lamp")] == [
            ["k1"],
            ["k1"],
            [],
            ["k2"],
        ]
        assert keys(store.search(ANN)) == ["k1", "k2", "k3"]
        assert store.get(ANN, "k3").value == {"text": "kettle"}  # type: ignore[union-attr]

    def test_a_namespace_may_belong_to_someone_s_history(self, memory: Memory) -> None:
        memory.add({"role": "user", "content": "My pot is blue."}, user_id="ann", session_id="s")
        store = BackreadStore(memory, user_of=lambda namespace: namespace[-1])
        store.put(ANN, "k1", {"pot": "under the blue one is a key"})
        store.put(("facts", "ann"), "k1", {"pot": "a pot is a vessel"})
        assert memory.users() == ["ann"]
        assert "under the blue one" in memory.recall("Which pot hides the key?", user_id="ann").rendered
        assert keys(store.search(ANN, query="pot")) == ["k1"]
        assert [item.namespace for item in store.search((), query="pot")] == [("facts", "ann"), ANN]
        assert store.list_namespaces() == [("facts", "ann"), ANN]
        store.delete(ANN, "k1")
        assert store.list_namespaces() == [("facts", "ann")]


def test_namespaces_are_listed(store: BackreadStore) -> None:
    for namespace in (("a", "b", "c"), ("a", "b", "d"), ("a", "x"), ("z", "c")):
        store.put(namespace, "k", {"v": 1})
    assert store.list_namespaces() == [("a", "b", "c"), ("a", "b", "d"), ("a", "x"), ("z", "c")]
    assert store.list_namespaces(prefix=("a",), max_depth=2) == [("a", "b"), ("a", "x")]
    assert store.list_namespaces(suffix=("c",)) == [("a", "b", "c"), ("z", "c")]
    assert store.list_namespaces(prefix=("a", "*", "d")) == [("a", "b", "d")]
    assert store.list_namespaces(prefix=("a",), suffix=("c",)) == [("a", "b", "c")]
    assert store.list_namespaces(limit=2, offset=1) == [("a", "b", "d"), ("a", "x")]
    store.delete(("z", "c"), "k")
    assert store.list_namespaces(prefix=("z",)) == []


def test_a_batch_is_done_in_its_order_and_so_from_a_loop(store: BackreadStore) -> None:
    ops: list[Op] = [
        PutOp(ANN, "k", {"v": 1}),
        GetOp(ANN, "k"),
        PutOp(ANN, "k", None),
        GetOp(ANN, "k"),
        ListNamespacesOp(),
        SearchOp(ANN),
    ]
    for results in (store.batch(ops), asyncio.run(store.abatch(ops))):
        assert [results[0], results[2:]] == [None, [None, None, [], []]]
        assert results[1].value == {"v": 1}  # type: ignore[union-attr]


NAMESPACES = st.lists(st.sampled_from("ab"), min_size=1, max_size=2).map(tuple)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMESPACES, st.sampled_from("xy"), st.integers(0, 3)),
        st.tuples(st.just("delete"), NAMESPACES, st.sampled_from("xy")),
    ),
    max_size=12,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CALLS)
def test_it_holds_what_langgraph_s_own_store_holds(tmp_path: Path, calls: list[Any]) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    with opened(folder) as memory:
        stores: tuple[BaseStore, BaseStore] = (InMemoryStore(), BackreadStore(memory, scrub=False))
        for kind, namespace, key, *value in calls:
            for store in stores:
                if kind == "put":
                    store.put(namespace, key, {"n": value[0]})
                else:
                    store.delete(namespace, key)
        held = []
        for store in stores:
            items = store.search((), limit=100)
            over = store.search(("a",), filter={"n": {"$gt": 1}}, limit=100)
            held.append(
                [sorted((*item.namespace, item.key, item.value["n"]) for item in found) for found in (items, over)]
            )
        assert held[0] == held[1]
        there = {tuple(item.namespace) for item in stores[0].search((), limit=100)}  # it also lists emptied ones
        assert stores[1].list_namespaces() == sorted(there)


class State(TypedDict, total=False):
    user: str
    said: str
    answer: str


def remember(state: State, runtime: Runtime[None]) -> State:
    assert runtime.store is not None
    runtime.store.put(("memories", state["user"]), f"n{len(state['said'])}", {"text": state["said"]})
    return {}


def answer(state: State, runtime: Runtime[None]) -> State:
    assert runtime.store is not None
    found = runtime.store.search(("memories", state["user"]), query="Where is the key?", limit=1)
    return {"answer": found[0].value["text"]}


async def answer_later(state: State, runtime: Runtime[None]) -> State:
    assert runtime.store is not None
    found = await runtime.store.asearch(("memories", state["user"]), query="Where is the key?", limit=1)
    return {"answer": found[0].value["text"]}


def test_in_a_graph_what_one_thread_put_another_finds(tmp_path: Path) -> None:
    def graph(memory: Memory, last: Any) -> Any:
        built = StateGraph(State)
        built.add_node("remember", remember)
        built.add_node("answer", last)
        built.add_edge(START, "remember")
        built.add_edge("remember", "answer")
        built.add_edge("answer", END)
        return built.compile(store=BackreadStore(memory))

    with opened(tmp_path) as memory:
        state = graph(memory, answer).invoke({"user": "ann", "said": "The spare key is under the pot."})
        assert state["answer"] == "The spare key is under the pot."
    with opened(tmp_path) as memory:  # another process, later
        lamp = {"user": "ann", "said": "The lamp is green."}
        assert graph(memory, answer).invoke(lamp)["answer"] == "The spare key is under the pot."
        later = asyncio.run(graph(memory, answer_later).ainvoke(lamp))
        assert later["answer"] == "The spare key is under the pot."
        assert BackreadStore(memory).list_namespaces() == [ANN]
        assert len(BackreadStore(memory).search(ANN)) == 2
