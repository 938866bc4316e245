"""`Memory`: what users call, over a real store; models are fakes, nothing is patched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from numpy.typing import NDArray

from backread import Memory
from backread.errors import (
    BackreadError,
    BlankTextError,
    ConflictError,
    ContextWindowError,
    InvalidInputError,
    ModelMismatchError,
    ModelNotAvailableError,
    ModelRequestError,
    NotFoundError,
    StoreError,
    TimeError,
)
from backread.importers import read_jsonl
from backread.memory import SearchMode
from backread.models.base import Embedder
from backread.models.openai import OpenAIChat
from backread.models.roles import ChatRoles
from backread.retrieval.bm25 import Bm25Retriever
from backread.settings import Settings
from backread.store.sqlite import SqliteStore
from backread.strategies.naive_rag.strategy import NaiveRag
from backread.testing.fakes import ChatRequest, FailingEmbedder, FakeChat, FunctionChat, HashEmbedder
from backread.text.tokens import EstimateCounter
from backread.types import TurnDraft

MODES: tuple[SearchMode, ...] = ("hybrid", "interpolation", "rrf", "bm25", "dense")
TALK = [
    {
        "role": "user",
        "name": "Ann",
        "content": "I bought a copper kettle.",
        "id": "m1",
        "timestamp": "2024-05-01T09:00Z",
    },
    {"role": "assistant", "content": "Descale it with vinegar.", "id": "m2", "timestamp": "2024-05-01T09:01Z"},
    {
        "role": "user",
        "name": "Ann",
        "content": "The ferry leaves at seven.",
        "id": "m3",
        "timestamp": "2024-06-01T09:00Z",
    },
    {"role": "user", "name": "Bob", "content": "My lamp is green.", "id": "m4"},
]


class Counting(HashEmbedder):
    """Counts what it embeds, and fails once `budget` texts are done."""

    def __init__(self, dimension: int = 64, *, seed: int = 0, budget: int | None = None) -> None:
        super().__init__(dimension, seed=seed)
        self.texts: list[str] = []
        self.queries: list[str] = []
        self.budget = budget

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[Any]:
        (self.queries if kind == "query" else self.texts).extend(texts)
        if self.budget is not None and len(self.texts) > self.budget:
            raise ModelRequestError("the embedder is down")
        return super().embed(texts, kind=kind)


def opened(path: Path, embedder: Embedder | None = None, **settings: Any) -> Memory:
    values: dict[str, Any] = {"path": path / "m.db", "embedder": "none", **settings}
    return Memory.open(embedder=embedder, counter=EstimateCounter(), settings=Settings(**values))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path, HashEmbedder(2048)) as made:
        yield made


@pytest.fixture
def talked(memory: Memory) -> Memory:
    memory.add(TALK[:3], user_id="ann", session_id="s1")
    memory.add(TALK[3:], user_id="ann", session_id="s2")
    return memory


def texts(memory: Memory, user_id: str = "ann") -> list[str]:
    return [turn.text for turn in memory.turns(user_id=user_id)]


class TestAdd:
    def test_one_message(self, memory: Memory) -> None:
        receipt = memory.add({"role": "user", "content": "  Hi \n"}, user_id="ann", session_id="s1")
        assert (receipt.session_id, receipt.stored, receipt.known, receipt.rejected) == ("s1", 1, 0, ())
        (turn,) = memory.turns(user_id="ann")
        assert (turn.turn_id, turn.text, turn.name) == (*receipt.turn_ids, "  Hi \n", "user")

    def test_a_session_is_made_when_none_is_named(self, memory: Memory) -> None:
        first, second = (memory.add(TALK[3], user_id=user, session_id=None) for user in ("ann", "bob"))
        assert first.session_id.startswith("s-")
        assert first.session_id != second.session_id
        assert [session.session_id for session in memory.sessions(user_id="ann")] == [first.session_id]

    def test_a_list_in_order(self, talked: Memory) -> None:
        assert texts(talked) == [message["content"] for message in TALK]

    def test_nothing_to_add(self, memory: Memory) -> None:
        receipt = memory.add([], user_id="ann", session_id="s")
        assert (receipt.turn_ids, receipt.stored, receipt.rejected) == ((), 0, ())
        assert memory.add_turns([], user_id="ann").turn_ids == ()
        assert memory.users() == []

    def test_what_can_t_be_kept_is_named_by_its_place(self, memory: Memory) -> None:
        memory.add(TALK[0], user_id="ann", session_id="s1")
        given = [
            {"role": "user", "content": " "},
            {"role": "user", "content": "kept"},
            {"role": "user", "content": "x", "timestamp": "soon"},
            {"role": "user", "content": "another text", "id": "m1"},
            "no message",
            TALK[0],
        ]
        receipt = memory.add(given, user_id="ann", session_id="s1")  # type: ignore[arg-type]
        assert [(item.position, item.reason[:12]) for item in receipt.rejected] == [
            (0, "the user mes"),
            (2, "not a time t"),
            (3, "id 'm1' alre"),
            (4, "a message is"),
        ]
        assert (receipt.stored, receipt.known, len(receipt.turn_ids)) == (1, 1, 2)
        assert texts(memory) == ["I bought a copper kettle.", "kept"]

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            ([{"role": "user", "content": ""}, {"content": "x"}], BlankTextError),
            ([{"role": "user", "content": "x", "time": "soon"}, {"role": "user", "content": ""}], TimeError),
            ({"role": "owner", "content": "x"}, InvalidInputError),
            ("a text", InvalidInputError),
        ],
    )
    def test_when_nothing_is_left_the_first_problem_is_raised(
        self, memory: Memory, given: Any, error: type[BackreadError]
    ) -> None:
        with pytest.raises(error):
            memory.add(given, user_id="ann")
        assert memory.users() == []

    def test_a_retry_is_known_and_an_id_with_other_words_a_conflict(self, talked: Memory) -> None:
        again = talked.add(TALK[:3], user_id="ann", session_id="s1")
        assert (again.stored, again.known) == (0, 3)
        with pytest.raises(ConflictError, match="'m1'"):
            talked.add({**TALK[0], "content": "I bought an iron kettle."}, user_id="ann", session_id="s1")
        with pytest.raises(ConflictError, match="session"):
            talked.add(TALK[0], user_id="ann", session_id="elsewhere")
        assert len(texts(talked)) == 4

    def test_parts_and_tool_calls(self, memory: Memory) -> None:
        image = {"type": "image_url", "image_url": {"url": "file:cat.png"}}
        calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
        given: list[dict[str, Any]] = [
            {"role": "user", "content": [{"type": "text", "text": "Look:"}, image, {"type": "text", "text": "a cat"}]},
            {"role": "assistant", "content": None, "tool_calls": calls},
        ]
        memory.add(given, user_id="ann")
        look, call = memory.turns(user_id="ann")
        assert (look.text, look.attachments) == ("Look:\na cat", (image,))
        assert (call.text, call.attachments) == ("", ({"type": "tool_calls", "tool_calls": calls},))
        assert [hit.turn.text for hit in memory.search("cat", user_id="ann", mode="bm25")] == ["Look:\na cat"]

    @pytest.mark.parametrize("user_id", ["", "  ", None, 7])
    def test_a_user_has_a_name(self, memory: Memory, user_id: Any) -> None:
        for call in (
            lambda: memory.add(TALK, user_id=user_id),
            lambda: memory.add_turns([TurnDraft("s", "user", "x")], user_id=user_id),
            lambda: memory.search("x", user_id=user_id),
            lambda: memory.recall("x", user_id=user_id),
            lambda: memory.ask("x", user_id=user_id),
            lambda: memory.get("m1", user_id=user_id),
            lambda: memory.turns(user_id=user_id),
            lambda: memory.sessions(user_id=user_id),
            lambda: memory.export(user_id=user_id),
            lambda: memory.delete(user_id=user_id),
        ):
            with pytest.raises(InvalidInputError, match="user_id"):
                call()

    def test_times_without_a_zone_take_the_setting(self, tmp_path: Path) -> None:
        with opened(tmp_path, zone="Asia/Tokyo") as memory:
            memory.add({"role": "user", "content": "x", "timestamp": "2024-05-01T09:00"}, user_id="ann")
            (turn,) = memory.turns(user_id="ann")
            assert turn.said_at == datetime(2024, 5, 1, 0, tzinfo=UTC)
            assert not turn.offset_known
            assert len(memory.search("x", user_id="ann", before="2024-05-01T09:00:01")) == 1
            assert len(memory.search("x", user_id="ann", before="2024-05-01T09:00:00")) == 0


class TestSearch:
    @pytest.mark.parametrize("mode", MODES)
    def test_every_mode_finds_the_words(self, talked: Memory, mode: SearchMode) -> None:
        hits = talked.search("copper kettle", user_id="ann", mode=mode, top_k=2)
        assert hits[0].turn.text == "I bought a copper kettle."
        assert 1 <= len(hits) <= 2
        assert (hits.degraded, hits.pending) == ((), 4 if mode == "bm25" else 0)  # words don't wait for vectors

    def test_an_unknown_mode_lists_the_known_ones(self, talked: Memory) -> None:
        with pytest.raises(InvalidInputError) as caught:
            talked.search("x", user_id="ann", mode="bm52")  # type: ignore[arg-type]
        assert all(mode in (caught.value.hint or "") for mode in MODES)

    @pytest.mark.parametrize("query", ["", "  \n", "\u3000"])
    def test_a_blank_query_is_refused(self, talked: Memory, query: str) -> None:
        with pytest.raises(InvalidInputError, match="blank"):
            talked.search(query, user_id="ann")

    @pytest.mark.parametrize("mode", MODES)
    def test_a_query_without_a_term_finds_nothing(self, talked: Memory, mode: SearchMode) -> None:
        assert len(talked.search("?!", user_id="ann", mode=mode)) == 0

    @pytest.mark.parametrize("top_k", [0, -3])
    def test_top_k_is_at_least_one(self, talked: Memory, top_k: int) -> None:
        with pytest.raises(InvalidInputError, match="top_k"):
            talked.search("kettle", user_id="nobody", top_k=top_k)

    @pytest.mark.parametrize("mode", MODES)
    def test_equal_texts_take_one_place(self, memory: Memory, mode: SearchMode) -> None:  # VER-05
        for day in range(1, 29):
            memory.add(
                {"role": "user", "content": "The lift code is 4411#", "timestamp": f"2024-02-{day:02}T09:00Z"},
                user_id="ann",
                session_id=f"s{day:02}",
            )
        other = {"role": "assistant", "content": "The lift code is 4411#"}
        memory.add([other, {"role": "user", "content": "The lift is slow and has no other code."}], user_id="ann")
        hits = memory.search("lift code", user_id="ann", top_k=3, mode=mode)
        assert len({(hit.turn.name, hit.turn.text) for hit in hits}) == len(hits) == 3
        (group,) = [hit for hit in hits if hit.also]
        said = [turn.said_at for turn in (group.turn, *group.also)]
        assert len(said) == 28
        assert all(turn.text == group.turn.text and turn.role == "user" for turn in group.also)

    def test_repetitions_never_hide_the_rest(self, memory: Memory) -> None:
        drafts = [TurnDraft("s", "user", "kettle kettle kettle") for _ in range(130)]
        memory.add_turns([*drafts, TurnDraft("t", "user", "a kettle among many other words here")], user_id="ann")
        for mode in MODES:
            hits = memory.search("kettle", user_id="ann", top_k=2, mode=mode)
            assert [len(hit.turn.text) for hit in hits] == [20, 36], mode

    @pytest.mark.parametrize(
        ("scope", "found"),
        [
            ({"roles": ["assistant"]}, ["m2"]),
            ({"roles": "assistant"}, ["m2"]),
            ({"roles": ["user", "tool"]}, ["m1", "m3", "m4"]),
            ({"roles": []}, []),
            ({"speaker": "Bob"}, ["m4"]),
            ({"speaker": "bob"}, []),
            ({"speaker": "assistant"}, ["m2"]),
            ({"session_id": "s2"}, ["m4"]),
            ({"session_id": "s9"}, []),
            ({"after": "2024-05-01T09:01:00Z"}, ["m2", "m3"]),
            ({"before": "2024-05-01T09:01:00Z"}, ["m1"]),
            ({"after": datetime(2024, 5, 1, 9, 1, tzinfo=UTC), "before": "2024-06-01"}, ["m2"]),
            ({"as_of": "2024-05-01T09:01:00Z"}, ["m1", "m2"]),
            ({"as_of": 1714554000}, ["m1"]),
        ],
    )
    def test_filters(self, talked: Memory, scope: dict[str, Any], found: list[str]) -> None:
        hits = talked.search("copper kettle, vinegar, ferry and a lamp", user_id="ann", **scope)
        assert sorted(hit.turn.external_id or "" for hit in hits) == found
        timed = bool({"after", "before", "as_of"} & set(scope))
        assert [(item.part, item.count) for item in hits.degraded] == ([("time", 1)] if timed else [])

    def test_only_undated_turns_in_scope_are_counted(self, talked: Memory) -> None:
        hits = talked.search("copper kettle", user_id="ann", session_id="s1", before="2024-05-01T09:01:00Z")
        assert (len(hits), hits.degraded) == (1, ())

    @pytest.mark.parametrize("scope", [{"session_id": ""}, {"after": "soon"}, {"before": "?"}, {"as_of": "never"}])
    def test_a_filter_that_makes_no_sense_is_refused(self, talked: Memory, scope: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError):
            talked.search("kettle", user_id="ann", **scope)

    def test_another_user_s_turns_are_not_there(self, talked: Memory) -> None:
        talked.add({"role": "user", "content": "My copper kettle is mine."}, user_id="eve")
        for mode in MODES:
            assert {hit.turn.text for hit in talked.search("copper kettle", user_id="eve", mode=mode)} == {
                "My copper kettle is mine."
            }
            assert len(talked.search("copper kettle", user_id="nobody", mode=mode)) == 0

    def test_superseded_turns_leave_search(self, talked: Memory) -> None:
        new = {"role": "user", "content": "I bought an iron kettle.", "supersedes": "m1", "timestamp": "2024-07-01"}
        talked.add(new, user_id="ann", session_id="s1")
        assert [hit.turn.text for hit in talked.search("kettle", user_id="ann", mode="bm25")] == [new["content"]]
        assert "I bought a copper kettle." in texts(talked)
        before = talked.search("kettle", user_id="ann", mode="bm25", as_of="2024-06-30")
        assert [hit.turn.external_id for hit in before] == ["m1"]


class TestVectorsFollow:
    def test_a_search_embeds_what_is_pending_once(self, tmp_path: Path) -> None:
        embedder = Counting()
        with opened(tmp_path, embedder) as memory:
            memory.add(TALK, user_id="ann")
            assert (embedder.texts, memory.pending()) == ([], 4)
            assert memory.search("kettle", user_id="ann").pending == 0
            assert len(embedder.texts) == 4
            memory.search("kettle", user_id="ann")
            assert (len(embedder.texts), len(embedder.queries)) == (4, 2)

    def test_catching_up_is_bounded(self, tmp_path: Path) -> None:
        embedder = Counting()
        with opened(tmp_path, embedder, catch_up_seconds=0) as memory:
            memory.add_turns([TurnDraft("s", "user", f"turn number {place}") for place in range(200)], user_id="ann")
            hits = memory.search("turn", user_id="ann")
            assert len(embedder.texts) == 64  # one batch
            assert hits.pending == 136
            assert [(item.part, item.count) for item in hits.degraded] == [("dense", 136)]
            assert memory.search("number", user_id="ann", mode="bm25").degraded == ()
            assert len(embedder.texts) == 64

    def test_another_user_s_turns_are_not_embedded_by_a_search(self, tmp_path: Path) -> None:
        embedder = Counting()
        with opened(tmp_path, embedder) as memory:
            memory.add(TALK, user_id="ann")
            memory.add(TALK, user_id="bob")
            memory.search("kettle", user_id="ann")
            assert (len(embedder.texts), memory.pending(user_id="bob")) == (4, 4)

    def test_an_embedder_that_is_down_is_an_error_and_words_still_work(self, tmp_path: Path) -> None:
        with opened(tmp_path, FailingEmbedder()) as memory:
            memory.add(TALK, user_id="ann")
            for call in (memory.search, memory.recall, memory.ask):
                with pytest.raises(ModelRequestError):
                    call("kettle", user_id="ann")
            hits = memory.search("kettle", user_id="ann", mode="bm25")
            assert (len(hits), hits.pending) == (1, 4)

    def test_without_an_embedder_nothing_is_missing(self, tmp_path: Path) -> None:
        with opened(tmp_path) as memory:
            memory.add(TALK, user_id="ann")
            hits = memory.search("kettle", user_id="ann")
            assert hits[0].turn.external_id == "m1"
            assert (hits.degraded, hits.pending) == ((), 0)
            assert memory.recall("kettle", user_id="ann").degraded == ()
            assert (memory.embedder, memory.pending()) == (None, 0)
            for mode in ("dense", "rrf", "interpolation"):
                with pytest.raises(ModelNotAvailableError, match=mode):
                    memory.search("kettle", user_id="ann", mode=mode)
            for work in (memory.index, memory.reindex):
                with pytest.raises(ModelNotAvailableError, match="no embedder"):
                    work()
            assert memory.reindex(text=True) == 0

    def test_index_embeds_everyone_or_one(self, tmp_path: Path) -> None:
        embedder = Counting()
        with opened(tmp_path, embedder) as memory:
            memory.add(TALK, user_id="ann")
            memory.add(TALK, user_id="bob")
            done: list[int] = []
            assert memory.index(user_id="ann", on_progress=done.append) == 0
            assert (sum(done), memory.pending()) == (4, 4)
            assert memory.index() == 0
            assert memory.stats().pending == 0
            assert len(embedder.texts) == 8


class TestAnotherEmbedder:  # EMB-03
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with opened(tmp_path, HashEmbedder(64)) as memory:
            memory.add({"role": "user", "content": "The tenor is called Iva"}, user_id="ann", session_id="s")
            memory.index()
        return tmp_path

    @pytest.mark.parametrize("other", [HashEmbedder(32), HashEmbedder(64, seed=1)], ids=["dimension", "weights"])
    def test_it_is_noticed_and_reindexing_mends_it(self, path: Path, other: Embedder) -> None:
        with opened(path, other) as memory:
            memory.add({"role": "user", "content": "The bass is called Ole"}, user_id="ann", session_id="s")
            assert len(memory.search("tenor", user_id="ann", mode="bm25")) == 1
            hits = memory.search("tenor", user_id="ann")
            assert hits[0].turn.text == "The tenor is called Iva"
            assert hits.pending == 2
            (said,) = hits.degraded
            assert "backread reindex" in said.reason
            assert HashEmbedder(64).fingerprint in said.reason
            assert "backread reindex" in memory.recall("tenor", user_id="ann").degraded[0].reason
            for mode in ("dense", "rrf", "interpolation"):
                with pytest.raises(ModelMismatchError, match="backread reindex"):
                    memory.search("tenor", user_id="ann", mode=mode)
            with pytest.raises(ModelMismatchError, match="backread reindex"):
                memory.index()
            assert memory.reindex() == 0
            for mode in MODES:
                for word, text in (("tenor", "The tenor is called Iva"), ("bass", "The bass is called Ole")):
                    found = memory.search(word, user_id="ann", mode=mode)
                    assert found[0].turn.text == text
                    assert (found.degraded, found.pending) == ((), 0)
            assert memory.verify().ok

    def test_an_interrupted_reindex_goes_on_where_it_stopped(self, path: Path) -> None:
        first = HashEmbedder(64)
        with opened(path, first) as memory:
            memory.add_turns([TurnDraft("s", "user", f"turn {place}") for place in range(300)], user_id="ann")
            memory.add({"role": "user", "content": "a kettle"}, user_id="bob")
            memory.index()
        other = Counting(32, seed=5, budget=130)
        with opened(path, other) as memory:
            with pytest.raises(ModelRequestError):
                memory.reindex()
            assert memory.stats().embedder == first.fingerprint
        with opened(path, first) as memory:  # the old vectors serve meanwhile
            assert memory.search("tenor", user_id="ann", mode="dense")[0].turn.text == "The tenor is called Iva"
        done = len(other.texts) - 64
        other.budget = None
        other.texts.clear()
        with opened(path, other) as memory:
            assert memory.reindex() == 0
            assert len(other.texts) == 302 - done
            assert memory.stats().embedder == other.fingerprint
            assert memory.search("tenor", user_id="ann", mode="dense")[0].turn.text == "The tenor is called Iva"
            assert memory.search("kettle", user_id="bob", mode="dense").degraded == ()

    def test_reindexing_the_text_changes_nothing_that_is_right(self, path: Path) -> None:
        with opened(path, HashEmbedder(64)) as memory:
            before = memory.search("tenor", user_id="ann")
            assert memory.reindex(text=True) == 0
            assert memory.search("tenor", user_id="ann") == before


class TestRecallAndAsk:
    def test_recall(self, talked: Memory) -> None:
        recall = talked.recall("Which kettle did Ann buy?", user_id="ann", asked_at="2024-07-01")
        assert "I bought a copper kettle." in recall.rendered
        assert recall.tokens <= talked.settings.budget
        assert recall.asked_at == datetime(2024, 7, 1, tzinfo=UTC)
        assert (recall.strategy, recall.counter) == ("naive_rag", "estimate-1")

    def test_budgets(self, talked: Memory) -> None:
        for _ in range(3):
            talked.add({"role": "user", "content": "kettle " * 600}, user_id="ann", session_id="long")
        default = talked.recall("kettle", user_id="ann")
        assert 500 < default.tokens <= 1000
        assert talked.recall("kettle", user_id="ann", budget=None).tokens > 1800
        assert talked.recall("kettle", user_id="ann", budget=60).tokens <= 60
        nothing = talked.recall("kettle", user_id="ann", budget=0)
        assert (nothing.rendered, nothing.tokens, nothing.overflow) == ("", 0, False)
        assert talked.recall("kettle", user_id="ann", budget=3).overflow

    def test_the_default_budget_is_a_setting(self, tmp_path: Path) -> None:
        with opened(tmp_path, budget=150) as memory:
            memory.add({"role": "user", "content": "kettle " * 600}, user_id="ann")
            assert 130 < memory.recall("kettle", user_id="ann").tokens <= 150

    def test_a_budget_below_nothing_is_refused(self, talked: Memory) -> None:
        for call in (talked.recall, talked.ask):
            with pytest.raises(InvalidInputError, match="-1"):
                call("kettle", user_id="ann", budget=-1)

    def test_a_blank_question_is_refused(self, talked: Memory) -> None:
        for call in (talked.recall, talked.ask):
            with pytest.raises(InvalidInputError, match="blank"):
                call(" \n", user_id="ann")

    def test_a_strategy_by_name_or_made_by_hand(self, talked: Memory) -> None:
        whole = talked.recall("kettle", user_id="ann", strategy="full_context")
        assert [line.text for line in whole.evidence] == [message["content"] for message in TALK]
        mine = NaiveRag(Bm25Retriever(), top_k=1)
        assert [line.text for line in talked.recall("kettle", user_id="ann", strategy=mine).evidence] == [
            "I bought a copper kettle."
        ]
        with pytest.raises(NotFoundError, match="nonsense"):
            talked.recall("kettle", user_id="ann", strategy="nonsense")

    def test_as_of(self, talked: Memory) -> None:
        recall = talked.recall("kettle ferry lamp", user_id="ann", as_of="2024-05-01T09:00:30Z")
        assert [line.text for line in recall.evidence] == ["I bought a copper kettle."]
        assert [(item.part, item.count) for item in recall.degraded] == [("as_of", 1)]
        answer = talked.ask("Which kettle?", user_id="ann", as_of="2024-05-01T09:00:30Z")
        assert [citation.quote for citation in answer.citations] == ["I bought a copper kettle."]

    def test_ask_without_a_chat_model_quotes(self, talked: Memory) -> None:
        answer = talked.ask("Which kettle did Ann buy?", user_id="ann")
        assert answer.extractive
        assert answer.text.startswith("“I bought a copper kettle.” — Ann, 2024-05-01 09:00 [")
        assert talked.get(answer.citations[0].turn_id, user_id="ann").external_id == "m1"

    def test_ask_with_a_chat_model_checks_its_citations(self, tmp_path: Path) -> None:
        reply = 'A copper one [1], and a car [1].\nQUOTES\n[1] "copper kettle"'
        chat = FakeChat({"Which kettle": reply}, name="m")
        settings = Settings(path=tmp_path / "m.db", embedder="none")
        with Memory.open(model=chat, settings=settings) as memory:
            memory.add(TALK[:1], user_id="ann")
            assert memory.chat is chat
            answer = memory.ask("Which kettle did Ann buy?", user_id="ann", asked_at="2024-05-02")
            assert (answer.text, answer.model) == ("A copper one [1], and a car [1].", "m")
            assert [citation.quote for citation in answer.citations] == ["copper kettle"]
            (request,) = chat.requests
            assert "Now: 2024-05-02 00:00\nQuestion: Which kettle did Ann buy?" in request.question
            with pytest.raises(ModelRequestError):
                memory.ask("Any other kettle?", user_id="ann")

    def test_nothing_found_and_a_model_that_is_down_don_t_look_alike(self, tmp_path: Path) -> None:
        settings = Settings(path=tmp_path / "m.db", embedder="none")
        with Memory.open(settings=settings) as memory:
            answer = memory.ask("Which kettle?", user_id="nobody")
            assert (answer.text, answer.citations, answer.degraded) == ("The record has nothing on this.", (), ())
            memory.add({"role": "user", "content": "A copper kettle."}, user_id="ann")
        down = FunctionChat(lambda request: (_ for _ in ()).throw(ModelRequestError("down")))
        with Memory.open(model=down, settings=settings) as memory, pytest.raises(ModelRequestError, match="down"):
            memory.ask("Which kettle?", user_id="ann")


class TestReading:
    def test_get_by_either_id(self, talked: Memory) -> None:
        turn = talked.get("m1", user_id="ann")
        assert talked.get(turn.turn_id, user_id="ann") == turn
        for turn_id in ("m9", "", turn.turn_id):
            with pytest.raises(NotFoundError, match="no turn"):
                talked.get(turn_id, user_id="eve" if turn_id else "ann")

    def test_turns_of_a_session(self, talked: Memory) -> None:
        assert [turn.external_id for turn in talked.turns(user_id="ann", session_id="s2")] == ["m4"]
        with pytest.raises(NotFoundError, match="s9"):
            talked.turns(user_id="ann", session_id="s9")
        with pytest.raises(InvalidInputError, match="session_id"):
            talked.turns(user_id="ann", session_id="")
        assert list(talked.turns(user_id="nobody")) == []

    def test_sessions_users_and_counts(self, talked: Memory) -> None:
        assert [(session.session_id, session.turns) for session in talked.sessions(user_id="ann")] == [
            ("s1", 3),
            ("s2", 1),
        ]
        assert talked.users() == ["ann"]
        stats = talked.stats(user_id="ann")
        assert (stats.turns, stats.sessions, stats.pending) == (4, 2, 4)
        assert talked.stats(user_id="nobody").turns == 0
        assert talked.verify().ok


class TestDelete:  # DEL-03
    def test_a_turn_a_session_and_everything(self, talked: Memory) -> None:
        talked.add(TALK, user_id="vic", session_id="s1")
        talked.search("kettle", user_id="ann")
        assert talked.delete(user_id="ann", turn_id="m1").turns == 1
        assert len(talked.search("kettle", user_id="ann", mode="bm25")) == 0
        receipt = talked.delete(user_id="ann", session_id="s1")
        assert (receipt.turns, receipt.sessions) == (2, 1)
        assert texts(talked) == ["My lamp is green."]
        assert talked.delete(user_id="ann").turns == 1
        assert talked.users() == ["vic"]
        assert len(talked.search("kettle", user_id="vic")) >= 1
        assert talked.verify().ok

    @pytest.mark.parametrize("scope", [{"session_id": None}, {"session_id": ""}, {"turn_id": None}, {"turn_id": " "}])
    def test_none_is_never_all(self, talked: Memory, scope: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError, match="must be a non-empty text"):
            talked.delete(user_id="ann", **scope)
        assert len(texts(talked)) == 4

    def test_ids_of_nothing_erase_nothing(self, talked: Memory) -> None:
        assert talked.delete(user_id="nobody").turns == 0
        assert talked.delete(user_id="ann", session_id="s9").turns == 0
        assert talked.delete(user_id="ann", turn_id="m9").turns == 0
        assert talked.delete(user_id="ann", turn_id="m1", session_id="s2").turns == 0
        assert len(texts(talked)) == 4


class TestExport:
    MESSAGES: tuple[dict[str, Any], ...] = (
        {"role": "user", "content": "plain"},
        {
            "role": "user",
            "content": "café \x00 \ud800 \u2028\n",
            "name": "Zoë\n",
            "id": "a/1",
            "timestamp": "2024-05-01T09:00",
        },
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}], "timestamp": "2024-05-01T09:00:01.5+05:30"},
        {"role": "user", "content": "better", "supersedes": "a/1", "timestamp": 1714554000},
        {"role": "participant", "content": "spring", "caption": "a hill", "said_text": "last spring"},
    )

    def test_an_export_comes_back_as_it_was(self, memory: Memory, tmp_path: Path) -> None:
        memory.add(list(self.MESSAGES), user_id="ann", session_id="s/1")
        memory.add(
            {"role": "user", "content": "plain", "timestamp": "2020-01-01T00:00Z"}, user_id="ann", session_id="s0"
        )
        exported = list(memory.export(user_id="ann"))
        file = tmp_path / "ann.jsonl"
        file.write_text("".join(json.dumps(message) + "\n" for message in exported), encoding="utf-8")
        imported = read_jsonl(file)
        (tmp_path / "other").mkdir()
        with opened(tmp_path / "other") as other:
            for session in imported.sessions:
                assert not other.add_turns(session.turns, user_id=session.user_id).rejected
            mine, theirs = list(memory.turns(user_id="ann")), list(other.turns(user_id="ann"))
            for old, new in zip(mine, theirs, strict=True):
                for name in ("session_id", "position", "role", "text", "speaker", "caption", "attachments", "said_at"):
                    assert getattr(new, name) == getattr(old, name), name
                assert (new.said_text, new.offset_known) == (old.said_text, old.offset_known)
                assert new.external_id == (old.external_id or old.turn_id)
            assert [turn.text for turn in theirs if turn.supersedes] == ["better"]
        for session in imported.sessions:  # and into the same store: nothing new
            receipt = memory.add_turns(session.turns, user_id=session.user_id)
            assert (receipt.stored, receipt.known, receipt.rejected) == (0, len(session.turns), ())
        assert list(memory.export(user_id="ann")) == exported


class TestOpening:
    def test_arguments_go_before_everything(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        config = tmp_path / "config.toml"
        config.write_text('embedder = "none"\nbudget = 11\nzone = "Europe/Paris"\n', encoding="utf-8")
        monkeypatch.setenv("BACKREAD_CONFIG", str(config))
        monkeypatch.setenv("BACKREAD_BUDGET", "22")
        monkeypatch.setenv("BACKREAD_PATH", str(tmp_path / "environment.db"))
        with Memory.open() as memory:
            settings = memory.settings
            assert (settings.embedder, settings.budget, settings.zone) == ("none", 22, "Europe/Paris")
            assert settings.path == tmp_path / "environment.db"
        with Memory.open(tmp_path / "argument.db") as memory:
            assert memory.settings.path == tmp_path / "argument.db"
        assert (tmp_path / "argument.db").exists()

    def test_arguments_go_before_settings(self, tmp_path: Path) -> None:
        settings = Settings(path=tmp_path / "a.db", embedder="nonsense", model="m")
        chat = FunctionChat(lambda request: "x")
        with Memory.open(tmp_path / "b.db", embedder="none", model=chat, settings=settings) as memory:
            assert memory.settings.path == tmp_path / "b.db"
            assert (memory.embedder, memory.chat) == (None, chat)
        assert not (tmp_path / "a.db").exists()

    def test_weights_that_are_missing_are_a_degradation(self, tmp_path: Path) -> None:
        with Memory.open(tmp_path / "m.db") as memory:
            memory.add(TALK, user_id="ann")
            hits = memory.search("kettle", user_id="ann")
            assert hits[0].turn.external_id == "m1"
            (said,) = hits.degraded
            assert said.part == "dense"
            assert "backread models fetch" in said.reason
            assert memory.recall("kettle", user_id="ann").degraded == (said,)
            with pytest.raises(ModelNotAvailableError):
                memory.search("kettle", user_id="ann", mode="dense")
            with pytest.raises(ModelNotAvailableError, match="models fetch"):
                memory.index()

    def test_a_chat_model_without_an_endpoint_stops_only_what_needs_it(self, tmp_path: Path) -> None:  # CFG-01
        with Memory.open(tmp_path / "m.db", embedder="none", model="m") as memory:
            memory.add({"role": "user", "content": "The kettle is copper."}, user_id="ann")
            assert len(memory.search("kettle", user_id="ann")) == 1
            with pytest.raises(ModelNotAvailableError) as caught:
                memory.ask("What is the kettle made of?", user_id="ann")
            assert "OPENAI_BASE_URL" in (caught.value.hint or "")
        settings = Settings(path=tmp_path / "m.db", embedder="none", model="m", base_url="http://127.0.0.1:9/v1")
        with Memory.open(settings=settings) as memory:
            assert isinstance(memory.chat, OpenAIChat)
            assert memory.chat.name == "m"

    def test_each_role_has_its_model(self, tmp_path: Path) -> None:
        replies = FakeChat({"kettle": "It is copper [1]."}, name="answers")
        roles = ChatRoles(recall=FakeChat({}, name="recalls"), answer=replies)
        settings = Settings(path=tmp_path / "m.db", embedder="none")
        with Memory(SqliteStore(settings.path), settings, chat=roles) as memory:
            memory.add({"role": "user", "content": "The kettle is copper."}, user_id="ann")
            answer = memory.ask("What is the kettle made of?", user_id="ann")
        assert (answer.model, [usage.purpose for usage in answer.usage]) == ("answers", ["answer"])

    def test_a_small_window_gets_the_best_half_of_the_evidence(self, tmp_path: Path) -> None:  # LLM-08
        asked: list[str] = []

        def reply(request: ChatRequest) -> str:
            asked.append(request.messages[-1].content)
            if len(asked) == 1:
                raise ContextWindowError("too long")
            return "It is copper [1]."

        with Memory.open(tmp_path / "m.db", embedder="none", model=FunctionChat(reply)) as memory:
            for text in ("The kettle is copper.", "A kettle whistles.", "Kettle one.", "My kettle fell."):
                memory.add({"role": "user", "content": text}, user_id="ann")
            answer = memory.ask("What is the kettle made of?", user_id="ann")
        assert (asked[0].count("\n["), asked[1].count("\n[")) == (4, 2)
        assert [(item.part, item.count) for item in answer.degraded] == [("window", 2)]
        assert len(answer.recall.evidence) == 2

    def test_an_unknown_embedder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match="nonsense"):
            Memory.open(tmp_path / "m.db", embedder="nonsense")

    def test_a_part_that_is_none_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="embedder is a name or an instance of Embedder, not dict"):
            Memory.open(tmp_path / "m.db", embedder={})  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="model is a name or an instance of ChatModel, not HashEmbedder"):
            Memory.open(tmp_path / "m.db", model=HashEmbedder())  # type: ignore[arg-type]

    def test_a_store_that_is_no_store(self, tmp_path: Path) -> None:
        (tmp_path / "m.db").write_bytes(b"not a database at all, but long enough to look at" * 100)
        with pytest.raises(StoreError):
            Memory.open(tmp_path / "m.db", embedder="none")

    def test_closing(self, tmp_path: Path) -> None:
        with opened(tmp_path) as memory:
            memory.add(TALK, user_id="ann")
        memory.close()
        with pytest.raises(StoreError):
            memory.search("kettle", user_id="ann")
        with pytest.raises(ZeroDivisionError), opened(tmp_path) as memory:
            raise ZeroDivisionError
        with pytest.raises(StoreError):
            memory.users()


class Deleting(HashEmbedder):
    """Another thread deletes a turn while the query is embedded, after the corpus was read."""

    def __init__(self) -> None:
        super().__init__(2048)
        self.memory: Memory | None = None

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[Any]:
        if kind == "query" and self.memory is not None:
            self.memory.delete(user_id="ann", turn_id="m1")
        return super().embed(texts, kind=kind)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "rrf", "interpolation"])
def test_a_turn_that_is_deleted_during_a_search_is_left_out(tmp_path: Path, mode: SearchMode) -> None:
    embedder = Deleting()
    with opened(tmp_path, embedder) as memory:
        memory.add([*TALK, {"role": "user", "content": "Another kettle."}], user_id="ann")
        memory.index()
        embedder.memory = memory
        hits = memory.search("kettle", user_id="ann", mode=mode)
        assert [hit.turn.text for hit in hits][:1] == ["Another kettle."]


def test_a_turn_that_is_deleted_during_a_question_is_left_out(tmp_path: Path) -> None:
    embedder = Deleting()
    with opened(tmp_path, embedder) as memory:
        memory.add([*TALK, {"role": "user", "content": "Another kettle."}], user_id="ann")
        memory.index()
        embedder.memory = memory
        answer = memory.ask("kettle", user_id="ann")
        assert answer.text.startswith("“Another kettle.”")
        assert all(memory.get(citation.turn_id, user_id="ann") for citation in answer.citations)


def test_many_threads(tmp_path: Path) -> None:
    with opened(tmp_path, HashEmbedder()) as memory, ThreadPoolExecutor(8) as pool:

        def work(number: int) -> list[str]:
            user = f"u{number % 3}"
            memory.add({"role": "user", "content": f"kettle number{number}", "id": f"m{number}"}, user_id=user)
            memory.recall("kettle", user_id=user)
            hits = memory.search(f"number{number}", user_id=user, mode="bm25")
            return [hit.turn.text for hit in hits]

        assert list(pool.map(work, range(60))) == [[f"kettle number{number}"] for number in range(60)]
        memory.index()
        assert memory.stats().turns == 60
        assert memory.verify().ok
