"""Learned sparse retrieval over an index that is filled when it is searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from backread.errors import InvalidInputError, ModelNotAvailableError, ModelOutputError
from backread.models.base import SparseVector
from backread.models.splade import OnnxSplade
from backread.retrieval.base import Retriever
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.fused import FusedRetriever
from backread.retrieval.registry import create_retriever
from backread.retrieval.sparse import MemorySparseIndex, SparseRetriever, pooled
from backread.store.history import History, Scope
from backread.store.sqlite import SqliteStore
from backread.testing.contracts_retrievers import RetrieverContract
from backread.testing.fake_rerankers import HashSparseEncoder
from backread.testing.tiny_models import write_splade
from backread.types import EntryDraft, Ranking, Source, TurnDraft


class Counting(HashSparseEncoder):
    """Remembers what it encoded."""

    def __init__(self, max_tokens: int = 254) -> None:
        super().__init__(max_tokens=max_tokens)
        self.documents: list[str] = []
        self.calls = 0
        self.broken = False

    def encode(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> list[SparseVector]:
        if self.broken:
            raise ModelOutputError("broken")
        if kind == "document":
            self.calls += 1
            self.documents += texts
        return super().encode(texts, kind=kind)


@pytest.fixture
def encoder() -> Counting:
    return Counting()


def search(history: History, retriever: Retriever, question: str, top_k: int = 10) -> list[str]:
    items = retriever.search(history.corpus(), question, top_k).items
    return [turn.text for turn in history.turns_by_id([item.unit_id for item in items])]


class TestContract(RetrieverContract):
    @pytest.fixture
    def retriever(self) -> Retriever:
        return SparseRetriever(MemorySparseIndex(HashSparseEncoder()))


class TestContractInFusion(RetrieverContract):
    @pytest.fixture
    def retriever(self) -> Retriever:
        return FusedRetriever(Bm25Retriever(), SparseRetriever(MemorySparseIndex(HashSparseEncoder())), "rrf")


def test_words_a_text_does_not_hold_are_found(keep: Callable[..., History], tmp_path: Path) -> None:
    """log(3) * log(3) for the dog itself; log(2) * log(2.5) by way of the pet, of which the ferry knows nothing."""
    expansions = {"dog": {"dog": 2.0, "pet": 1.0}, "cat": {"cat": 2.0, "pet": 1.5}, "ferry": {"ferry": 2.0}}
    model = OnnxSplade(write_splade(tmp_path / "tiny", ["dog", "cat", "pet", "ferry"], expansions))
    history = keep("a cat", "the ferry", "a dog")
    ranking = SparseRetriever(MemorySparseIndex(model)).search(history.corpus(), "dog", 9)
    assert [turn.text for turn in history.turns_by_id([item.unit_id for item in ranking.items])] == ["a dog", "a cat"]
    expected = [np.log(3) ** 2 + np.log(2) ** 2, np.log(2) * np.log(2.5)]
    np.testing.assert_allclose([item.score for item in ranking.items], expected, atol=1e-4)


def test_every_turn_is_encoded_once(keep: Callable[..., History], encoder: Counting) -> None:
    retriever = SparseRetriever(MemorySparseIndex(encoder))
    history = keep("red kettle", "blue lamp")
    assert search(history, retriever, "kettle") == ["red kettle"]
    assert search(history, retriever, "lamp") == ["blue lamp"]
    assert search(keep("green kettle"), retriever, "kettle") == ["red kettle", "green kettle"]
    assert encoder.documents == ["red kettle", "blue lamp", "green kettle"]
    keep("a kettle", user_id="bob")
    assert search(history, retriever, "kettle") == ["red kettle", "green kettle"]


def test_groups_and_scopes_use_the_same_vectors(store: SqliteStore, encoder: Counting) -> None:
    turns = [("s", "user", "Ann", "red kettle"), ("s", "assistant", None, "nice"), ("t", "user", "Bob", "red lamp")]
    store.append("ann", [TurnDraft(session, role, text, speaker=name) for session, role, name, text in turns])
    history, retriever = History(store, "ann"), SparseRetriever(MemorySparseIndex(encoder))
    found = retriever.search(history.corpus("session"), "red kettle", 9).items
    assert [item.unit_id for item in found] == ["s", "t"]
    assert found[0].score == retriever.search(history.corpus(), "red kettle", 9).items[0].score
    bob = retriever.search(history.corpus(scope=Scope(speakers=["Bob"])), "red kettle", 9).items
    assert [turn.text for turn in history.turns_by_id([item.unit_id for item in bob])] == ["red lamp"]
    assert encoder.documents == ["Ann: red kettle", "nice", "Bob: red lamp"]


def test_a_long_turn_is_encoded_by_passages(keep: Callable[..., History]) -> None:
    encoder = Counting(max_tokens=20)
    text = " ".join(f"Sentence {number} speaks of nothing much." for number in range(30)) + " The kettle is red."
    history = keep("something else", text)
    assert search(history, SparseRetriever(MemorySparseIndex(encoder)), "kettle") == [text]
    assert len(encoder.documents) > 5
    assert all(encoder.count_tokens(passage) <= 20 for passage in encoder.documents)


def test_what_is_deleted_leaves_the_index(store: SqliteStore, keep: Callable[..., History], encoder: Counting) -> None:
    index = MemorySparseIndex(encoder)
    history = keep("red kettle", "blue kettle")
    search(history, SparseRetriever(index), "kettle")
    first = next(iter(history.turns()))
    store.delete("ann", turn_ids=[first.turn_id])
    assert search(history, SparseRetriever(index), "kettle") == ["blue kettle"]
    assert [len(vectors.docs) for vectors in index._kept.values()] == [1]
    index.forget("ann")
    assert not index._kept


def test_entries_have_their_own_vectors(store: SqliteStore, encoder: Counting) -> None:
    store.append("ann", [TurnDraft("s", "user", "words")])
    history, retriever = History(store, "ann"), SparseRetriever(MemorySparseIndex(encoder))
    source = (Source(next(iter(history.turns())).turn_id),)

    def put(text: str, version: int) -> list[str]:
        history.commit("lab", version, [EntryDraft("e", "lab", "fact", {}, text, source)])
        items = retriever.search(history.corpus(("lab", "fact")), "kettle", 9).items
        return [item.unit_id for item in items]

    assert put("a kettle", 0) == ["e"]
    assert put("a lamp", 1) == []  # replaced under the same id: a new vector
    assert search(history, retriever, "words") == ["words"]


def test_time_is_up_after_the_batch_at_hand(keep: Callable[..., History], encoder: Counting) -> None:
    history = keep(*(f"kettle {number}" for number in range(150)))
    retriever = SparseRetriever(MemorySparseIndex(encoder, seconds=0))
    left = []
    for _ in range(3):
        ranking = retriever.search(history.corpus(), "kettle", 200)
        left.append([(item.part, item.count) for item in ranking.degraded])
        assert len(ranking.items) == 150 - sum(count or 0 for _, count in left[-1])
    assert left == [[("sparse", 86)], [("sparse", 22)], []]
    assert encoder.calls == 3


def test_turns_without_words_are_not_pending_for_ever(store: SqliteStore, encoder: Counting) -> None:
    store.append(
        "ann", [TurnDraft("s", "user", "", attachments=({"type": "image"},)), TurnDraft("s", "user", "kettle")]
    )
    history, retriever = History(store, "ann"), SparseRetriever(MemorySparseIndex(encoder))
    for _ in range(2):
        ranking = retriever.search(history.corpus(), "kettle", 9)
        assert (len(ranking.items), ranking.degraded) == (1, ())
    assert encoder.documents == ["kettle"]


def test_an_error_is_an_error_and_loses_nothing(keep: Callable[..., History], encoder: Counting) -> None:
    history, retriever = keep("kettle"), SparseRetriever(MemorySparseIndex(encoder))
    encoder.broken = True
    with pytest.raises(ModelOutputError):
        search(history, retriever, "kettle")
    encoder.broken = False
    assert search(history, retriever, "kettle") == ["kettle"]


def test_users_are_forgotten_in_turn(keep: Callable[..., History], encoder: Counting) -> None:
    index = MemorySparseIndex(encoder, users=2)
    for user in ("ann", "bob", "ann", "cyd", "ann", "bob"):
        history = History(keep(user_id=user)._store, user)
        if not list(history.turns()):
            history = keep("kettle", user_id=user)
        assert search(history, SparseRetriever(index), "kettle") == ["kettle"]
    assert len(encoder.documents) == 4  # bob had to go for cyd, and came back
    with pytest.raises(InvalidInputError, match="users"):
        MemorySparseIndex(encoder, users=0)


def test_threads_encode_once(keep: Callable[..., History], encoder: Counting) -> None:
    history, retriever = keep("red kettle", "lamp"), SparseRetriever(MemorySparseIndex(encoder))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: search(history, retriever, "kettle"), range(8)))
    assert found == [["red kettle"]] * 8
    assert len(encoder.documents) == 2


def test_a_question_without_terms_asks_no_model(keep: Callable[..., History], encoder: Counting) -> None:
    encoder.broken = True
    assert SparseRetriever(MemorySparseIndex(encoder)).search(keep("kettle").corpus(), "?!", 3) == Ranking(())


def test_pooling_keeps_the_largest_weight() -> None:
    def vector(**weights: float) -> SparseVector:
        terms = sorted(weights)
        return SparseVector(np.array([ord(term) for term in terms]), np.array([weights[t] for t in terms], np.float32))

    terms, weights = pooled([vector(a=1, c=5), vector(b=2, c=3), vector()])
    assert (terms.tolist(), weights.tolist()) == ([97, 98, 99], [1, 2, 5])
    assert len(pooled([]).terms) == 0


def test_by_name(encoder: Counting) -> None:
    index = MemorySparseIndex(encoder)
    retriever = create_retriever("sparse", None, sparse=index)
    assert retriever.name == "sparse"
    assert retriever.config == {"retriever": "sparse", "sparse_encoder": encoder.fingerprint}
    with pytest.raises(ModelNotAvailableError, match="'sparse' needs a sparse encoder"):
        create_retriever("sparse", None)
