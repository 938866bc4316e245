"""Fair pairs of cells, the Pareto front, and what a building has to earn back."""

from __future__ import annotations

import pytest
from bench_samples import built, question, results, used
from hypothesis import given
from hypothesis import strategies as st

from backread.bench.matching import (
    BreakEven,
    Point,
    against,
    averaged,
    break_even,
    break_even_rows,
    default_baseline,
    front,
    points,
    same_limit,
)
from backread.bench.spec import Cell, DesignSpec
from backread.bench.stats.intervals import Interval
from backread.errors import InvalidInputError


def cell(name: str) -> Cell:
    """A cell from "design/retriever/depth=3"."""
    strategy, retriever, limit = name.split("/")
    kind, _, number = limit.partition("=")
    limits = {kind: int(number)} if number else {}
    return Cell.model_validate({"strategy": strategy, "retriever": None if retriever == "own" else retriever, **limits})


def at(name: str, tokens: float, value: float = 0.5) -> Point:
    first, second = (Interval(mean, None, None, 1, 1, "m") for mean in (tokens, value))
    return Point(cell(name), first, second)


def names(pairs: tuple[tuple[Cell, Cell], ...]) -> list[tuple[str, str]]:
    return [(one.name, other.name) for one, other in pairs]


# --- break-even


def test_break_even_of_the_study() -> None:
    # 119,884 / (903 - 529) = 119,884 / 374 = 320.5
    assert break_even(119_884, 903, 529) == 321


@pytest.mark.parametrize(
    ("built", "baseline", "own", "expected"),
    [
        (1000, 30, 20, 100),
        (1001, 30, 20, 101),
        (0, 30, 20, 0),
        (1000, 30, 30, None),
        (1000, 20, 30, None),
        (0, 20, 30, None),
    ],
)
def test_break_even(built: float, baseline: float, own: float, expected: int | None) -> None:
    assert break_even(built, baseline, own) == expected


@given(st.integers(0, 10**7), st.integers(0, 10**5), st.integers(0, 10**5))
def test_break_even_is_the_first_question_that_pays(built: int, baseline: int, own: int) -> None:
    questions = break_even(built, baseline, own)
    if questions is None:
        assert baseline <= own
    else:
        assert questions * (baseline - own) >= built
        assert questions == 0 or (questions - 1) * (baseline - own) < built


def test_tokens_are_not_negative() -> None:
    with pytest.raises(InvalidInputError, match="negative"):
        break_even(-1, 2, 1)


# --- points


def test_points_are_cells_with_both_figures() -> None:
    plain, bare = cell("plain/bm25/depth=3"), cell("plain/bm25/depth=5")
    records = [
        question(1, plain, tokens=100, measures={"F1": 0.5}),
        question(2, plain, tokens=300, measures={"F1": 1.0}),
        question(1, bare, measures={"F1": 1.0}),
    ]
    found = points(results(records, [DesignSpec(strategy="plain", retrievers=("bm25",), depths=(3, 5))]), "F1")
    assert [(point.cell.name, point.tokens.mean, point.value.mean) for point in found] == [(plain.name, 200.0, 0.75)]


def test_the_front_holds_what_nothing_beats() -> None:
    found = [
        at("a/x/depth=1", 100, 0.3),
        at("b/x/depth=1", 100, 0.4),
        at("c/x/depth=1", 200, 0.4),  # as good as b, for more
        at("d/x/depth=1", 300, 0.6),
        at("e/x/depth=1", 300, 0.6),
        at("a/oracle/unlimited", 50, 1.0),
    ]
    assert front(found) == {"b/x/depth=1", "d/x/depth=1", "e/x/depth=1"}
    assert front([]) == frozenset()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_every_cell_is_on_the_front_or_beaten_by_one_that_is(pairs: list[tuple[int, int]]) -> None:
    found = [at(f"d{n}/x/depth=1", tokens, value) for n, (tokens, value) in enumerate(pairs)]
    best = [point for point in found if point.cell.name in front(found)]
    assert best
    for point in found:
        beaten = any(
            (b.tokens.mean or 0) <= (point.tokens.mean or 0) and (b.value.mean or 0) >= (point.value.mean or 0)
            for b in best
        )
        assert beaten


# --- pairs

CELLS = [
    cell(name)
    for name in (
        "rag/bm25/depth=3",
        "rag/bm25/budget=500",
        "rag/hybrid/depth=3",
        "rag/hybrid/budget=500",
        "rag/oracle/unlimited",
        "mem/bm25/depth=3",
        "mem/bm25/depth=6",
        "mem/own/budget=500",
        "mem/dense/budget=500",
    )
]


def test_a_baseline_of_design_and_retriever_is_taken_at_the_same_limit() -> None:
    assert names(against(CELLS, "rag/bm25")) == [
        ("rag/bm25/depth=3", "rag/hybrid/depth=3"),
        ("rag/bm25/budget=500", "rag/hybrid/budget=500"),
        ("rag/bm25/depth=3", "mem/bm25/depth=3"),
        ("rag/bm25/budget=500", "mem/own/budget=500"),
        ("rag/bm25/budget=500", "mem/dense/budget=500"),
    ]
    assert names(against(CELLS, "mem/own")) == [
        ("mem/own/budget=500", f"{other}/budget=500") for other in ("rag/bm25", "rag/hybrid", "mem/dense")
    ]


def test_a_cell_as_baseline_is_compared_with_all_others() -> None:
    found = against(CELLS, "rag/bm25/depth=3")
    assert len(found) == 7  # all but itself and the oracle
    assert {one.name for one, _ in found} == {"rag/bm25/depth=3"}
    assert len(against(CELLS, "rag/oracle/unlimited")) == 8


def test_the_default_baseline_is_the_first_design_and_retriever() -> None:
    assert default_baseline(CELLS) == "rag/bm25"
    assert default_baseline([cell("a/oracle/unlimited"), cell("b/own/budget=9")]) == "b/own"
    with pytest.raises(InvalidInputError, match="oracle"):
        default_baseline([cell("a/oracle/unlimited")])
    with pytest.raises(InvalidInputError, match="no cell of 'other'") as caught:
        against(CELLS, "other")
    assert caught.value.hint == "baselines are: rag/bm25, rag/hybrid, mem/bm25, mem/own, mem/dense"


def test_designs_meet_with_the_same_retriever() -> None:
    assert names(same_limit(CELLS, "rag")) == [
        ("rag/bm25/depth=3", "mem/bm25/depth=3"),
        ("rag/bm25/budget=500", "mem/own/budget=500"),  # its own retriever: against the first
    ]
    assert same_limit(CELLS, "other") == ()


# --- matched budget on average


def test_depths_of_the_study_are_found() -> None:
    # Table 5 of the LightMem reproduction: raw turns at 3, 5, 10 and entries at 6, 10, 20 take about as many tokens.
    raw = {3: 330, 5: 503, 10: 946}
    entries = {3: 165, 6: 329, 10: 498, 20: 923}
    found = [at(f"rag/x/depth={k}", tokens) for k, tokens in raw.items()]
    found += [at(f"mem/x/depth={k}", tokens) for k, tokens in entries.items()]
    found += [at("mem/x/budget=330", 330), at("rag/oracle/unlimited", 400)]
    rows = averaged(found, [330, 500, 935])
    assert [(row.target, row.point.cell.strategy, row.point.cell.depth, row.point.tokens.mean) for row in rows] == [
        (330, "rag", 3, 330),
        (330, "mem", 6, 329),
        (500, "rag", 5, 503),
        (500, "mem", 10, 498),
        (935, "rag", 10, 946),
        (935, "mem", 20, 923),
    ]


def test_of_two_depths_as_near_the_smaller_one_is_taken() -> None:
    rows = averaged([at("a/x/depth=4", 120), at("a/x/depth=2", 80)], [100])
    assert rows[0].point.cell.depth == 2


# --- break-even rows


def test_break_even_rows_by_evidence_and_by_all_calls() -> None:
    rag, mem = cell("rag/bm25/depth=5"), cell("mem/bm25/depth=5")
    records = [
        question(1, rag, tokens=900, usage=(used("answer", 1, 1000, 20),)),
        question(1, mem, tokens=500, usage=(used("answer", 1, 600, 20), used("recall", 2, 900, 100))),
        built("ann", "mem", usage=(used("build", 9, 30_000, 2_000),)),
        built("ben", "mem", usage=(used("build", 9, 50_000, 2_000),)),
    ]
    rows = break_even_rows(results(records), [(rag, mem), (mem, rag)])
    # (32,000 + 52,000) / 2 = 42,000 a history; 42,000 / 400 = 105. All calls: 1,020 against 1,620, never.
    assert rows[0] == BreakEven(rag, mem, 42_000.0, 900.0, 500.0, 105, 1020.0, 1620.0, None)
    # The other way round nothing was built here, so it can't be told.
    assert (rows[1].build_tokens, rows[1].questions, rows[1].all_questions) == (None, None, None)


def test_calls_that_nobody_counted_leave_it_unknown() -> None:
    rag, mem = cell("rag/bm25/depth=5"), cell("mem/bm25/depth=5")
    records = [
        question(1, rag, tokens=900, usage=(used("answer", 1, None),)),
        question(1, mem, tokens=500, usage=(used("answer", 1, 600, 20),)),
        built("ann", "mem", usage=(used("build", 9, None),)),
    ]
    row = break_even_rows(results(records), [(rag, mem)])[0]
    assert (row.build_tokens, row.questions, row.all_baseline_tokens, row.all_tokens) == (None, None, None, 620.0)
