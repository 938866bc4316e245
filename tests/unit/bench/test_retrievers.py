"""The oracle and the cap, on units of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from memory_samples import TALK, opened

from backread import Memory
from backread.bench.retrievers import Capped, OracleRetriever
from backread.errors import InvalidInputError
from backread.retrieval.bm25 import Bm25Retriever
from backread.store.corpus import Corpus
from backread.store.history import History, Scope
from backread.types import EntryDraft, Ranking, Source, Unit


@pytest.fixture(name="history")
def _history(talked: Memory) -> History:
    return talked.history("ann")


def oracle(history: History, *external_ids: str) -> OracleRetriever:
    return OracleRetriever(history.turns_by_id(external_ids))


def texts(corpus: Corpus, ranking: Ranking) -> list[list[str]]:
    return [[turn.text for turn in corpus.turns(unit)] for unit in corpus.find([i.unit_id for i in ranking.items])]


# In history order: the session without a time stands where it arrived, after the other.
@pytest.mark.parametrize(
    ("unit", "found"),
    [
        ("turn", [["Descale it with vinegar."], ["My lamp is green."]]),
        ("user_turn", [["My lamp is green."]]),
        ("round", [["I bought a copper kettle.", "Descale it with vinegar."], ["My lamp is green."]]),
        ("session", [[message["content"] for message in TALK[:3]], ["My lamp is green."]]),
    ],
)
def test_units_with_a_gold_turn_and_no_others(history: History, unit: Unit, found: list[list[str]]) -> None:
    corpus = history.corpus(unit)
    ranking = oracle(history, "m4", "m2").search(corpus, "zeppelin", 10)
    assert texts(corpus, ranking) == found
    assert {item.score for item in ranking.items} == {1.0}
    assert ranking.degraded == ()


def test_history_order_is_kept_when_fewer_are_asked_for(history: History) -> None:
    corpus = history.corpus()
    assert texts(corpus, oracle(history, "m3", "m1").search(corpus, "?", 1)) == [["I bought a copper kettle."]]
    with pytest.raises(InvalidInputError, match="top_k"):
        oracle(history, "m1").search(corpus, "?", 0)


def test_without_gold_there_is_nothing(history: History) -> None:
    assert OracleRetriever([]).search(history.corpus("session"), "kettle", 10) == Ranking(())


def test_gold_out_of_scope_is_not_found(history: History) -> None:
    scope = Scope(roles=["user"])
    found = oracle(history, "m2")
    assert found.search(history.corpus("turn", scope), "?", 10) == Ranking(())
    assert found.search(history.corpus("session", scope), "?", 10) == Ranking(())
    assert texts(history.corpus("round", scope), found.search(history.corpus("round", scope), "?", 10)) == []


def test_entries_are_relevant_by_their_sources(history: History) -> None:
    first, second, third = (turn.turn_id for turn in history.turns_by_id(["m1", "m2", "m3"]))
    drafts = [
        EntryDraft(name, "notes", "note", {}, f"note {name}", tuple(Source(turn_id) for turn_id in sources))
        for name, sources in (("a", [first]), ("b", [second]), ("c", [third, second]), ("d", [third]))
    ]
    history.commit("notes", 0, drafts)
    corpus = history.corpus(("notes", "note"))
    ranking = oracle(history, "m2").search(corpus, "?", 10)
    assert [item.unit_id for item in ranking.items] == ["b", "c"]
    assert oracle(history, "m4").search(corpus, "?", 10) == Ranking(())


def test_its_settings_hold_nothing_of_the_gold(history: History) -> None:
    assert oracle(history, "m2").config == {"retriever": "oracle"}


def test_a_cap_gives_the_head_of_the_ranking(history: History) -> None:
    corpus, inner = history.corpus(), Bm25Retriever()
    question = "kettle vinegar ferry lamp"
    longest = inner.search(corpus, question, 10).items
    assert len(longest) == 4
    capped = Capped(inner, 2)
    assert [capped.search(corpus, question, top_k).items for top_k in (1, 2, 50)] == [
        longest[:1],
        longest[:2],
        longest[:2],
    ]
    with pytest.raises(InvalidInputError, match="top_k"):
        capped.search(corpus, question, 0)


def test_a_cap_is_named_in_the_settings() -> None:
    inner = Bm25Retriever()
    assert Capped(inner, 3).name == "bm25"
    assert Capped(inner, 3).config == {**inner.config, "capped_at": 3}
    with pytest.raises(InvalidInputError, match="depth must be at least 1, not 0"):
        Capped(inner, 0)


def test_a_recall_with_a_cap_shows_no_more(talked: Memory) -> None:
    question = "kettle vinegar ferry lamp"
    for depth in (1, 3):
        recall = talked.recall(question, user_id="ann", budget=None, retriever=Capped(talked.retriever("bm25"), depth))
        assert len(recall.evidence) == depth


def test_a_recall_with_the_oracle_shows_the_gold(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.add(TALK, user_id="ann", session_id="s1")
        gold = memory.history("ann").turns_by_id(["m3"])
        recall = memory.recall("zeppelin", user_id="ann", budget=None, retriever=OracleRetriever(gold))
        assert [line.text for line in recall.evidence] == ["The ferry leaves at seven."]
