"""`Memory`: what users call, over a real store; models are fakes, nothing is patched."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from memory_samples import MODES, TALK, Counting, opened, texts

from backread import Memory
from backread.errors import (
    BackreadError,
    BlankTextError,
    ConflictError,
    InvalidInputError,
    ModelMismatchError,
    ModelNotAvailableError,
    ModelRequestError,
    NotFoundError,
    TimeError,
)
from backread.models.base import Embedder
from backread.retrieval.bm25 import Bm25Retriever
from backread.settings import Settings
from backread.store.migrations import meta_sum
from backread.strategies.naive_rag.strategy import NaiveRag
from backread.testing.fakes import FailingEmbedder, FakeChat, FunctionChat, HashEmbedder
from backread.types import TurnDraft


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
    def test_every_mode_finds_the_words(self, talked: Memory, mode: str) -> None:
        hits = talked.search("copper kettle", user_id="ann", mode=mode, top_k=2)
        assert hits[0].turn.text == "I bought a copper kettle."
        assert 1 <= len(hits) <= 2
        assert (hits.degraded, hits.pending) == ((), 4 if mode == "bm25" else 0)  # words don't wait for vectors

    def test_an_unknown_mode_lists_the_known_ones(self, talked: Memory) -> None:
        with pytest.raises(InvalidInputError) as caught:
            talked.search("x", user_id="ann", mode="bm52")
        assert all(mode in (caught.value.hint or "") for mode in MODES)

    @pytest.mark.parametrize("query", ["", "  \n", "\u3000"])
    def test_a_blank_query_is_refused(self, talked: Memory, query: str) -> None:
        with pytest.raises(InvalidInputError, match="blank"):
            talked.search(query, user_id="ann")

    @pytest.mark.parametrize("mode", MODES)
    def test_a_query_without_a_term_finds_nothing(self, talked: Memory, mode: str) -> None:
        assert len(talked.search("?!", user_id="ann", mode=mode)) == 0

    @pytest.mark.parametrize("top_k", [0, -3])
    def test_top_k_is_at_least_one(self, talked: Memory, top_k: int) -> None:
        with pytest.raises(InvalidInputError, match="top_k"):
            talked.search("kettle", user_id="nobody", top_k=top_k)

    @pytest.mark.parametrize("mode", MODES)
    def test_equal_texts_take_one_place(self, memory: Memory, mode: str) -> None:  # VER-05
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


class TestTextIndex:
    def test_an_index_of_another_analysis_is_used_and_said_to_be(self, tmp_path: Path) -> None:
        path = tmp_path / "m.db"
        settings = Settings(path=path, embedder="none")
        with Memory.open(settings=settings) as memory:
            memory.add({"role": "user", "content": "The kettle is copper."}, user_id="ann")
            assert memory.search("kettle", user_id="ann").degraded == ()
        old = b"backread-0"
        with closing(sqlite3.connect(path)) as db, db:
            sql = "UPDATE meta SET value = ?, sum = ? WHERE name = 'analyzer'"
            db.execute(sql, (old, meta_sum("analyzer", old)))
        with Memory.open(settings=settings) as memory:
            memory.add({"role": "user", "content": "A kettle whistles."}, user_id="ann")
            hits = memory.search("kettle", user_id="ann")
            assert (len(hits), [item.part for item in hits.degraded]) == (2, ["text"])
            assert "reindex --text" in hits.degraded[0].reason
            memory.reindex(text=True)
            assert memory.search("kettle", user_id="ann").degraded == ()


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
