"""Cells compared on the same questions: differences with intervals, tests, and a correction for how many there are.

Two cells are paired question by question, over the questions that a value is defined for in both. The interval of a
difference draws whole users (`stats.clustered_bootstrap_difference`); p-values are those that publications print: a
paired t-test for graded measures and an exact McNemar test for verdicts, Holm-corrected over all comparisons of one
value, the family.

With few users a bootstrap interval is too narrow, and with one or two it says nothing. So a cell is called better or
worse only where the t interval of the differences, clustered by user, lies on the same side of 0, and from
`FEWEST_USERS` users on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from backread.bench.records import QuestionRecord
from backread.bench.stats.correction import holm
from backread.bench.stats.intervals import Interval, clustered_bootstrap_difference, clustered_mean
from backread.bench.stats.paired import mcnemar, paired_t
from backread.bench.tables import value_of

__all__ = ["FEWEST_USERS", "PairedRow", "Side", "mean_difference", "paired_rows", "typed_rows"]

FEWEST_USERS: Final = 5
"""Users whose questions a comparison has to hold before it says better or worse."""

_VERDICT: Final = "accuracy:"


class Side(NamedTuple):
    """The records of one side of a comparison, under the name that they are shown by."""

    name: str
    records: Sequence[QuestionRecord]


@dataclass(frozen=True, slots=True)
class PairedRow:
    """How a cell differs from a baseline in one value.

    Attributes:
        value: "accuracy:<judge>" or a measure, see `tables.value_of`.
        question_type: of the questions compared; None is all.
        baseline_mean: over the paired questions, and `cell_mean` likewise; None without any.
        difference: cell - baseline over `difference.n` questions, with the bootstrap's interval.
        clustered: the same with the t interval.
        test: "exact McNemar" or "paired t"; it takes questions for independent.
        p: as the test gives it; None where it is undefined.
        adjusted: after Holm over the family.
        family: how many tests were corrected for.
        only_baseline: of verdicts, questions that only the baseline answers right, and `only_cell` likewise.
        unpaired: questions that the value is defined for on one side only.
    """

    baseline: str
    cell: str
    value: str
    question_type: str | None
    baseline_mean: float | None
    cell_mean: float | None
    difference: Interval
    clustered: Interval
    test: str
    p: float | None
    adjusted: float | None
    family: int
    only_baseline: int | None
    only_cell: int | None
    unpaired: int

    @property
    def better(self) -> bool:
        """Whether both intervals are above 0, of enough users."""
        return self._enough and all(each.low is not None and each.low > 0 for each in (self.difference, self.clustered))

    @property
    def worse(self) -> bool:
        """Whether both intervals are below 0, of enough users."""
        return self._enough and all(
            each.high is not None and each.high < 0 for each in (self.difference, self.clustered)
        )

    @property
    def _enough(self) -> bool:
        return self.difference.clusters >= FEWEST_USERS


def paired_rows(
    pairs: Sequence[tuple[Side, Side]],
    values: Sequence[str],
    rng: np.random.Generator,
    *,
    question_type: str | None = None,
    resamples: int = 9999,
) -> tuple[PairedRow, ...]:
    """A row for every (baseline, cell) and value, by value and then in the order given.

    The family of the correction is all pairs of one value. A pair without a common question gives a row of n 0.

    Args:
        pairs: what is compared, each baseline first.
        values: see `tables.value_of`.
        rng: draws the intervals; the same state gives the same rows.
        question_type: only questions of this type, without those that have no answer in the history; None is all.
        resamples: draws per interval.

    Raises:
        MissingExtraError: scipy isn't installed.
    """
    rows: list[PairedRow] = []
    for value in values:
        found = [_row(baseline, cell, value, question_type, rng, resamples) for baseline, cell in pairs]
        correction = holm([row.p for row in found])
        rows += [
            replace(row, adjusted=adjusted, family=correction.family)
            for row, adjusted in zip(found, correction.p, strict=True)
        ]
    return tuple(rows)


def typed_rows(
    pairs: Sequence[tuple[Side, Side]], values: Sequence[str], rng: np.random.Generator, *, resamples: int = 9999
) -> tuple[PairedRow, ...]:
    """`paired_rows` for every type of question that the sides have, by type; each type has families of its own."""
    types = sorted({r.question_type for pair in pairs for side in pair for r in side.records if not r.abstention})
    return tuple(
        row for kind in types for row in paired_rows(pairs, values, rng, question_type=kind, resamples=resamples)
    )


def mean_difference(rows: Sequence[PairedRow]) -> float | None:
    """The mean of the rows' differences, each row the same weight, as studies average over retrievers."""
    known = [row.difference.mean for row in rows if row.difference.mean is not None]
    return math.fsum(known) / len(known) if known else None


def _row(
    baseline: Side, cell: Side, value: str, question_type: str | None, rng: np.random.Generator, resamples: int
) -> PairedRow:
    """One comparison, not corrected."""
    sides = [_values(side.records, value, question_type) for side in (baseline, cell)]
    ids = sorted(sides[0].keys() & sides[1])
    first, second = ([side[question_id][0] for question_id in ids] for side in sides)
    users = [sides[0][question_id][1] for question_id in ids]
    difference = clustered_bootstrap_difference(second, first, users, rng, resamples=resamples)
    only: tuple[int | None, int | None] = (None, None)
    if value.startswith(_VERDICT):
        exact = mcnemar([number == 1.0 for number in first], [number == 1.0 for number in second])
        test, p, only = "exact McNemar", exact.p, (exact.first_only, exact.second_only)
    else:
        test, p = "paired t", paired_t(second, first).p
    return PairedRow(
        baseline=baseline.name,
        cell=cell.name,
        value=value,
        question_type=question_type,
        baseline_mean=_mean(first),
        cell_mean=_mean(second),
        difference=difference,
        clustered=clustered_mean([one - other for one, other in zip(second, first, strict=True)], users),
        test=test,
        p=p,
        adjusted=None,
        family=0,
        only_baseline=only[0],
        only_cell=only[1],
        unpaired=len(sides[0].keys() ^ sides[1].keys()),
    )


def _values(records: Sequence[QuestionRecord], value: str, kind: str | None) -> dict[str, tuple[float, str]]:
    """(value, user id) by question id, where there is one."""
    chosen = (r for r in records if kind is None or (r.question_type == kind and not r.abstention))
    found = ((record, value_of(record, value)) for record in chosen)
    return {record.question_id: (number, record.user_id) for record, number in found if number is not None}


def _mean(numbers: Sequence[float]) -> float | None:
    return math.fsum(numbers) / len(numbers) if numbers else None
