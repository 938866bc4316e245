"""Measures of rankings: worked by hand, compared with trec_eval, and the rules they keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from backread.bench.measures.all_evidence import all_evidence
from backread.bench.measures.ndcg import ndcg
from backread.bench.measures.recall import recall
from backread.bench.measures.reciprocal_rank import reciprocal_rank
from backread.bench.measures.success import success
from backread.errors import InvalidInputError

Measure = Callable[[Sequence[str], Collection[str], int], float | None]
MEASURES: tuple[Measure, ...] = (recall, success, all_evidence, ndcg, reciprocal_rank)
CUTOFFS = (1, 3, 5, 10, 50)

rankings = st.lists(st.sampled_from([f"t{number}" for number in range(12)]), max_size=10, unique=True)
golds = st.sets(st.sampled_from([f"t{number}" for number in range(12)]), min_size=1, max_size=6)
depths = st.integers(1, 12)


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        # ranked: x a y b; gold: a b c. R = found / 3; gains by rank: 2 gives 1/log2 3 = 0.63093, 4 gives 1/log2 5 =
        # 0.43068; ideal for k = 1, 2, 3 and more: 1, 1.63093, 2.13093.
        (1, (0.0, 0.0, 0.0, 0.0, 0.0)),
        (2, (1 / 3, 1.0, 0.0, 0.63093 / 1.63093, 0.5)),
        (3, (1 / 3, 1.0, 0.0, 0.63093 / 2.13093, 0.5)),
        (4, (2 / 3, 1.0, 0.0, 1.06161 / 2.13093, 0.5)),
        (9, (2 / 3, 1.0, 0.0, 1.06161 / 2.13093, 0.5)),
    ],
)
def test_worked_by_hand(k: int, expected: tuple[float, ...]) -> None:
    found = tuple(measure(["x", "a", "y", "b"], ["a", "b", "c"], k) for measure in MEASURES)
    assert found == pytest.approx(expected, abs=1e-4)


def test_a_perfect_ranking_is_worth_1_as_far_as_it_can_be() -> None:
    assert [measure(["a", "b", "x"], ["b", "a"], 2) for measure in MEASURES] == [1.0] * 5
    # Two gold items don't fit in one place: half is found, not all, and no order could be better.
    assert [measure(["a", "b", "x"], ["b", "a"], 1) for measure in MEASURES] == [0.5, 1.0, 0.0, 1.0, 1.0]


def test_the_reciprocal_rank_needs_no_cut_off() -> None:
    ranked = [f"x{number}" for number in range(49)] + ["a"]
    assert reciprocal_rank(ranked, ["a"]) == 1 / 50
    assert reciprocal_rank(ranked, ["a"], 49) == 0.0


@pytest.mark.parametrize("measure", MEASURES)
def test_without_gold_a_measure_is_undefined_and_of_an_empty_ranking_0(measure: Measure) -> None:
    assert measure(["a"], [], 1) is None
    assert measure([], (), 1) is None
    assert measure([], ["a"], 1) == 0.0


@pytest.mark.parametrize("measure", MEASURES)
def test_an_item_ranked_twice_or_a_cut_off_of_0_is_refused(measure: Measure) -> None:
    with pytest.raises(InvalidInputError, match="'b' is ranked more than once"):
        measure(["a", "b", "c", "b"], ["a"], 2)
    with pytest.raises(InvalidInputError, match="'b' is ranked more than once"):
        measure(["b", "b"], [], 2)
    with pytest.raises(InvalidInputError, match="at least 1, not 0"):
        measure(["a"], ["a"], 0)


def test_gold_named_twice_counts_once() -> None:
    for measure in MEASURES:
        assert measure(["a", "x"], ["a", "b", "a"], 2) == measure(["a", "x"], ["a", "b"], 2)


# EVL-05
def test_questions_without_gold_are_in_no_mean() -> None:
    items = [(["s1"], ["s1", "s2"]), (["s1", "s3"], ["s1", "s2"]), ([], ["s4"]), ([], [])]
    for measure, expected in ((success, 1.0), (all_evidence, 0.5), (recall, 0.75)):
        values = [measure(ranked, gold, 2) for gold, ranked in items]
        known = [value for value in values if value is not None]
        assert (len(known), values[2:]) == (2, [None, None])
        assert sum(known) / len(known) == expected
    # q1: 1. q2: gold at rank 1 of two, 1 / (1 + 0.63093) = 0.61315.
    values = [ndcg(ranked, gold, 2) for gold, ranked in items]
    assert values == [1.0, pytest.approx(0.61315, abs=1e-5), None, None]


@pytest.mark.parametrize("seed", range(8))
def test_the_same_as_trec_eval(seed: int) -> None:
    rng = np.random.default_rng(seed)
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    ranked: dict[str, list[str]] = {}
    for number in range(40):
        corpus = [f"d{item}" for item in rng.permutation(80)]
        query = f"q{number}"
        ranked[query] = corpus[: int(rng.integers(1, 61))]
        # Scores all differ: trec_eval breaks ties by name, and these are ranked already.
        run[query] = {doc_id: float(len(corpus) - place) for place, doc_id in enumerate(ranked[query])}
        gold = rng.choice(corpus, size=int(rng.integers(1, 9)), replace=False).tolist()
        qrels[query] = {str(doc_id): 1 for doc_id in gold}
    cuts = ",".join(map(str, CUTOFFS))
    wanted = {f"recall.{cuts}", f"success.{cuts}", f"ndcg_cut.{cuts}", "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(run)
    assert len(theirs) == 40
    for query, scores in theirs.items():
        gold = list(qrels[query])
        assert reciprocal_rank(ranked[query], gold) == pytest.approx(scores["recip_rank"], abs=1e-12)
        for k in CUTOFFS:
            assert recall(ranked[query], gold, k) == pytest.approx(scores[f"recall_{k}"], abs=1e-12)
            assert success(ranked[query], gold, k) == scores[f"success_{k}"]
            assert ndcg(ranked[query], gold, k) == pytest.approx(scores[f"ndcg_cut_{k}"], abs=1e-12)
            assert all_evidence(ranked[query], gold, k) == float(scores[f"recall_{k}"] == 1)


@given(rankings, golds, depths)
def test_values_lie_between_0_and_1_and_are_ordered(ranked: list[str], gold: set[str], k: int) -> None:
    values = [measure(ranked, gold, k) for measure in MEASURES]
    assert all(value is not None and 0 <= value <= 1 + 1e-12 for value in values)
    share, anything, everything = (value or 0.0 for value in values[:3])
    assert everything <= share <= anything
    assert (share > 0) == (anything == 1)
    assert (share == 1) == (everything == 1)


@given(rankings, golds, depths)
def test_a_longer_look_finds_no_less(ranked: list[str], gold: set[str], k: int) -> None:
    for measure in (recall, success, all_evidence, reciprocal_rank):
        assert (measure(ranked, gold, k) or 0) <= (measure(ranked, gold, k + 1) or 0)


@given(rankings, golds, depths, st.randoms(use_true_random=False))
def test_names_and_the_order_of_gold_change_nothing(ranked: list[str], gold: set[str], k: int, random: object) -> None:
    order = sorted(gold)
    random.shuffle(order)  # type: ignore[attr-defined]
    for measure in MEASURES:
        expected = measure(ranked, gold, k)
        assert measure(ranked, order, k) == expected
        assert measure([f"x-{item}" for item in ranked], {f"x-{item}" for item in gold}, k) == expected


@given(rankings, golds, depths)
def test_a_gold_item_that_moves_up_never_costs(ranked: list[str], gold: set[str], k: int) -> None:
    for place in range(1, len(ranked)):
        if ranked[place] in gold and ranked[place - 1] not in gold:
            better = [*ranked[: place - 1], ranked[place], ranked[place - 1], *ranked[place + 1 :]]
            for measure in MEASURES:
                assert (measure(better, gold, k) or 0) >= (measure(ranked, gold, k) or 0)


def test_ndcg_may_fall_when_the_cut_off_grows() -> None:
    # Gold a and b, ranked a x: 1 of 1 at 1; at 2 the best order has 1 + 0.63093.
    assert ndcg(["a", "x"], ["a", "b"], 1) == 1.0
    assert ndcg(["a", "x"], ["a", "b"], 2) == pytest.approx(1 / (1 + 1 / math.log2(3)))
