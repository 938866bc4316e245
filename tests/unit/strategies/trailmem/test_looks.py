"""Where TrailMem looks first, and what a look opens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from t2mem_samples import scripted
from trailmem_samples import Given, fill

from backread.construction.episode_ranking import Entries
from backread.store.corpus import Corpus
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.strategies.trailmem.looks import Ground, share, survey
from backread.strategies.trailmem.strategy import TrailMem
from backread.types import Degradation, Ranking, ScoredUnit

ENTRIES = Entries("trailmem", "episode", "")
THREE = {"a": ["one x"], "b": ["two x"], "c": ["three x"]}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    yield opened
    opened.close()


def look_around(history: History, retriever: Given, entries: Entries | None = None, cued: int = 5) -> Ground:
    return survey(history, retriever, "kettle?", entries, top_k=50, cued=cued)


def words(history: History, ground: Ground) -> list[str]:
    """The first words of the ranked turns."""
    return [turn.text.split()[0] for turn in history.turns_by_id([item.unit_id for item in ground.ranked])]


def built(store: SqliteStore, sessions: dict[str, list[str]]) -> History:
    history = fill(store, sessions)
    TrailMem(Given({}), build_chat=scripted(lambda request: "")).build(history, Context(), flush=True)
    return history


def test_turns_are_ranked_by_the_retriever(store: SqliteStore) -> None:
    history = fill(store, {"a": ["one x", "two x"], "b": ["three x"]})
    ground = look_around(history, Given({"one": 10.0, "two": 5.0, "three": 5.5}))
    assert words(history, ground) == ["one", "three", "two"]
    assert [item.score for item in ground.ranked] == [10.0, 5.5, 5.0]


def test_a_turn_that_was_deleted_meanwhile_is_left_out(store: SqliteStore) -> None:
    history = fill(store, {"a": ["one x", "two x"], "b": ["three x"]})
    gone = next(history.turns()).turn_id

    class Deleting(Given):
        def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
            found = super().search(corpus, question, top_k)
            store.delete("ann", turn_ids=[gone])
            return found

    ground = look_around(history, Deleting({"one": 10.0, "two": 5.0, "three": 5.5}))
    assert words(history, ground) == ["three", "two"]
    assert [(look.session_id, look.best, look.worth) for look in ground.looks] == [("b", 0, 1.0), ("a", 1, 0.0)]


def test_how_good_a_place_is() -> None:
    ranked = [ScoredUnit("a", 9.0), ScoredUnit("b", 6.0), ScoredUnit("c", 5.0)]
    assert [share(ranked, place) for place in range(4)] == [1.0, 0.25, 0.0, 0.0]
    assert share(ranked[:1], 0) == 1.0
    assert share([ScoredUnit("a", 2.0), ScoredUnit("b", 2.0)], 1) == 1.0


def test_a_look_for_each_session_the_one_with_the_best_turn_first(store: SqliteStore) -> None:
    history = fill(store, {"a": ["x", "x"], "b": ["x", "mid x", "x"], "c": ["best x", "x"], "d": ["low x"]})
    ground = look_around(history, Given({"mid": 2.0, "best": 3.0, "low": 1.0}))
    assert [(look.session_id, look.best, look.worth) for look in ground.looks] == [
        ("c", 0, 1.0),
        ("b", 1, pytest.approx(0.5)),
        ("d", 2, 0.0),
    ]
    opened = [[turn.text for number in look.windows for turn in ground.windows[number].turns] for look in ground.looks]
    assert opened == [["best x", "x"], ["x", "mid x", "x"], ["low x"]]


def test_a_look_opens_four_windows_and_the_rest_is_another_look(store: SqliteStore) -> None:
    # Hits at 2, 7, 12, … have windows of 5 turns side by side; the later the better.
    texts = [f"hit{place // 5} x" if place % 5 == 2 else "x" for place in range(30)]
    history = fill(store, {"a": texts, "b": ["other x"]})
    scores = {f"hit{number}": 10.0 + number for number in range(6)} | {"other": 10.5}
    looks = look_around(history, Given(scores)).looks
    assert [(look.session_id, look.windows) for look in looks] == [("a", (5, 4, 3, 2)), ("a", (1, 0)), ("b", (6,))]
    assert [look.best for look in looks] == [0, 4, 5]


def test_nothing_found_is_nothing_to_look_at(store: SqliteStore) -> None:
    short = Degradation("dense", "down")
    ground = look_around(built(store, {"a": ["x"]}), Given({"episode:a": 1.0}, (short,)), ENTRIES)
    assert ground == Ground((), (), (), (short,))


class TestCues:
    def test_an_entry_puts_its_session_before_another(self, store: SqliteStore) -> None:
        history = built(store, THREE)
        scores = {"one": 3.0, "two": 2.8, "three": 1.0}
        assert [look.session_id for look in look_around(history, Given(scores)).looks] == ["a", "b", "c"]
        cued = Given(scores | {"episode:b": 4.0, "episode:c": 2.0})
        looks = look_around(history, cued, ENTRIES).looks
        # Best turns: 1, 0.9 and 0. Entries: 0.3 × 0, 1 and 0.5.
        assert [(look.session_id, look.worth) for look in looks] == [
            ("b", pytest.approx(1.2)),
            ("a", 1.0),
            ("c", pytest.approx(0.15)),
        ]

    def test_an_entry_leads_to_a_session_of_which_no_turn_was_found(self, store: SqliteStore) -> None:
        sessions = {"a": ["one x"], "b": ["x", "deep x", "x"], "c": ["three x"]}
        history = built(store, sessions)

        class Shallow(Given):
            def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
                whole = corpus.unit == "turn" and corpus.size == 5
                return super().search(corpus, question, 2 if whole else top_k)

        scores = Shallow({"one": 3.0, "three": 2.0, "deep": 1.0, "episode:b": 9.0})
        ground = look_around(history, scores, ENTRIES)
        assert [(look.session_id, look.best, look.worth) for look in ground.looks] == [
            ("a", 0, 1.0),
            ("b", 2, pytest.approx(0.3)),
            ("c", 1, 0.0),
        ]
        assert words(history, ground) == ["one", "three"]
        assert [window.turns[0].session_id for window in ground.windows] == ["a", "b", "c"]
        assert [look.session_id for look in look_around(history, scores, ENTRIES, cued=0).looks] == ["a", "c"]

    def test_what_ranking_entries_had_to_do_without_is_said(self, store: SqliteStore) -> None:
        short = Degradation("dense", "vectors are pending", 2)
        ground = look_around(built(store, THREE), Given({"one": 1.0}, (short,)), ENTRIES)
        assert ground.degraded == (Degradation("dense", "vectors are pending", 4),)
