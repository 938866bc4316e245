"""BM25: weights of terms, and scores worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from backread.retrieval import bm25
from backread.retrieval.bm25 import Bm25Retriever
from backread.store.history import History
from backread.types import TurnDraft

Keep = Callable[..., History]


def test_weights_of_a_question() -> None:
    weights = Bm25Retriever().weights("Where is the running INV-2041?")
    assert weights == {
        "where": 0.1,
        "is": 0.1,
        "the": 0.1,
        "run": 1.0,
        "=running": 0.3,
        "=inv-2041": 1.0,
        "inv": 1.0,
        "2041": 1.0,
    }


def test_weights_follow_the_settings() -> None:
    weights = Bm25Retriever(surface=0.5, compound=2.0, stop=0.0).weights("the cats of a-b")
    assert weights == {"the": 0.0, "cat": 1.0, "=cats": 0.5, "of": 0.0, "=a-b": 2.0, "a": 0.0, "b": 1.0}


def test_a_question_without_a_term_has_no_weights() -> None:
    assert Bm25Retriever().weights("?! …") == {}


def test_a_score_by_hand(keep: Keep) -> None:
    history = keep("lamp lamp", "door with a big lock in the house")
    # Two units, one with the term: idf = ln(1 + (2 - 1 + .5) / (1 + .5)) = ln 2. Lengths 2 and 8, mean 5; tf 2:
    # 2 (1.2 + 1) / (2 + 1.2 (1 - .75 + .75 * 2 / 5)) = 4.4 / 2.66.
    (item,) = Bm25Retriever().search(history.corpus(), "lamp", 5).items
    assert item.score == pytest.approx(math.log(2) * 4.4 / 2.66, rel=1e-6)


def test_a_stop_word_counts_a_tenth(keep: Keep) -> None:
    history = keep("the", "lamp")
    (the,) = Bm25Retriever().search(history.corpus(), "the", 5).items
    (lamp,) = Bm25Retriever().search(history.corpus(), "lamp", 5).items
    assert the.score == pytest.approx(lamp.score / 10)


def test_the_exact_form_goes_before_another_one(keep: Keep) -> None:
    history = keep("she walked", "she walks")
    first, second = Bm25Retriever().search(history.corpus(), "walks", 5).items
    assert first.score > second.score
    assert [turn.text for turn in history.turns_by_id([first.unit_id])] == ["she walks"]


def test_a_whole_identifier_goes_before_its_parts(keep: Keep) -> None:
    history = keep("inv 2041 2041 inv", "INV-2041", "2041")
    items = Bm25Retriever().search(history.corpus(), "inv-2041", 5).items
    assert history.turns_by_id([items[0].unit_id])[0].text == "INV-2041"
    assert len(items) == 3


def test_a_question_of_stop_words_finds_the_turn_that_says_just_that(keep: Keep) -> None:
    history = keep("To be or not to be", "I would rather have a kettle")
    items = Bm25Retriever().search(history.corpus(), "to be or not to be", 5).items
    assert [turn.text for turn in history.turns_by_id([item.unit_id for item in items])] == ["To be or not to be"]


def test_rounds_and_sessions_add_up_their_turns(keep: Keep) -> None:
    history = keep(
        TurnDraft("a", "user", "kettle"),
        TurnDraft("a", "assistant", "kettle"),
        TurnDraft("b", "user", "kettle kettle"),
    )
    one, two = Bm25Retriever().search(history.corpus("session"), "kettle", 5).items
    assert (one.unit_id, two.unit_id) == ("a", "b")
    assert one.score == two.score


def test_a_large_corpus_gives_the_same_best(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("kettle", "lamp", "ferry", "the", "copper", "garden")
    history = keep(*(" ".join(words[(i * j) % 6] for j in range(1, 2 + i % 5)) + f" n{i}" for i in range(200)))
    question = "the copper kettle by the lamp n7"
    whole = Bm25Retriever().search(history.corpus(), question, 10)
    monkeypatch.setattr(bm25, "_EXACT_UNTIL", 0)
    assert [item.unit_id for item in Bm25Retriever().search(history.corpus(), question, 10).items] == [
        item.unit_id for item in whole.items
    ]


def test_config_has_every_setting() -> None:
    expected = {"retriever": "bm25", "k1": 0.9, "b": 0.75, "surface": 0.3, "compound": 1.0, "stop": 0.1}
    assert dict(Bm25Retriever(k1=0.9).config) == expected


def test_scores_are_of_every_unit(keep: Keep) -> None:
    scored = Bm25Retriever().scores(keep("a kettle", "a lamp").corpus(), "lamp", 1)
    assert scored.scores.dtype == np.float32
    assert (scored.scores > 0).tolist() == [False, True]
    assert scored.degraded == ()
