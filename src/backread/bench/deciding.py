"""Which design is worth choosing, from the records of designs at budgets; or that they can't tell.

Recommended is, of the designs that are better than the default (see `standings`), the one with the highest mean over
budgets. Where none is better, it is the default, if that is better than every other one. Otherwise the data can't tell:
the default is as good a choice as any, and what it would take to know is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from backread.bench.measures.names import DESCRIPTIONS
from backread.bench.results import Results
from backread.bench.standings import AtBudget, Contest, Standing, contest_of, standings_of
from backread.errors import InvalidInputError

__all__ = ["DEFAULT", "DRAFTED", "Choice", "recommend", "verdict"]

DEFAULT: Final = "naive_rag"
"""The design that is kept when nothing is shown to be better."""

DRAFTED: Final = "drafted"
"""The type of questions that nobody asked; see `drafting`."""

_FAILURES: Final = 0.1
"""The share of failed questions from which a design is not recommended: those that are left are no fair sample."""

_MOST_NEEDED: Final = 10_000
"""Questions beyond which a difference is as good as none."""

_CEILING: Final = 0.95
"""The default's mean from which hardly anything can be better."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the records say.

    Attributes:
        recommended: the design to use; None when the data can't tell.
        reason: why, in a few sentences.
        measure: the value compared, as in records.
        default: the design the others are compared with.
        contenders: by mean; where a design is recommended, those that are better than the default, or the default
            alone; else the default and those that are not shown to be worse.
        standings: by mean, best first; of equal ones the one that spends the fewest tokens of models.
        questions: that have a value.
        clusters: groups of questions that are drawn together.
        clustered_by: what the questions of a group share.
        level: of each test, after Holm's correction.
        needed: about how many questions it takes to tell the two best apart, should they differ as they did here; None
            when they are told apart, hardly differ, or it can't be said.
        drafted: how many of the questions nobody asked.
        notes: what has to be said beside it, a sentence each.
    """

    recommended: str | None
    reason: str
    measure: str
    default: str
    contenders: tuple[str, ...]
    standings: tuple[Standing, ...]
    questions: int
    clusters: int
    clustered_by: Literal["user", "gold session"]
    level: float
    needed: int | None
    drafted: int
    notes: tuple[str, ...]


def recommend(results: Results, *, default: str = DEFAULT, seed: int = 0, resamples: int = 9999) -> Choice:
    """What to choose; the same records and seed give the same choice.

    Args:
        results: of cells with budgets, every design with one retriever.
        default: the plainest design, which the others have to beat.
        seed: of the draws.
        resamples: draws of an interval or a test.

    Raises:
        InvalidInputError: the default has no records, or a design has two cells of one budget.
    """
    contest = contest_of(results, default)
    found = standings_of(contest, np.random.default_rng(seed), resamples=resamples)
    ordered = tuple(sorted(found, key=_best_first))
    recommended = None if results.status.name == "failed" else _recommended(contest, ordered)
    groups: dict[str, str] = {}
    for cell in contest.grid[default].values():
        groups |= {question_id: cluster for question_id, (_, cluster) in contest.values(cell).items()}
    drafted = {
        record.question_id
        for cell in contest.grid[default].values()
        for record in results.records(cell)
        if record.question_type == DRAFTED
    }
    told_apart = recommended is not None or any(item.better for item in found)
    needed = None if told_apart else _needed(contest, ordered)
    return Choice(
        recommended=recommended,
        reason=_reason(contest, ordered, recommended, needed),
        measure=contest.measure,
        default=default,
        contenders=_contenders(contest, ordered, recommended),
        standings=ordered,
        questions=len(groups),
        clusters=len(set(groups.values())),
        clustered_by=contest.clustered_by,
        level=contest.level,
        needed=needed,
        drafted=len(drafted),
        notes=tuple(_notes(contest, ordered, len(set(groups.values())), len(drafted))),
    )


def verdict(results: Results) -> str | None:
    """What `recommend` says of records that can be chosen from, in a sentence or two; None of others."""
    designs = {results.cell(name).strategy for name in results.cells}
    if DEFAULT not in designs or len(designs) < 2:
        return None
    try:
        return recommend(results).reason
    except InvalidInputError:  # made to compare something else
        return None


# --- deciding


def _best_first(item: Standing) -> tuple[float, float]:
    """The highest mean first; of equal ones the one that spends the fewest tokens of models."""
    spent = [math.inf if row.model_tokens is None else row.model_tokens for row in item.budgets]
    return math.inf if item.mean is None else -item.mean, sum(spent)


def _others(contest: Contest, ordered: Sequence[Standing]) -> list[Standing]:
    """What the default was compared with, by mean."""
    return [item for item in ordered if item.strategy != contest.default and item.same_as is None]


def _recommended(contest: Contest, ordered: Sequence[Standing]) -> str | None:
    others = _others(contest, ordered)
    better = [item.strategy for item in others if item.better and not _fails(contest, item)]
    if better:
        return better[0]
    return contest.default if others and all(item.worse for item in others) else None


def _contenders(contest: Contest, ordered: Sequence[Standing], recommended: str | None) -> tuple[str, ...]:
    if recommended == contest.default:
        return (recommended,)
    if recommended is not None:
        return tuple(item.strategy for item in _others(contest, ordered) if item.better)
    worse = {item.strategy for item in ordered if item.worse or item.same_as is not None}
    return tuple(item.strategy for item in ordered if item.strategy not in worse)


def _fails(contest: Contest, item: Standing) -> bool:
    totals = [contest.results.counts(cell) for cell in contest.grid[item.strategy].values()]
    return any(found.error > _FAILURES * found.total for found in totals)


def _leading(contest: Contest, ordered: Sequence[Standing]) -> tuple[Standing, int] | None:
    """The design to tell from the default first, and 1 when it is ahead, -1 when the default is; None without any."""
    others = _others(contest, ordered)
    if not others:
        return None
    first = next(item.strategy for item in ordered if item.same_as is None)
    return others[0], -1 if first == contest.default else 1


def _needed(contest: Contest, ordered: Sequence[Standing]) -> int | None:
    """Questions that would show the difference of the first two at most budgets, should it stay what it is."""
    leading = _leading(contest, ordered)
    if leading is None:
        return None
    item, sign = leading
    each = []
    for row in item.budgets:
        if row.difference is None or row.difference.mean is None or row.detectable is None:
            continue
        ahead = sign * row.difference.mean
        if ahead > 0:
            each.append(row.difference.n * (row.detectable / ahead) ** 2)
    if len(each) < contest.majority:
        return None
    needed = math.ceil(sorted(each)[contest.majority - 1])
    if needed > _MOST_NEEDED:
        return None
    return max(needed, 1 + max(row.difference.n for row in item.budgets if row.difference is not None))


# --- saying why


def _reason(contest: Contest, ordered: Sequence[Standing], recommended: str | None, needed: int | None) -> str:
    others, budgets = _others(contest, ordered), len(contest.grid[contest.default])
    if recommended is not None and recommended != contest.default:
        item = next(item for item in others if item.strategy == recommended)
        at = sum(row.better for row in item.budgets)
        also = [other for other in others if other.better and other is not item]
        more = "".join(
            f" So is {other.strategy}, with a mean of {other.mean:.2f} to {item.mean:.2f}." for other in also
        )
        return f"{recommended} is better than {contest.default} at {at} of {budgets} budgets: {_told(item)}.{more}"
    if recommended is not None:
        told = f"{others[0].strategy}, {_told(others[0])}"
        return f"{contest.default} is better than every other design here; the next is {told}."
    if contest.results.status.name == "failed":
        return f"Nothing can be said: {contest.results.status.reasons[0]}."
    if not others:
        return f"Every design shows the same evidence as {contest.default}."
    if ahead := [item for item in others if item.better]:
        told = f"{ahead[0].strategy} is ahead of {contest.default}, {_told(ahead[0])}"
        return f"{told}; but it failed for too many questions to be recommended."
    told = f"The data can't tell {' and '.join(_pair(contest, ordered))} apart: {_told(others[0])}."
    if needed is not None:
        return f"{told} About {needed:,} questions would, should the difference stay what it is."
    smallest = [row.detectable for row in others[0].budgets if row.detectable is not None]
    return f"{told} A difference below about {min(smallest):.2f} would not show here." if smallest else told


def _pair(contest: Contest, ordered: Sequence[Standing]) -> list[str]:
    """The default and the design to tell from it first, by mean."""
    two = {contest.default, _others(contest, ordered)[0].strategy}
    return [item.strategy for item in ordered if item.strategy in two]


def _told(item: Standing) -> str:
    return "; ".join(_difference(row) for row in item.budgets if row.difference is not None)


def _difference(row: AtBudget) -> str:
    assert row.difference is not None
    where = "without a limit" if row.budget is None else f"at {row.budget:,} tokens"
    found = row.difference
    if found.mean is None:
        return f"no question in common {where}"
    between = "" if found.low is None or found.high is None else f" ({found.low:+.2f} to {found.high:+.2f})"
    return f"{found.mean:+.2f}{between} {where}"


def _notes(contest: Contest, ordered: Sequence[Standing], clusters: int, drafted: int) -> Iterator[str]:
    meaning = DESCRIPTIONS.get(contest.measure, "1 for an answer that the strict judge called correct")
    yield f"Compared is {contest.measure}: {meaning}."
    if contest.measure == "coverage:words":
        yield "A design that says the same in other words is valued too low by it; judged answers would tell more."
    if contest.clustered_by == "gold session":
        yield (
            f"Questions that rest on the same session are drawn together ({clusters} groups). What is said holds for"
            " other questions about these histories, not for others."
        )
    if 2 / 2**clusters >= contest.level:
        yield f"Of {clusters} groups of questions no test can show anything: ask about more sessions."
    best = [row.value.mean for item in ordered if item.strategy == contest.default for row in item.budgets]
    if sum(mean is not None and mean >= _CEILING for mean in best) >= contest.majority:
        yield (
            f"{contest.default} is at {_CEILING:.0%} or above at most budgets, so there is little that could be better:"
            " harder questions or smaller budgets would tell more."
        )
    if drafted:
        yield (
            f"{drafted} of the questions were drafted from the history and not asked by anybody. They are about single"
            " turns, in words near to theirs."
        )
    for item in ordered:
        if item.same_as is not None:
            yield f"{item.strategy} shows the same evidence as {item.same_as} here."
        if _fails(contest, item):
            yield f"{item.strategy} failed for more than {_FAILURES:.0%} of the questions and is not recommended."
    yield from (f"{reason}." for reason in contest.results.status.reasons)
