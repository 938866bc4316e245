"""The default retrieval: what each part adds, in histories of one turn and more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.models.base import Embedder
from backread.retrieval.hybrid import HybridRetriever, HybridWeights
from backread.store.history import History, Scope
from backread.store.sqlite import SqliteStore
from backread.testing.fakes import FailingEmbedder, HashEmbedder
from backread.types import TurnDraft, Unit

Keep = Callable[..., History]
MAY = datetime(2024, 5, 1, 9, tzinfo=UTC)


def said(text: str, speaker: str | None = None, days: int = 0, session: str | None = None) -> TurnDraft:
    """A turn in a session of its own, so that it has no neighbours."""
    at = MAY + timedelta(days=days)
    return TurnDraft(session or f"s {text}"[:60], "participant", text, speaker=speaker, said_at=at)


def filler(count: int) -> list[TurnDraft]:
    """Turns that have nothing to do with anything."""
    return [said(f"filler{number} padding{number}", "Zed", -400 - number) for number in range(count)]


def found(
    history: History, question: str, embedder: Embedder | None = None, unit: Unit = "turn", scope: Scope | None = None
) -> list[str]:
    corpus = history.corpus(unit, scope)
    items = HybridRetriever(embedder).search(corpus, question, 100).items
    scores = [item.score for item in items]
    assert all(score > 0 for score in scores)
    assert scores == sorted(scores, reverse=True)
    return [corpus.turns(place)[0].text for place in corpus.find([item.unit_id for item in items])]


@pytest.mark.parametrize("embedder", [None, HashEmbedder(4096)], ids=["words", "vectors"])
class TestShortHistories:
    def test_one_turn(self, keep: Keep, embedder: Embedder | None) -> None:
        history = keep(said("The blue kettle is in the garage."), embedder=embedder)
        assert found(history, "Where is the kettle?", embedder) == ["The blue kettle is in the garage."]
        assert found(history, "zeppelin", embedder) == []

    def test_two_turns(self, keep: Keep, embedder: Embedder | None) -> None:
        history = keep(said("blue kettle"), said("green lamp"), embedder=embedder)
        assert found(history, "kettle", embedder) == ["blue kettle"]
        assert found(history, "lamp", embedder) == ["green lamp"]

    def test_a_name_does_not_outweigh_the_words(self, keep: Keep, embedder: Embedder | None) -> None:
        history = keep(
            said("The blue kettle is in the garage.", "Ann"), said("I like the green lamp.", "Bob"), embedder=embedder
        )
        question = "Where did Bob say the blue kettle is?"
        assert found(history, question, embedder)[0] == "The blue kettle is in the garage."

    def test_neither_does_a_time(self, keep: Keep, embedder: Embedder | None) -> None:
        history = keep(said("I bought the kettle."), said("Yesterday I saw a film."), embedder=embedder)
        assert found(history, "When did I buy the kettle?", embedder)[0] == "I bought the kettle."

    def test_nor_a_question_mark(self, keep: Keep, embedder: Embedder | None) -> None:
        history = keep(said("Is the kettle blue?"), said("A lamp."), said("A shelf."), embedder=embedder)
        assert found(history, "kettle", embedder) == ["Is the kettle blue?"]

    def test_but_a_name_decides_between_equals(self, keep: Keep, embedder: Embedder | None) -> None:
        history = keep(said("My kettle is blue.", "Ann"), said("My kettle is red.", "Bob"), embedder=embedder)
        assert found(history, "What colour is Ann's kettle?", embedder)[0] == "My kettle is blue."
        assert found(history, "What colour is Bob's kettle?", embedder)[0] == "My kettle is red."

    def test_other_scripts_and_identifiers(self, keep: Keep, embedder: Embedder | None) -> None:
        texts = ["青いやかんはガレージにある。", "番茄需要阳光。", "Где стоит синий чайник", "Ticket INV-2041 is paid"]
        history = keep(*map(said, texts), embedder=embedder)
        for question, text in zip(("やかん", "番茄", "чайники", "inv-2041"), texts, strict=True):
            assert found(history, question, embedder)[0] == text


class Fixed(HashEmbedder):
    """Vectors as given, by text; for texts without one the vector of "else"."""

    def __init__(self, vectors: dict[str, tuple[float, float]]) -> None:
        super().__init__(2, name="fixed")
        self._vectors = vectors

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        rows = [self._vectors.get(text, self._vectors["else"]) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), 2)


def test_two_turns_of_nearly_the_same_cosine_are_told_apart_by_words(keep: Keep) -> None:
    embedder = Fixed({"where kettle": (1, 0), "a kettle": (0.59, 0.8074), "a lamp": (0.6, 0.8), "else": (0, 1)})
    history = keep(said("a kettle"), said("a lamp"), embedder=embedder)
    assert found(history, "where kettle", embedder)[0] == "a kettle"


def test_a_score_by_hand(keep: Keep) -> None:
    # Two turns, each in its session, lengths 2. The kettle's text: ln 2 * 1 * 2.2 / (1 + 1.2) / ln 3 = .6309; 2.5 * .9
    # of its own cosine, 2.5 * .9 of its session's: 5.1309. The lamp: (2.5 + 2.5) * .3 = 1.5. Lifted so that the lowest
    # is .001.
    embedder = Fixed({"kettle": (1, 0), "a kettle": (0.9, 0.43589), "a lamp": (0.3, 0.95394), "else": (0, 1)})
    history = keep(said("a kettle"), said("a lamp"), embedder=embedder)
    items = HybridRetriever(embedder).search(history.corpus(), "kettle", 5).items
    assert [item.score for item in items] == pytest.approx([5.1309 - 1.5 + 0.001, 0.001], abs=1e-4)


class TestCues:
    """Each cue alone decides between turns that are nearly equal otherwise."""

    def test_the_speaker(self, keep: Keep) -> None:
        history = keep(said("kettle kettle", "Ann"), said("a kettle and other words", "Bob"), *filler(28))
        assert found(history, "Which kettle does anyone have?")[0] == "kettle kettle"
        assert found(history, "Which kettle does Bob have?")[0] == "a kettle and other words"

    def test_two_named_speakers_say_nothing(self, keep: Keep) -> None:
        history = keep(said("kettle kettle", "Ann"), said("a kettle and other words", "Bob"), *filler(28))
        assert found(history, "Which kettle do Ann and Bob have?")[0] == "kettle kettle"

    def test_a_role_is_not_a_name(self, keep: Keep) -> None:
        turns = [TurnDraft("a", "user", "kettle kettle"), TurnDraft("b", "assistant", "a kettle and other words")]
        history = keep(*turns, *filler(28))
        assert found(history, "Which kettle did the assistant name?")[0] == "kettle kettle"

    def test_a_time_when_one_is_asked_for(self, keep: Keep) -> None:
        history = keep(said("copper kettle"), said("a kettle came two days ago by post"), *filler(28))
        assert found(history, "Which kettle?")[0] == "copper kettle"
        assert found(history, "When was the kettle?")[0] == "a kettle came two days ago by post"

    def test_a_date_that_is_named(self, keep: Keep) -> None:
        history = keep(said("kettle kettle", days=-90), said("a kettle and other words", days=12), *filler(28))
        assert found(history, "Which kettle?")[0] == "kettle kettle"
        assert found(history, "Which kettle in May 2024?")[0] == "a kettle and other words"
        assert found(history, "Which kettle in May 2019?")[0] == "kettle kettle"

    def test_questions_answer_nothing(self, keep: Keep) -> None:
        history = keep(said("A copper kettle?"), said("A copper kettle.", days=1), *filler(28))
        assert found(history, "copper kettle") == ["A copper kettle.", "A copper kettle?"]

    def test_neighbours_lend_their_words(self, keep: Keep) -> None:
        talk = [said(text, session="talk") for text in ("The kettle is new.", "Copper, I would say.", "Fine.")]
        history = keep(*talk, *filler(28))
        assert found(history, "kettle")[:2] == ["The kettle is new.", "Copper, I would say."]
        assert not set(found(history, "kettle")) & {turn.text for turn in filler(28)}


@pytest.mark.parametrize("unit", ["round", "session"])
def test_who_opens_a_session_is_no_cue(keep: Keep, unit: Unit) -> None:
    history = keep(
        said("Hello.", "Bob", 0, "chat"),
        said("Nothing new here.", "Ann", 0, "chat"),
        said("Hello there.", "Ann", 1, "kitchen"),
        said("My kettle is copper.", "Bob", 1, "kitchen"),
        *filler(28),
    )
    expected = {"round": "Hello there.", "session": "Hello there."}[unit]
    assert found(history, "Which kettle does Bob have?", unit=unit) == [expected]


@pytest.mark.parametrize("embedder", [None, HashEmbedder(512)])
@pytest.mark.parametrize("question", ["Zelda", "zelda", "What did Zelda say?", "Tell me about Zelda", "Zelda?"])
def test_a_name_alone_finds_what_its_speaker_said(keep: Keep, embedder: HashEmbedder | None, question: str) -> None:
    texts = ("Lindau is lovely.", "The boat is green.")
    history = keep(*filler(28), *(said(text, "Zelda", 1) for text in texts), *filler(5), embedder=embedder)
    ranking = HybridRetriever(embedder).search(history.corpus(), question, 10)
    assert {turn.text for turn in history.turns_by_id([item.unit_id for item in ranking.items])} >= set(texts)


def test_where_nothing_else_matches_a_name_does(keep: Keep) -> None:
    history = keep(*filler(8), said("Lindau is lovely.", "Zelda", 1))
    assert found(history, "What does Zelda eat?") == ["Lindau is lovely."]
    assert found(history, "Which padding3 does Zelda have?")[0] != "Lindau is lovely."


def test_a_speaker_without_a_word_in_the_name(keep: Keep) -> None:
    history = keep(said("Lindau is lovely.", "(*)", 1), *filler(5))
    assert found(history, "(*)") == ["Lindau is lovely."]


def test_pending_vectors_don_t_hide_what_was_just_said(keep: Keep, store: SqliteStore) -> None:
    embedder = HashEmbedder(4096)
    keep(said("an old lamp"), said("an old shelf"), embedder=embedder)
    history = keep(said("a new kettle"))
    ranking = HybridRetriever(embedder).search(history.corpus(), "kettle", 5)
    assert history.turns_by_id([ranking.items[0].unit_id])[0].text == "a new kettle"
    assert [(item.part, item.count) for item in ranking.degraded] == [("dense", 1)]
    only = history.corpus(scope=Scope(session_ids=["s a new kettle"]))
    assert len(HybridRetriever(embedder).search(only, "kettle", 5).items) == 1


def test_statistics_are_those_of_the_scope(keep: Keep) -> None:
    history = keep(said("a kettle", "Ann"), said("another kettle", "Bob"), said("a lamp", "Bob"))
    assert found(history, "kettle", scope=Scope(speakers=["Bob"])) == ["another kettle"]


def test_no_model_is_asked_when_there_is_nothing_to_find(keep: Keep) -> None:
    retriever = HybridRetriever(FailingEmbedder())
    assert retriever.search(keep("kettle").corpus(), "?!", 5).items == ()
    assert retriever.search(keep(user_id="nobody").corpus(), "kettle", 5).items == ()


def test_config_has_every_constant() -> None:
    config = HybridRetriever(None, weights=HybridWeights(speaker=1.0)).config
    assert config["speaker"] == 1.0
    assert {"retriever", "embedder", "dense", "time", "date", "asks", "kernel", "text_k1", "text_b"} <= set(config)
    assert HybridRetriever(HashEmbedder()).config["embedder"] == HashEmbedder().fingerprint
