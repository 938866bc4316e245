"""Two stages: more candidates than are returned, nothing lost when the second one fails."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import InvalidInputError, ModelError, ModelNotAvailableError, ModelOutputError, ModelRequestError
from backread.models.base import Embedder, Reranker
from backread.models.llm_rerank import LLMReranker
from backread.retrieval.base import Retriever
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.hybrid import HybridRetriever
from backread.retrieval.registry import RETRIEVERS, create_retriever
from backread.retrieval.rerank import RerankedRetriever, shown_texts
from backread.store.corpus import Corpus
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.testing.contracts_retrievers import RetrieverContract
from backread.testing.fake_rerankers import FakeReranker
from backread.testing.fakes import FunctionChat, HashEmbedder
from backread.types import Degradation, EntryDraft, Ranking, ScoredUnit, Source, TurnDraft


class First:
    """A first stage with an order of its own, by the texts of turns."""

    name = "first"
    config: Mapping[str, Any] = {"retriever": "first"}

    def __init__(self, order: Sequence[str], degraded: tuple[Degradation, ...] = ()) -> None:
        self.order, self.degraded = order, degraded
        self.asked: list[int] = []

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        self.asked.append(top_k)
        ids = {corpus.turns(unit)[0].text: unit_id for unit, unit_id in enumerate(corpus.unit_ids(range(corpus.size)))}
        items = [ScoredUnit(ids[text], 1 / rank) for rank, text in enumerate(self.order, 1)]
        return Ranking(tuple(items[:top_k]), self.degraded)


def texts(history: History, ranking: Ranking) -> list[str]:
    return [turn.text for turn in history.turns_by_id([item.unit_id for item in ranking.items])]


def by(scores: Mapping[str, float], other: float = 0.1) -> FakeReranker:
    return FakeReranker(lambda question, text: scores.get(text.removeprefix("ann: "), other))


SIX = [f"t{number}" for number in range(1, 7)]


@pytest.fixture
def history(keep: Callable[..., History]) -> History:
    return keep(*SIX[::-1])  # in history order, ties would come out the other way round


@pytest.mark.parametrize("name", sorted(set(RETRIEVERS) - {"sparse"}))
class TestContract(RetrieverContract):
    @pytest.fixture
    def retriever(self, embedder: Embedder, name: str) -> Retriever:
        return create_retriever(name, embedder, reranker=FakeReranker())


class TestContractWithoutScores(RetrieverContract):
    """A reranker that scores only some: the others keep their places below."""

    @pytest.fixture
    def retriever(self) -> Retriever:
        def score(question: str, text: str) -> float:
            return 1.0 if "kettle" in text or len(text) % 2 else 0.5

        return RerankedRetriever(Bm25Retriever(), FakeReranker(score))


def test_what_was_just_below_the_cut_comes_in(history: History) -> None:
    # RET-02
    first, reranker = First(SIX), by({"t6": 0.99})
    ranking = RerankedRetriever(first, reranker).search(history.corpus(), "q", 2)
    assert texts(history, ranking) == ["t6", "t1"]
    assert len(reranker.requests[0][1]) == 6
    assert first.asked == [50]
    assert ranking.degraded == ()


def test_a_failing_reranker_leaves_the_first_stage(history: History) -> None:
    # RET-02
    note = Degradation("dense", "2 vectors pending", 2)
    for error in (ModelRequestError("down"), ModelNotAvailableError("gone"), ModelOutputError("NaN")):
        retriever = RerankedRetriever(First(SIX, (note,)), FakeReranker(error=error))
        ranking = retriever.search(history.corpus(), "q", 2)
        assert texts(history, ranking) == ["t1", "t2"]
        assert ranking.degraded == (note, Degradation("rerank", f"reranking was skipped: {error}", 6))
        with pytest.raises(type(error)):
            RerankedRetriever(First(SIX), FakeReranker(error=error), strict=True).search(history.corpus(), "q", 2)


def test_the_depth_is_a_setting_of_its_own(history: History) -> None:
    first, reranker = First(SIX), FakeReranker()
    retriever = RerankedRetriever(first, reranker, depth=4)
    retriever.search(history.corpus(), "q", 1)
    retriever.search(history.corpus(), "q", 2)
    assert first.asked == [4, 6]  # three for each that is returned, where that is more
    assert [len(shown) for _, shown in reranker.requests] == [4, 6]
    with pytest.raises(InvalidInputError, match="depth"):
        RerankedRetriever(first, reranker, depth=0)
    with pytest.raises(InvalidInputError, match="top_k"):
        retriever.search(history.corpus(), "q", 0)


# RET-03; letters are the texts, numbers what the reranker was offered for them
@pytest.mark.parametrize(
    ("reply", "order", "note"),
    [
        ("1: 5\n2: 2.0\n3: 0.3", "abcd", "gave no usable score"),
        ("1: 0.3\n2: 5\n3: 2.0", "bcad", "gave no usable score"),
        ("1: 9\n9: 8\n2: x", "abcd", "scored 1 of 4 candidates"),
        ("2: 9\n9: 8\n1: x", "abcd", "scored 1 of 4 candidates"),
        ("Scores: [0.2, 0.9]", "abcd", "gave no grade"),
        (" ", "abcd", "gave no grade"),
        ('{"scores": {"1": "0.7", "2": null}}', "abcd", "scored 1 of 4 candidates"),
        ("I cannot rank these.", "abcd", "gave no grade"),
        ("4: 1\n2: 0.5", "dbac", "gave no usable score"),
        ("1: 0\n2: 0.1\n3: 0.2\n4: 0.3", "dcba", None),
    ],
)
def test_replies_of_a_chat_model(keep: Callable[..., History], reply: str, order: str, note: str | None) -> None:
    history = keep(*"dcba")
    for top_k in (1, 2, 4, 9):
        retriever = RerankedRetriever(First("abcd"), LLMReranker(FunctionChat(lambda request: reply)))
        ranking = retriever.search(history.corpus(), "q", top_k)
        assert "".join(texts(history, ranking)) == order[:top_k]
        assert len(ranking.items) == min(top_k, 4)
        assert [item.part for item in ranking.degraded] == (["rerank"] if note else [])
        assert all(note in item.reason for item in ranking.degraded if note)


def test_too_few_scores_are_an_error_when_asked_for(history: History) -> None:
    reranker = FakeReranker(lambda question, text: 1.0 if text == "t6" else math.nan)
    with pytest.raises(ModelOutputError, match="scored 1 of 6"):
        RerankedRetriever(First(SIX), reranker, strict=True).search(history.corpus(), "q", 2)


def test_unscored_candidates_are_counted_and_keep_their_order(history: History) -> None:
    reranker = FakeReranker(lambda question, text: {"t2": -9.0, "t4": 0.0, "t5": 9.0}.get(text, math.nan))
    ranking = RerankedRetriever(First(SIX), reranker).search(history.corpus(), "q", 6)
    assert texts(history, ranking) == ["t5", "t4", "t2", "t1", "t3", "t6"]
    assert [item.count for item in ranking.degraded] == [3]


def test_scores_fall_with_the_order_whatever_the_scale(history: History) -> None:
    for scale in (1e-6, 1.0, 1e3, 9e37):
        values = {text: float(np.float32(scale * (number - 3.5))) for number, text in enumerate(SIX)}
        ranking = RerankedRetriever(First(SIX), by(values)).search(history.corpus(), "q", 6)
        scores = [item.score for item in ranking.items]
        assert texts(history, ranking) == SIX[::-1]
        assert all(math.isfinite(score) and score > 0 for score in scores)
        assert all(left > right for left, right in itertools.pairwise(scores))


def test_scores_of_another_count_are_never_used(history: History) -> None:
    class Wrong(FakeReranker):
        def rerank(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.array([np.inf] * len(texts) if question == "infinite" else [1.0], np.float32)

    for question in ("few", "infinite"):
        ranking = RerankedRetriever(First(SIX), Wrong()).search(history.corpus(), question, 3)
        assert texts(history, ranking) == ["t1", "t2", "t3"]
        assert "gave scores of shape" in ranking.degraded[0].reason


def test_nothing_found_is_nothing_read(history: History) -> None:
    reranker = FakeReranker()
    note = Degradation("dense", "down")
    assert RerankedRetriever(First([], (note,)), reranker).search(history.corpus(), "q", 3) == Ranking((), (note,))
    assert reranker.requests == []


def test_equal_texts_are_read_once(keep: Callable[..., History]) -> None:
    history = keep("ok", "red kettle", "ok", "ok")
    reranker = FakeReranker()
    RerankedRetriever(Bm25Retriever(), reranker).search(history.corpus(), "ok kettle", 4)
    assert sorted(reranker.requests[0][1]) == ["ok", "red kettle"]


def test_what_is_shown_of_a_unit(store: SqliteStore) -> None:
    store.append(
        "ann",
        [
            TurnDraft("s", "user", "Look!", speaker="Ann", caption="a red kettle"),
            TurnDraft("s", "assistant", "A kettle."),
            TurnDraft("t", "user", "Bye."),
        ],
    )
    history = History(store, "ann")
    seen, heard = "Ann: Look! [image: a red kettle]", "A kettle."
    assert shown_texts(history.corpus(), [0, 1, 2]) == [seen, heard, "Bye."]
    assert shown_texts(history.corpus("session"), [0, 1]) == [f"{seen}\n{heard}", "Bye."]
    turn = next(iter(history.turns()))
    history.commit("lab", 0, [EntryDraft("e", "lab", "fact", {}, "Ann has a kettle.", (Source(turn.turn_id),))])
    assert shown_texts(history.corpus(("lab", "fact")), [0]) == ["Ann has a kettle."]


def test_entries_are_reranked(store: SqliteStore) -> None:
    store.append("ann", [TurnDraft("s", "user", "words")])
    history = History(store, "ann")
    source = (Source(next(iter(history.turns())).turn_id),)
    drafts = [EntryDraft(name, "lab", "fact", {}, f"kettle {name}", source) for name in ("old", "new")]
    history.commit("lab", 0, drafts)
    reranker = FakeReranker(lambda question, text: float("new" in text))
    ranking = RerankedRetriever(Bm25Retriever(), reranker).search(history.corpus(("lab", "fact")), "kettle", 1)
    assert [item.unit_id for item in ranking.items] == ["new"]


def test_turns_deleted_meanwhile_are_left_out(store: SqliteStore, history: History) -> None:
    corpus = history.corpus()

    class Deleting(First):
        def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
            found = super().search(corpus, question, top_k)
            store.delete("ann", turn_ids=[found.items[2].unit_id])
            return found

    ranking = RerankedRetriever(Deleting(SIX), by({"t6": 1.0})).search(corpus, "q", 6)
    assert texts(history, ranking) == ["t6", "t1", "t2", "t4", "t5"]


def test_the_config_names_all_that_changes_a_score() -> None:
    embedder = HashEmbedder()
    retriever = RerankedRetriever(HybridRetriever(embedder), FakeReranker(), depth=7)
    assert isinstance(retriever, Retriever)
    assert retriever.name == retriever.config["retriever"] == "hybrid+rerank"
    assert retriever.config["embedder"] == embedder.fingerprint
    assert (retriever.config["reranker"], retriever.config["depth"]) == (FakeReranker().fingerprint, 7)
    json.dumps(dict(retriever.config))


def test_by_name(history: History) -> None:
    reranker: Reranker = FakeReranker(error=ModelRequestError("down"))
    assert create_retriever("bm25", None, reranker=reranker).name == "bm25+rerank"
    made = create_retriever("bm25", None, reranker=reranker, depth=9, strict=True)
    assert made.config["depth"] == 9
    with pytest.raises(ModelError, match="down"):
        made.search(history.corpus(), "t1", 1)
    lenient = create_retriever("bm25", None, reranker=reranker)
    assert "down" in lenient.search(history.corpus(), "t1", 1).degraded[0].reason
