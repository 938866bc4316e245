"""What every retriever must do, as a test class to inherit.

    from backread.testing.contracts_retrievers import RetrieverContract

    class TestMyRetriever(RetrieverContract):
        @pytest.fixture
        def retriever(self, embedder: Embedder) -> Retriever:
            return MyRetriever(embedder)

`embedder` is a `HashEmbedder` unless you override it too; what it embeds is what the store holds vectors of. The rules
are the docstrings of `backread.retrieval.base.Retriever`. pytest must be installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backread.errors import InvalidInputError
from backread.models.base import Embedder
from backread.retrieval.base import Retriever
from backread.retrieval.indexing import embed_pending
from backread.store.base import TurnStore
from backread.store.corpus import Corpus
from backread.store.history import HUMAN_ROLES, History, Scope
from backread.store.sqlite import SqliteStore
from backread.testing.fakes import HashEmbedder
from backread.types import Ranking, Turn, TurnDraft, Unit

__all__ = ["RetrieverContract"]

START = datetime(2024, 3, 1, 9, tzinfo=UTC)
UNITS: tuple[Unit, ...] = ("turn", "user_turn", "round", "session")
QUESTION = "Which kettle did the plumber recommend?"

# (session, minutes after the start, role, speaker, text); the first holds what QUESTION asks for.
TALK = (
    ("kitchen", 0, "user", "Ann", "The plumber came and recommended a copper kettle."),
    ("kitchen", 1, "assistant", None, "Copper conducts heat well. Descale it now and then."),
    ("kitchen", 2, "user", "Ann", "Then I will buy vinegar as well."),
    ("garden", 1500, "user", "Bob", "Tomatoes need sun, says my aunt Ludmila."),
    ("garden", 1501, "assistant", None, "Six hours a day would be good for them."),
    ("travel", 9000, "user", "Ann", "Our ferry to Bergen leaves at seven on Friday."),
    ("travel", 9001, "user", "Bob", "I still have to pack a raincoat."),
)

ODD = (
    "\x00",
    "a\x00b",
    "\ud800 alone",
    "<|im_start|>",
    "👩‍👩‍👧 e\u0301",
    "東京は大きい。",
    "مرحبا",
    "x" * 3000,
    "=",
    '("',
)


class RetrieverContract:
    """Tests of the `Retriever` protocol; override the fixture `retriever`."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        """What makes the vectors; wide enough that words without anything in common are at a right angle."""
        return HashEmbedder(4096)

    @pytest.fixture
    def retriever(self, embedder: Embedder) -> Retriever:
        """The retriever under test, over vectors of `embedder` if it uses vectors."""
        raise NotImplementedError("override the fixture `retriever`")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[TurnStore]:
        """An open, empty store."""
        opened = SqliteStore(tmp_path / "contract.db")
        yield opened
        opened.close()

    @pytest.fixture
    def history(self, store: TurnStore, embedder: Embedder) -> History:
        """A history of three sessions with all its vectors."""
        return _keep(store, embedder, _talk())

    def test_describes_itself(self, retriever: Retriever, history: History) -> None:
        """Name and settings are there, fit into a record, and nothing changes by use."""
        before = (retriever.name, json.dumps(dict(retriever.config), sort_keys=True))
        retriever.search(history.corpus(), QUESTION, 3)
        assert isinstance(retriever, Retriever)
        assert retriever.name
        assert (retriever.name, json.dumps(dict(retriever.config), sort_keys=True)) == before

    def test_the_unit_that_says_it_is_first(self, retriever: Retriever, history: History) -> None:
        """It holds the question's words and the others don't; every id names a unit of the corpus, none comes twice."""
        for unit in UNITS:
            corpus = history.corpus(unit)
            ids = [item.unit_id for item in retriever.search(corpus, QUESTION, 10).items]
            found = corpus.find(ids)
            assert len(set(ids)) == len(ids) == len(found), unit
            assert TALK[0][4] in [turn.text for turn in corpus.turns(found[0])], unit

    def test_top_k_is_honoured(self, retriever: Retriever, history: History) -> None:
        """At most `top_k` units, and they are the head of a longer ranking."""
        question = "copper kettle, tomatoes, ferry, raincoat, vinegar, sun, heat, hours"
        longest = retriever.search(history.corpus(), question, len(TALK)).items
        assert len(longest) == len(TALK)
        for top_k in (1, 2, 3, 5, 10_000):
            assert retriever.search(history.corpus(), question, top_k).items == longest[:top_k]

    def test_top_k_below_one_is_refused(self, retriever: Retriever, history: History) -> None:
        """It is an error, also where nothing would be found."""
        for corpus in (history.corpus(), history.corpus(scope=Scope(roles=["tool"]))):
            for top_k in (0, -1):
                with pytest.raises(InvalidInputError, match="top_k"):
                    retriever.search(corpus, QUESTION, top_k)

    def test_order_and_scores(self, retriever: Retriever, history: History) -> None:
        """By (score desc, history order); scores are positive, finite Python floats."""
        for unit in UNITS:
            corpus = history.corpus(unit)
            items = retriever.search(corpus, "copper kettle and the ferry, a raincoat for Bergen, sun", 10).items
            scores = [item.score for item in items]
            assert all(type(score) is float and math.isfinite(score) and score > 0 for score in scores)
            places = corpus.find([item.unit_id for item in items])
            keys = [(-score, place) for score, place in zip(scores, places, strict=True)]
            assert keys == sorted(keys)

    def test_the_same_call_gives_the_same_ranking(self, retriever: Retriever, history: History) -> None:
        """Order, scores and degradations, on one corpus and on a new one."""
        corpus = history.corpus()
        first = retriever.search(corpus, QUESTION, 10)
        assert all(retriever.search(corpus, QUESTION, 10) == first for _ in range(3))
        assert retriever.search(history.corpus(), QUESTION, 10) == first

    def test_ties_stand_in_history_order(self, retriever: Retriever, embedder: Embedder, store: TurnStore) -> None:
        """Turns that say the same stand in the order they were said, whatever order they arrived in."""
        texts = ["The lift code is 4411." if day % 3 else f"Day {day}: nothing to report." for day in range(56)]
        drafts = [
            TurnDraft(f"s{day:02}", "user", text, external_id=f"m{day:02}", said_at=_at(day * 1440))
            for day, text in enumerate(texts)
        ]
        equal = [draft.external_id for draft in drafts if "lift" in draft.text]
        shuffled = [drafts[(place * 11) % len(drafts)] for place in range(len(drafts))]
        for user, arrival in (("as said", drafts), ("backwards", drafts[::-1]), ("shuffled", shuffled)):
            history = _keep(store, embedder, arrival, user)
            for top_k in (5, len(equal)):
                items = retriever.search(history.corpus(), "lift code", top_k).items
                ids = [turn.external_id for turn in history.turns_by_id([item.unit_id for item in items])]
                assert ids == equal[:top_k]

    def test_an_empty_history_gives_nothing(self, retriever: Retriever, store: TurnStore) -> None:
        """No turns, or none in scope, is an empty ranking for every unit."""
        for unit in UNITS:
            assert retriever.search(History(store, "nobody").corpus(unit), QUESTION, 5) == Ranking(())

    def test_a_question_without_a_term_gives_nothing(self, retriever: Retriever, history: History) -> None:
        """Punctuation and white space match nothing."""
        for question in ("", " \n\t", "???", "。、", "-- !", "\u200b"):
            assert retriever.search(history.corpus(), question, 5).items == (), question

    def test_what_matches_in_no_way_is_not_returned(
        self, retriever: Retriever, embedder: Embedder, store: TurnStore
    ) -> None:
        """Turns of other sessions without a word or direction in common with the question are left out."""
        texts = ("Copper kettle.", "Tomatoes like sun.", "Ferry tickets.")
        drafts = [TurnDraft(f"s{day}", "user", text, said_at=_at(day * 1440)) for day, text in enumerate(texts)]
        history = _keep(store, embedder, drafts)
        items = retriever.search(history.corpus(), "kettle", 10).items
        assert [turn.text for turn in history.turns_by_id([item.unit_id for item in items])] == ["Copper kettle."]
        assert retriever.search(history.corpus(), "zeppelin", 10).items == ()

    def test_user_turns_are_those_of_people(self, retriever: Retriever, history: History) -> None:
        """The unit "user_turn" never holds an assistant's turn."""
        found = _turns(history.corpus("user_turn"), retriever, "copper heat tomatoes hours sun")
        assert found
        assert {turn.role for turn in found} <= set(HUMAN_ROLES)

    def test_scope_is_respected(self, retriever: Retriever, history: History) -> None:
        """Nothing out of scope is found, and what is in scope still is."""
        for scope in (
            Scope(roles=["assistant"]),
            Scope(speakers=["Bob"]),
            Scope(session_ids=["garden"]),
            Scope(after=_at(9000)),
            Scope(before=_at(1)),
            Scope(as_of=_at(1500)),
        ):
            inside = {turn.turn_id for turn in history.turns(scope)}
            question = "copper kettle heat tomatoes sun hours ferry raincoat"
            found = {turn.turn_id for turn in _turns(history.corpus(scope=scope), retriever, question)}
            assert found, scope
            assert found <= inside, scope

    def test_other_users_change_nothing(
        self, retriever: Retriever, embedder: Embedder, store: TurnStore, history: History
    ) -> None:
        """Their turns never appear, and don't touch a score."""
        before = [retriever.search(history.corpus(unit), QUESTION, 10) for unit in UNITS]
        _keep(store, embedder, [TurnDraft("kitchen", "user", QUESTION) for _ in range(20)], "Eve")
        assert [retriever.search(history.corpus(unit), QUESTION, 10) for unit in UNITS] == before

    def test_pending_vectors_are_said(self, retriever: Retriever, embedder: Embedder, store: TurnStore) -> None:
        """A retriever that uses vectors names how many turns have none yet; the others have nothing to say."""
        store.append("ann", _talk())
        history = History(store, "ann")
        degraded = retriever.search(history.corpus(), QUESTION, 5).degraded
        if retriever.config.get("embedder") is None:
            assert degraded == ()
        else:
            assert [item.count for item in degraded] == [len(TALK)]
            assert all(item.part and item.reason for item in degraded)
        embed_pending(store, "ann", embedder)
        assert retriever.search(history.corpus(), QUESTION, 5).degraded == ()

    def test_odd_text_is_text(self, retriever: Retriever, embedder: Embedder, store: TurnStore) -> None:
        """Any str may be stored and asked; words beside it are still found."""
        for user, text in enumerate(ODD):
            drafts = [TurnDraft("s", "user", f"kettle {text}"), TurnDraft("t", "user", text)]
            history = _keep(store, embedder, drafts, str(user))
            assert all(math.isfinite(item.score) for item in retriever.search(history.corpus(), text, 5).items)
            assert _turns(history.corpus(), retriever, f"kettle {text}")[0].text == f"kettle {text}"

    def test_a_new_user_finds_the_first_turns(self, retriever: Retriever, embedder: Embedder, store: TurnStore) -> None:
        """With one or two turns no statistic says anything; what was said is found all the same."""
        texts = ("The blue kettle.", "A green lamp.", "青いやかん", "INV-2041 is paid")
        for user, size in (("one", 1), ("two", 2), ("four", 4)):
            history = _keep(store, embedder, [TurnDraft("s", "user", text) for text in texts[:size]], user)
            for question, text in zip(("kettle", "green", "青い", "INV-2041"), texts[:size], strict=False):
                assert _turns(history.corpus(), retriever, question)[0].text == text


def _at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def _talk() -> list[TurnDraft]:
    return [
        TurnDraft(session, role, text, speaker=speaker, said_at=_at(minutes))
        for session, minutes, role, speaker, text in TALK
    ]


def _keep(store: TurnStore, embedder: Embedder, drafts: Sequence[TurnDraft], user_id: str = "ann") -> History:
    store.append(user_id, drafts)
    assert embed_pending(store, user_id, embedder) == 0
    return History(store, user_id)


def _turns(corpus: Corpus, retriever: Retriever, question: str) -> list[Turn]:
    items = retriever.search(corpus, question, 100).items
    return [turn for unit in corpus.find([item.unit_id for item in items]) for turn in corpus.turns(unit)]
