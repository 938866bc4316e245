"""Two scorers fused into one retriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from backread.retrieval.base import Scored
from backread.retrieval.fused import FusedRetriever
from backread.store.corpus import Corpus
from backread.store.history import History
from backread.types import Degradation

Keep = Callable[..., History]
NAN = float("nan")
DOWN = Degradation("dense", "is down")


class Given:
    """A scorer with scores as given."""

    def __init__(self, name: str, scores: Sequence[float], degraded: tuple[Degradation, ...] = ()) -> None:
        self._name, self._scores, self._degraded = name, scores, degraded

    @property
    def name(self) -> str:
        return self._name

    @property
    def config(self) -> Mapping[str, Any]:
        return {f"{self._name}_setting": 1}

    def scores(self, corpus: Corpus, question: str, top_k: int) -> Scored:
        return Scored(np.array(self._scores, dtype=np.float32), self._degraded)


def fused(
    keep: Keep, first: Sequence[float], second: Sequence[float], method: Literal["rrf", "interpolation"], **kw: Any
) -> tuple[list[str], list[float]]:
    history = keep(*"abcdefgh"[: len(first)])
    retriever = FusedRetriever(Given("text", first), Given("dense", second), method, **kw)
    items = retriever.search(history.corpus(), "?", 10).items
    return [turn.text for turn in history.turns_by_id([item.unit_id for item in items])], [i.score for i in items]


def test_interpolation(keep: Keep) -> None:
    # text scaled (0, .5, 1), vectors scaled (1, 0, .5); alpha .6: .4, .3, .8
    names, scores = fused(keep, (0, 2, 4), (0.9, 0.1, 0.5), "interpolation", alpha=0.6)
    assert names == ["c", "a", "b"]
    assert scores == pytest.approx([0.8, 0.4, 0.3])


def test_the_lowest_match_of_both_lists_is_still_found(keep: Keep) -> None:
    names, scores = fused(keep, (3, 1), (0.5, 0.1), "interpolation")
    assert names == ["a", "b"]
    assert scores[1] > 0


def test_what_neither_list_matches_is_left_out(keep: Keep) -> None:
    assert fused(keep, (3, 0, 0, NAN), (-0.2, -0.5, NAN, 0.3), "interpolation")[0] == ["a", "d"]


def test_units_without_a_vector_count_by_their_words(keep: Keep) -> None:
    assert fused(keep, (1, 5, 2), (NAN, NAN, 0.4), "interpolation")[0] == ["c", "b", "a"]


def test_reciprocal_ranks(keep: Keep) -> None:
    # text ranks b, a; vectors rank c, b
    names, scores = fused(keep, (1, 2, 0), (-1, 0.2, 0.9), "rrf")
    assert names == ["b", "c", "a"]
    assert scores == pytest.approx([1 / 61 + 1 / 62, 1 / 61, 1 / 62])


def test_the_depth_never_hides_what_was_asked_for(keep: Keep) -> None:
    assert fused(keep, (4, 3, 2, 1), (0, 0, 0, 0), "rrf", depth=2)[0] == ["a", "b", "c", "d"]


def test_degradations_of_both_are_passed_on(keep: Keep) -> None:
    history = keep("a")
    retriever = FusedRetriever(Given("text", [1]), Given("dense", [NAN], (DOWN,)), "rrf")
    assert retriever.search(history.corpus(), "?", 1).degraded == (DOWN,)


def test_config_has_the_settings_of_both_and_its_own() -> None:
    first, second = Given("text", []), Given("dense", [])
    shared = {"text_setting": 1, "dense_setting": 1}
    assert FusedRetriever(first, second, "rrf", k=9).config == {**shared, "retriever": "rrf", "k": 9, "depth": 100}
    assert FusedRetriever(first, second, "interpolation", alpha=0.2).config == {
        **shared,
        "retriever": "interpolation",
        "alpha": 0.2,
    }
