"""Scores worked by hand, on statistics of the units in scope and nothing else."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import NOON, draft, entry

from backread.store.base import TURNS, Progress
from backread.store.corpus import Corpus
from backread.store.history import History, Scope
from backread.store.layout import UNKNOWN_TIME
from backread.store.sqlite import SqliteStore
from backread.text.cues import turn_cues
from backread.types import Unit

K1, B = 1.2, 0.75

KETTLES = [
    draft("kettle kettle blue", "s1"),  # length 3
    draft("lamp", "s1", "assistant"),  # 1
    draft("blue lamp shade green", "s2"),  # 4
    draft("kettle", "s2", "assistant"),  # 1
    draft("green green", "s2"),  # 2
]
"""Document lengths 3, 1, 4, 1, 2; rounds {0, 1}, {2, 3}, {4}; sessions {0, 1}, {2, 3, 4}."""


def bm25(tf: float, length: float, df: int, units: int, average: float) -> float:
    """The formula, written out once more."""
    idf = math.log(1 + (units - df + 0.5) / (df + 0.5))
    return idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / average))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        yield store


def kettles(store: SqliteStore, unit: Unit = "turn", scope: Scope | None = None) -> Corpus:
    if not store.layout("ann").size:
        store.append("ann", KETTLES)
    return History(store, "ann").corpus(unit, scope)


def test_bm25_of_turns(store: SqliteStore) -> None:
    """Five turns, mean length 11/5; "kettl" in two of them, "blue" in two."""
    scores = kettles(store).text_scores({"kettl": 1.0, "blue": 0.5, "absent": 3.0})
    average = 11 / 5
    expected = [
        bm25(2, 3, 2, 5, average) + 0.5 * bm25(1, 3, 2, 5, average),
        0,
        0.5 * bm25(1, 4, 2, 5, average),
        bm25(1, 1, 2, 5, average),
        0,
    ]
    assert scores.dtype == np.float32
    assert scores == pytest.approx(expected, rel=1e-6)
    # idf = ln(1 + 3.5 / 2.5) = 0.8754687; the fourth turn: 2.2 / (1 + 1.2 (0.25 + 0.75 / 2.2)) = 1.2872340
    assert scores[3] == pytest.approx(0.8754687 * 1.2872340, rel=1e-6)


def test_bm25_of_a_scope_knows_nothing_of_the_rest(store: SqliteStore) -> None:
    """Session s2 alone: three turns, mean length 7/3, "kettl" in one of them."""
    corpus = kettles(store, scope=Scope(session_ids={"s2"}))
    assert corpus.size == 3
    assert corpus.history_size == 5
    assert corpus.length.tolist() == [4, 1, 2]
    assert corpus.text_scores({"kettl": 1.0}) == pytest.approx([0, bm25(1, 1, 1, 3, 7 / 3), 0], rel=1e-6)
    assert corpus.text_scores({"lamp": 1.0}) == pytest.approx([bm25(1, 4, 1, 3, 7 / 3), 0, 0], rel=1e-6)


def test_bm25_of_sessions_is_that_of_their_turns_put_together(store: SqliteStore) -> None:
    """Lengths 4 and 7, mean 11/2; "green" three times in the second only, "lamp" once in both."""
    corpus = kettles(store, "session")
    assert corpus.length.tolist() == [4, 7]
    assert corpus.text_scores({"green": 1.0}) == pytest.approx([0, bm25(3, 7, 1, 2, 5.5)], rel=1e-6)
    assert corpus.text_scores({"lamp": 1.0}) == pytest.approx([bm25(1, 4, 2, 2, 5.5), bm25(1, 7, 2, 2, 5.5)], rel=1e-6)
    assert corpus.unit_ids([1, 0]) == ["s2", "s1"]
    assert corpus.find(["s2", "absent", "s1"]) == [1, 0]
    assert [turn.text for turn in corpus.turns(1)] == ["blue lamp shade green", "kettle", "green green"]


def test_bm25_of_rounds(store: SqliteStore) -> None:
    """Lengths 4, 5, 2, mean 11/3; "kettl" twice in the first, once in the second."""
    corpus = kettles(store, "round")
    assert corpus.length.tolist() == [4, 5, 2]
    average = 11 / 3
    expected = [bm25(2, 4, 2, 3, average), bm25(1, 5, 2, 3, average), 0]
    assert corpus.text_scores({"kettl": 1.0}) == pytest.approx(expected, rel=1e-6)
    ids = [turn.turn_id for turn in History(store, "ann").turns()]
    assert corpus.unit_ids([0, 1, 2]) == [ids[0], ids[2], ids[4]]
    assert corpus.find([ids[3], ids[1]]) == [1, 0]  # any turn names its round
    assert corpus.session.tolist() == [0, 1, 1]


def test_rounds_of_a_scope_hold_the_turns_in_scope_only(store: SqliteStore) -> None:
    corpus = kettles(store, "round", Scope(roles={"assistant"}))
    assert corpus.size == 2
    assert [[turn.text for turn in corpus.turns(unit)] for unit in range(2)] == [["lamp"], ["kettle"]]
    assert corpus.text_scores({"blue": 1.0}).tolist() == [0, 0]


def test_a_unit_begins_with_its_first_turn(store: SqliteStore) -> None:
    store.append("ann", [draft("late", "s2", said_at=NOON), draft("Hi", speaker="Ann"), draft("Yes", role="assistant")])
    store.append("ann", [draft("I moved to Ghent", speaker="Bo", said_at=NOON - timedelta(days=1))])
    corpus = History(store, "ann").corpus("session")
    assert corpus.session.tolist() == [0, 1]
    assert [corpus.speakers[code] for code in corpus.speaker.tolist()] == ["Ann", "user"]
    assert corpus.said_us.tolist() == [UNKNOWN_TIME, int(NOON.timestamp()) * 1_000_000]
    assert corpus.cues.tolist() == [turn_cues("Hi"), turn_cues("late")]
    assert History(store, "ann").corpus().cues.tolist()[-2] == turn_cues("I moved to Ghent")


def test_turns_of_people_are_a_unit(store: SqliteStore) -> None:
    corpus = kettles(store, "user_turn")
    assert corpus.size == 3
    assert corpus.text_scores({"kettl": 1.0}) == pytest.approx([bm25(2, 3, 1, 3, 3), 0, 0], rel=1e-6)


def test_a_corpus_of_short_units_counts_a_mean_length_of_one_at_least(store: SqliteStore) -> None:
    """Three single characters are terms that add nothing to a length."""
    store.append("ann", [draft("..."), draft("lamp"), draft("…")])
    scores = History(store, "ann").corpus().text_scores({"lamp": 1.0})
    assert scores == pytest.approx([0, bm25(1, 1, 1, 3, 1.0), 0], rel=1e-6)


@pytest.mark.parametrize("unit", ["turn", "user_turn", "round", "session"])
def test_an_empty_corpus_has_no_scores(store: SqliteStore, unit: Unit) -> None:
    corpus = History(store, "nobody").corpus(unit)
    assert corpus.size == 0
    assert corpus.text_scores({"kettl": 1.0}).tolist() == []
    assert corpus.top_text({"kettl": 1.0}, 5).tolist() == []
    scores, missing, _ = corpus.vector_scores("m", np.ones(4, np.float32))
    assert (scores.tolist(), missing) == ([], 0)
    assert corpus.find(["x"]) == []
    assert corpus.unit_ids([]) == []


def test_a_kernel_spreads_counts_to_neighbours_in_the_session(store: SqliteStore) -> None:
    """Kernel (0.5): the counts of "kettl" become 2, 1, 0.5, 1, 0.5; lengths 3.5, 2.5, 4.5, 4, 2.5, mean 17/5."""
    corpus = kettles(store)
    assert corpus.spread(corpus.length, (0.5,)).tolist() == [3.5, 2.5, 4.5, 4.0, 2.5]
    scores = corpus.text_scores({"kettl": 1.0}, kernel=(0.5,))
    counts = [2, 1, 0.5, 1, 0.5]
    lengths = [3.5, 2.5, 4.5, 4.0, 2.5]
    expected = [bm25(tf, length, 2, 5, 3.4) for tf, length in zip(counts, lengths, strict=True)]
    assert scores == pytest.approx(expected, rel=1e-6)


# --- the best by text, without reading everything


def test_top_text_leaves_out_what_cannot_be_among_the_best(store: SqliteStore) -> None:
    store.append("ann", [draft(f"common filler{n}") for n in range(200)] + [draft("rare rare rare"), draft("rare")])
    corpus = History(store, "ann").corpus()
    weights = {"common": 0.01, "rare": 1.0}
    everything, best = corpus.text_scores(weights), corpus.top_text(weights, 1)
    assert best.argmax() == everything.argmax() == 200
    assert best[200] == everything[200]
    assert (everything > 0).sum() == 202
    assert (best > 0).sum() == 2


WORDS = [f"w{n}" for n in range(12)]


@settings(max_examples=60)
@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join).filter(bool), min_size=1, max_size=60),
    weights=st.dictionaries(st.sampled_from([*WORDS, "absent"]), st.floats(0.01, 10), min_size=1, max_size=6),
    top_k=st.integers(1, 8),
)
def test_top_text_gives_the_same_best_as_text_scores(texts: list[str], weights: dict[str, float], top_k: int) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(SqliteStore(Path(folder) / "memory.db")) as store:
        store.append("ann", [draft(text) for text in texts])
        corpus = History(store, "ann").corpus()
        everything, best = corpus.text_scores(weights), corpus.top_text(weights, top_k)
        order = np.argsort(-everything, kind="stable")[:top_k]
        assert np.argsort(-best, kind="stable")[:top_k].tolist() == order.tolist()
        assert best[order].tobytes() == everything[order].tobytes()
        assert (best <= everything).all()


def test_turns_that_came_since_a_corpus_was_made_change_only_how_rare_a_term_seems(store: SqliteStore) -> None:
    """Another process writes while this one searches: more turns hold the term than the corpus has."""
    corpus = kettles(store)
    before = corpus.text_scores({"kettl": 1.0})
    store.append("ann", [draft("kettle") for _ in range(9)])
    assert corpus.text_scores({"kettl": 1.0}).tobytes() == before.tobytes()
    best = corpus.top_text({"kettl": 1.0}, 2)
    assert best.shape == (5,)
    assert np.argsort(-best, kind="stable").tolist() == np.argsort(-before, kind="stable").tolist()
    assert kettles(store).size == 14


# --- vectors


def test_a_unit_scores_as_its_best_passage(store: SqliteStore) -> None:
    store.append("ann", [draft(f"turn {n}", "s1" if n < 2 else "s2") for n in range(4)])
    docs = np.sort(store.layout("ann").docs)
    owners = docs[[0, 0, 1, 2]]
    matrix = np.array([[1, 0], [0, 1], [0.6, 0.8], [-1, 0]], np.float32)
    assert store.put_vectors("ann", TURNS, "m", Progress(0, 0), owners, matrix, Progress(int(docs[3]), 0))
    query = np.array([0.8, 0.6], np.float32)
    scores, missing, _ = History(store, "ann").corpus().vector_scores("m", query)
    assert scores[:3] == pytest.approx([0.8, 0.96, -0.8])
    assert np.isnan(scores[3])
    assert missing == 1
    scores, missing, _ = History(store, "ann").corpus("session").vector_scores("m", query)
    assert scores == pytest.approx([0.96, -0.8])
    assert missing == 0
    one = History(store, "ann").corpus("turn", Scope(session_ids={"s2"}))
    scores, missing, _ = one.vector_scores("m", query)
    assert scores[0] == pytest.approx(-0.8)
    assert missing == 1
    scores, missing, _ = one.vector_scores("other", query)
    assert np.isnan(scores).all()
    assert missing == 2


# --- entries


def test_a_corpus_of_entries_has_its_own_statistics_and_ids(store: SqliteStore) -> None:
    (turn,) = store.append("ann", [draft("kettle " * 9)])
    turn_id = turn.turn_id or ""
    store.commit("ann", "lean", 0, [entry("e1", "kettle", turn_id), entry("e2", "blue lamp", turn_id)])
    store.commit("ann", "other", 0, [])
    corpus = History(store, "ann").corpus(("lean", "event"))
    assert corpus.unit == "entry"
    assert corpus.text_scores({"kettl": 1.0}) == pytest.approx([bm25(1, 1, 1, 2, 1.5), 0], rel=1e-6)
    assert corpus.top_text({"kettl": 1.0}, 1) == pytest.approx([bm25(1, 1, 1, 2, 1.5), 0], rel=1e-6)
    assert corpus.unit_ids([1, 0]) == ["e2", "e1"]
    assert corpus.find(["e2", "absent", turn_id, "e1"]) == [1, 0]
    assert [item.entry_id for item in corpus.entries([1])] == ["e2"]
    assert History(store, "ann").corpus(("lean", "absent")).size == 0


# --- isolation


def test_another_users_writes_move_no_bit(store: SqliteStore) -> None:
    rng = np.random.default_rng(11)

    def write(user: str, count: int) -> None:
        words = rng.choice(["kettle", "lamp", "blue", "green"], (count, 6))
        store.append(user, [draft(" ".join(row), f"s{n % 3}") for n, row in enumerate(words.tolist())])
        docs = np.sort(store.layout(user).docs)
        before = store.progress(user, TURNS, "m")
        docs = docs[docs >= before.doc]
        matrix = rng.standard_normal((count, 8)).astype(np.float32)
        assert store.put_vectors(user, TURNS, "m", before, docs, matrix, Progress(int(docs[-1]) + 1, 0))

    def look(user: str) -> list[bytes | list[str]]:
        seen: list[bytes | list[str]] = []
        query = np.linspace(-1, 1, 8, dtype=np.float32)
        for unit in ("turn", "round", "session"):
            corpus = History(store, user).corpus(unit)
            weights = {"kettl": 1.0, "blue": 2.0}
            seen += [corpus.text_scores(weights).tobytes(), corpus.top_text(weights, 3).tobytes()]
            seen += [corpus.vector_scores("m", query)[0].tobytes(), corpus.unit_ids(range(corpus.size))]
        return seen

    write("ann", 40)
    before = look("ann")
    write("bo", 200)
    assert look("ann") == before
    store.delete("bo", session_id="s1")
    assert look("ann") == before
    store.delete("bo")
    assert look("ann") == before
    assert store.verify().ok
