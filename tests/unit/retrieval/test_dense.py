"""Dense retrieval over stored vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import ModelRequestError
from backread.retrieval.dense import DenseRetriever
from backread.retrieval.indexing import embed_pending
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.testing.fakes import FailingEmbedder, HashEmbedder
from backread.types import Degradation

Keep = Callable[..., History]


class Compass(HashEmbedder):
    """Texts that name a direction point there: "east" is (1, 0), "north" (0, 1), "west" (-1, 0), halves between."""

    WAYS: ClassVar = {"east": (1.0, 0.0), "northeast": (0.6, 0.8), "north": (0.0, 1.0), "west": (-1.0, 0.0)}

    def __init__(self) -> None:
        super().__init__(2, name="compass")
        self.kinds: list[str] = []

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        self.kinds.append(kind)
        return np.array([self.WAYS[text] for text in texts], dtype=np.float32).reshape(len(texts), 2)


def test_cosines_by_hand(keep: Keep) -> None:
    embedder = Compass()
    history = keep("north", "west", "northeast", "east", embedder=embedder)
    items = DenseRetriever(embedder).search(history.corpus(), "east", 5).items
    assert [turn.text for turn in history.turns_by_id([item.unit_id for item in items])] == ["east", "northeast"]
    assert [item.score for item in items] == pytest.approx([1.0, 0.6])
    assert embedder.kinds[-1] == "query"


def test_a_unit_counts_by_its_best_passage(keep: Keep) -> None:
    embedder = HashEmbedder(4096, max_tokens=16)
    history = keep("I like tea. " * 8 + "The kettle is made of copper.", "a lamp", embedder=embedder)
    (item,) = DenseRetriever(embedder).search(history.corpus(), "kettle", 5).items
    assert item.score > 0.2  # 1 / sqrt(21) in a passage of its own, a third of that in one with all the tea


def test_units_without_a_vector_are_counted(keep: Keep, store: SqliteStore) -> None:
    embedder = Compass()
    keep("east", "northeast", embedder=embedder)
    history = keep("west", "north")
    ranking = DenseRetriever(embedder).search(history.corpus(), "east", 5)
    assert len(ranking.items) == 2
    assert ranking.degraded == (Degradation("dense", "turns without a vector yet were ranked by text only", 2),)
    embed_pending(store, "ann", embedder)
    assert DenseRetriever(embedder).search(history.corpus(), "east", 5).degraded == ()


def test_vectors_of_another_embedder_are_never_compared(keep: Keep) -> None:
    history = keep("kettle", embedder=HashEmbedder(64, seed=1))
    ranking = DenseRetriever(HashEmbedder(64, seed=2)).search(history.corpus(), "kettle", 5)
    assert ranking.items == ()
    assert [item.count for item in ranking.degraded] == [1]


def test_no_model_is_asked_when_there_is_nothing_to_find(keep: Keep) -> None:
    retriever = DenseRetriever(FailingEmbedder())
    assert retriever.search(keep("kettle").corpus(), " ?!", 5).items == ()
    assert retriever.search(keep(user_id="nobody").corpus(), "kettle", 5).items == ()


def test_a_model_that_is_down_is_an_error(keep: Keep) -> None:
    history = keep("kettle", embedder=HashEmbedder())
    with pytest.raises(ModelRequestError):
        DenseRetriever(FailingEmbedder(HashEmbedder())).search(history.corpus(), "kettle", 5)


def test_config_names_the_embedder() -> None:
    embedder = HashEmbedder()
    assert dict(DenseRetriever(embedder).config) == {"retriever": "dense", "embedder": embedder.fingerprint}
