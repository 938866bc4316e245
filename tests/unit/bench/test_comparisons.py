"""Cells on the same questions: what is paired, what is tested, what is called better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from bench_samples import failed, judged, question

from backread.bench.comparisons import FEWEST_USERS, PairedRow, Side, mean_difference, paired_rows, typed_rows
from backread.bench.records import QuestionRecord

USERS = [f"u{n}" for n in range(6)]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def verdicts(name: str, marks: str, kinds: Sequence[str] = ("fact",)) -> Side:
    """One question a mark, over six users: "+" correct, "-" incorrect, "?" unscored, "!" failed, " " no record."""
    said = {"+": "correct", "-": "incorrect", "?": "unscored"}
    records: list[QuestionRecord] = []
    for number, mark in enumerate(marks):
        given: dict[str, Any] = {"user_id": USERS[number % 6], "question_type": kinds[number % len(kinds)]}
        if mark != " ":
            records.append(failed(number, **given) if mark == "!" else judged(number, said[mark], **given))
    return Side(name, records)


def graded(name: str, values: Sequence[float | None], users: Sequence[str] = USERS) -> Side:
    return Side(
        name,
        [question(n, user_id=users[n % len(users)], measures={"F1": value}) for n, value in enumerate(values)],
    )


def only(rows: Sequence[PairedRow]) -> PairedRow:
    assert len(rows) == 1
    return rows[0]


def test_verdicts_are_paired_by_question_and_tested_exactly() -> None:
    # Both scored: q0 +-, q1 -+, q2 -+, q3 -+, q4 ++, q5 --. Only the cell right 3, only the baseline 1:
    # p = 2 P(X <= 1), X of 4 halves, = 2 * 5/16. q6, q7, q8 are defined on one side only.
    row = only(paired_rows([(verdicts("a", "+---+-+?!"), verdicts("b", "-++++-!+-"))], ["accuracy:strict"], rng()))
    assert (row.only_baseline, row.only_cell, row.test, row.p) == (1, 3, "exact McNemar", 0.625)
    assert [row.baseline_mean, row.cell_mean, row.difference.mean] == pytest.approx([2 / 6, 4 / 6, 1 / 3])
    assert (row.difference.n, row.unpaired) == (6, 3)
    assert (row.baseline, row.cell, row.value, row.question_type) == ("a", "b", "accuracy:strict", None)


def test_graded_measures_are_tested_by_a_paired_t() -> None:
    # Differences 1, 2, 3 tenths: mean 0.2, s 0.1, t = 0.2 / (0.1 / sqrt(3)) = 3.4641, p (2 df) = 0.0742
    row = only(paired_rows([(graded("a", [0.1, 0.1, 0.1]), graded("b", [0.2, 0.3, 0.4]))], ["F1"], rng()))
    assert row.test == "paired t"
    assert row.p == pytest.approx(0.0742, abs=5e-5)
    assert (row.only_baseline, row.only_cell) == (None, None)
    assert row.difference.mean == pytest.approx(0.2)


def test_holm_corrects_over_all_pairs_of_one_value() -> None:
    # Against the baseline (all wrong) cells right in 6, 5 and 3 of 6: p = 2/64, 2/32, 2/8 -> 3p, 2p, p, rising.
    base = verdicts("base", "------")
    cells = [verdicts("c6", "++++++"), verdicts("c5", "+++++-"), verdicts("c3", "+++---"), verdicts("none", "??????")]
    rows = paired_rows([(base, cell) for cell in cells], ["accuracy:strict", "F1"], rng())
    strict, f1 = rows[:4], rows[4:]
    assert [row.p for row in strict] == [2 / 64, 2 / 32, 2 / 8, None]
    assert [row.adjusted for row in strict] == [6 / 64, 4 / 32, 2 / 8, None]
    assert {row.family for row in strict} == {3}  # an undefined test is not in the family
    assert [(row.value, row.family, row.difference.mean) for row in f1] == [("F1", 0, None)] * 4


def test_better_needs_both_intervals_and_enough_users() -> None:
    values = [0.2, 0.25, 0.3, 0.35, 0.4, 0.45]
    many = only(paired_rows([(graded("a", [0.0] * 6), graded("b", values))], ["F1"], rng()))
    assert (many.better, many.worse, many.difference.clusters) == (True, False, 6)
    back = only(paired_rows([(graded("b", values), graded("a", [0.0] * 6))], ["F1"], rng()))
    assert (back.better, back.worse) == (False, True)
    few = only(paired_rows([(graded("a", [0.0] * 6, USERS[:4]), graded("b", values, USERS[:4]))], ["F1"], rng()))
    assert few.difference.clusters == 4 < FEWEST_USERS
    assert few.difference.low is not None
    assert few.difference.low > 0
    assert (few.better, few.worse) == (False, False)


def test_a_bootstrap_alone_says_nothing() -> None:
    # Five users gain nothing or much: resampled means stay above 0, a t interval with 4 df reaches below it.
    values = [0.9, 0.05, 0.05, 0.05, 0.05]
    row = only(paired_rows([(graded("a", [0.0] * 5, USERS[:5]), graded("b", values, USERS[:5]))], ["F1"], rng()))
    assert row.difference.low == pytest.approx(0.05)
    assert row.clustered.low is not None
    assert row.clustered.low < 0
    assert not row.better


def test_one_user_gives_a_mean_without_an_interval() -> None:
    row = only(paired_rows([(graded("a", [0.0, 0.1], ["ann"]), graded("b", [0.5, 0.4], ["ann"]))], ["F1"], rng()))
    assert row.difference.mean == pytest.approx(0.4)
    assert (row.difference.low, row.better) == (None, False)


def test_types_are_compared_apart_and_without_abstention() -> None:
    base, cell = verdicts("a", "----", ("x", "y")), verdicts("b", "+-+-", ("x", "y"))
    abstaining = [side.records[0].model_copy(update={"question_id": "qa", "abstention": True}) for side in (base, cell)]
    pairs = [(Side("a", [*base.records, abstaining[0]]), Side("b", [*cell.records, abstaining[1]]))]
    rows = typed_rows(pairs, ["accuracy:strict"], rng())
    assert [(row.question_type, row.difference.n, row.difference.mean) for row in rows] == [
        ("x", 2, 1.0),
        ("y", 2, 0.0),
    ]
    assert only(paired_rows(pairs, ["accuracy:strict"], rng())).difference.n == 5


def test_nothing_in_common_is_a_row_of_none() -> None:
    row = only(paired_rows([(verdicts("a", "+ "), verdicts("b", " +"))], ["accuracy:strict"], rng()))
    assert (row.difference.n, row.difference.mean, row.p, row.baseline_mean, row.unpaired) == (0, None, None, None, 2)
    assert not row.better
    assert mean_difference([row]) is None


def test_the_same_draws_give_the_same_rows_in_any_order_of_records() -> None:
    base, cell = graded("a", [0.1, 0.5, 0.3, 0.9, 0.2, 0.4]), graded("b", [0.3, 0.4, 0.8, 0.7, 0.5, 0.1])
    first = paired_rows([(base, cell)], ["F1"], rng())
    turned = paired_rows([(Side("a", base.records[::-1]), Side("b", cell.records[::-1]))], ["F1"], rng())
    assert first == turned
    low, high = first[0].difference.low, first[0].difference.high
    assert low is not None
    assert high is not None
    assert low < (first[0].difference.mean or 0) < high


def test_studies_average_over_rows() -> None:
    rows = paired_rows(
        [(graded("a", [0.0] * 6), graded("b", [x] * 6)) for x in (0.1, 0.2, 0.6)], ["F1"], rng(), resamples=10
    )
    assert mean_difference(rows) == pytest.approx(0.3)
