"""How designs stand against the plainest one, on the same questions at the same budgets.

- The value is accuracy where answers were judged. Else it is the share of the gold turns shown word for word, or, when
  a design rewrites, the share of their words.
- Questions that share what they rest on are not independent. Of `FEWEST_USERS` users and more, whole users are drawn
  and flipped together; of fewer, the questions whose first gold session is the same. What is then said holds for other
  questions about these histories, not for other histories.
- At each budget a sign-flip test compares each design with the default, Holm-corrected over the designs. A design is
  better when that holds at most of the budgets, k of B. Each test has the level 0.05 k / B, so that by Markov's
  inequality not more than 1 experiment in 20 calls a design better that is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, Literal

import numpy as np

from backread.bench.comparisons import FEWEST_USERS
from backread.bench.records import QuestionRecord
from backread.bench.results import Results
from backread.bench.stats.correction import holm
from backread.bench.stats.intervals import Interval, clustered_bootstrap, clustered_bootstrap_difference
from backread.bench.stats.paired import sign_flip
from backread.bench.tables import build_rows, spent_rows, value_of
from backread.errors import InvalidInputError

__all__ = ["LEVEL", "POWER", "AtBudget", "Contest", "Standing", "contest_of", "standings_of"]

LEVEL: Final = 0.05
"""The share of experiments in which no design is better and one may be called so all the same."""

POWER: Final = 0.8
"""The share of experiments in which a difference that is called detectable is shown."""

Grid = Mapping[str, Mapping[int | None, str]]


@dataclass(frozen=True, slots=True)
class Contest:
    """What is compared, and how.

    Attributes:
        results: the records.
        grid: cell names by design, the default first, and budget, in rising order, no limit last.
        default: the design the others are compared with.
        measure: the value, see `tables.value_of`.
        clustered_by: what questions have in common that are drawn together.
        majority: budgets at which a design must be shown to be better.
        level: of each test.
    """

    results: Results
    grid: Grid
    default: str
    measure: str
    clustered_by: Literal["user", "gold session"]
    majority: int
    level: float

    def values(self, cell: str) -> dict[str, tuple[float, str]]:
        """(value, cluster) by question id, where there is a value."""
        found = ((record, value_of(record, self.measure)) for record in self.results.ok(cell))
        return {
            record.question_id: (value, _cluster(record, self.clustered_by))
            for record, value in found
            if value is not None
        }


@dataclass(frozen=True, slots=True)
class AtBudget:
    """A design at one budget.

    Attributes:
        budget: tokens of evidence; None is no limit.
        value: the mean, with its clustered bootstrap interval.
        difference: design - default over the questions both have, with its interval; None of the default itself.
        p: of the sign-flip test; None where there is none.
        adjusted: after Holm over the designs at this budget, to be compared with `Contest.level`.
        better: whether the design is shown to be better than the default here; `worse` likewise.
        detectable: the smallest difference that so many questions would show four times in five.
        tokens: of the evidence, per question.
        model_tokens: of model calls before the answer, per question; 0 without calls, None when not all were counted.
        failed: questions that have no value because a call failed.
    """

    budget: int | None
    value: Interval
    difference: Interval | None
    p: float | None
    adjusted: float | None
    better: bool
    worse: bool
    detectable: float | None
    tokens: float | None
    model_tokens: float | None
    failed: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A design over all budgets.

    Attributes:
        strategy: its name.
        mean: of the value, over budgets.
        better: shown to be better than the default at most budgets; `worse` likewise.
        same_as: a design that shows the very same evidence everywhere, and is compared in its place.
        build_tokens: of model calls when turns arrive, in all; 0 without calls, None when not all were counted.
        budgets: in rising order, no limit last.
    """

    strategy: str
    mean: float | None
    better: bool
    worse: bool
    same_as: str | None
    build_tokens: int | None
    budgets: tuple[AtBudget, ...]


def contest_of(results: Results, default: str) -> Contest:
    """The comparison that records allow.

    Cells of a depth and of the oracle are left out, and so are budgets that the default was not run at.

    Raises:
        InvalidInputError: the default has no records, or a design has two cells of one budget.
    """
    grid = _grid(results)
    if default not in grid:
        raise InvalidInputError(
            f"there are no records of the design {default!r}, which the others are compared with",
            hint=f"there are: {', '.join(grid)}",
        )
    budgets = sorted(grid[default], key=lambda budget: (budget is None, budget or 0))
    chosen = {
        name: {budget: grid[name][budget] for budget in budgets if budget in grid[name]}
        for name in (default, *(name for name in grid if name != default))
    }
    records = [record for own in chosen.values() for cell in own.values() for record in results.ok(cell)]
    rewritten = any(record.rewritten for record in records)
    measure = "coverage:words" if rewritten else "coverage:verbatim"
    majority = len(budgets) // 2 + 1
    return Contest(
        results=results,
        grid=chosen,
        default=default,
        measure="accuracy:strict" if "strict" in results.judges else measure,
        clustered_by="user" if len({record.user_id for record in records}) >= FEWEST_USERS else "gold session",
        majority=majority,
        level=LEVEL * majority / len(budgets),
    )


def standings_of(contest: Contest, rng: np.random.Generator, *, resamples: int = 9999) -> tuple[Standing, ...]:
    """Every design with every budget, the default first; the same state of `rng` gives the same."""
    same = _same(contest)
    rows: dict[str, list[AtBudget]] = {name: [] for name in contest.grid}
    for budget in contest.grid[contest.default]:
        found = {
            name: _row(contest, name, budget, rng, resamples) for name, own in contest.grid.items() if budget in own
        }
        tested = [name for name in found if name != contest.default and name not in same]
        correction = holm([found[name].p for name in tested])
        adjusted = dict(zip(tested, correction.p, strict=True))
        for name, row in found.items():
            rows[name].append(_tested(row, adjusted.get(name), correction.family, contest.level))
    build = {row.strategy: row.tokens for row in build_rows(contest.results)}
    return tuple(
        Standing(
            strategy=name,
            mean=_mean([row.value.mean for row in own if row.value.mean is not None]),
            better=sum(row.better for row in own) >= contest.majority,
            worse=sum(row.worse for row in own) >= contest.majority,
            same_as=same.get(name),
            build_tokens=build.get(name, 0),
            budgets=tuple(own),
        )
        for name, own in rows.items()
    )


def _grid(results: Results) -> dict[str, dict[int | None, str]]:
    grid: dict[str, dict[int | None, str]] = {}
    for name in results.cells:
        cell = results.cell(name)
        if cell.depth is not None or cell.retriever == "oracle":
            continue
        own = grid.setdefault(cell.strategy, {})
        if cell.budget in own:
            raise InvalidInputError(
                f"{own[cell.budget]} and {name} are one design at one budget",
                hint="compare designs with one retriever at a time",
            )
        own[cell.budget] = name
    return grid


def _cluster(record: QuestionRecord, by: Literal["user", "gold session"]) -> str:
    if by == "user":
        return record.user_id
    # Without a gold session a question stands alone: nothing is known of what it shares with others.
    alone = ("", record.question_id)
    return "\n".join([record.user_id, *(record.gold_sessions[:1] or alone)])


def _same(contest: Contest) -> dict[str, str]:
    """Designs that show the same stretches of turns as one before them, for every question at every budget.

    A design that rewrites is never the same as another: it may say other things of the same turns.
    """
    first: dict[object, str] = {}
    same: dict[str, str] = {}
    for name, own in contest.grid.items():
        records = [(budget, record) for budget, cell in own.items() for record in contest.results.records(cell)]
        if any(record.rewritten for _, record in records):
            continue
        key = tuple((budget, record.question_id, record.status, record.spans) for budget, record in records)
        if first.setdefault(key, name) != name:
            same[name] = first[key]
    return same


def _row(contest: Contest, name: str, budget: int | None, rng: np.random.Generator, resamples: int) -> AtBudget:
    """A design at a budget, not corrected."""
    cell = contest.grid[name][budget]
    own = contest.values(cell)
    difference, p = None, None
    if name != contest.default:
        base = contest.values(contest.grid[contest.default][budget])
        ids = sorted(own.keys() & base)
        first, second = ([side[question_id][0] for question_id in ids] for side in (own, base))
        clusters = [own[question_id][1] for question_id in ids]
        difference = clustered_bootstrap_difference(first, second, clusters, rng, resamples=resamples)
        p = sign_flip(first, second, rng, clusters=clusters, resamples=resamples).p
    values, clusters = [value for value, _ in own.values()], [cluster for _, cluster in own.values()]
    tokens = [float(record.tokens) for record in contest.results.ok(cell) if record.tokens is not None]
    return AtBudget(
        budget=budget,
        value=clustered_bootstrap(values, clusters, rng, resamples=resamples),
        difference=difference,
        p=p,
        adjusted=None,
        better=False,
        worse=False,
        detectable=None,
        tokens=_mean(tokens),
        model_tokens=_model_tokens(contest.results, cell),
        failed=contest.results.counts(cell).error,
    )


def _tested(row: AtBudget, adjusted: float | None, family: int, level: float) -> AtBudget:
    """The row with what its test says."""
    if row.difference is None or row.difference.mean is None or adjusted is None:
        return row
    detectable = None
    if row.difference.error:
        # By the normal approximation, at the first and strictest step of Holm's correction.
        normal = NormalDist()
        reach = normal.inv_cdf(1 - level / (2 * family)) + normal.inv_cdf(POWER)
        detectable = reach * row.difference.error
    shown = adjusted < level
    return replace(
        row,
        adjusted=adjusted,
        better=shown and row.difference.mean > 0,
        worse=shown and row.difference.mean < 0,
        detectable=detectable,
    )


def _model_tokens(results: Results, cell: str) -> float | None:
    """Input and output of the calls before the answer, per question."""
    spent = [row for row in spent_rows(results, cell) if row.usage.purpose == "recall"]
    if any(row.usage.uncounted for row in spent):
        return None
    return math.fsum(
        (row.each(row.usage.input_tokens) or 0) + (row.each(row.usage.output_tokens) or 0) for row in spent
    )


def _mean(numbers: Sequence[float]) -> float | None:
    return math.fsum(numbers) / len(numbers) if numbers else None
