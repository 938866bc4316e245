"""Cells put side by side fairly: at the same depth, at the same budget, and by what their building has to earn back.

Protocols of the LightMem reproduction (arXiv 2607.29104, section 6). *Matched depth*: the same number of units, which
favours long ones. *Matched budget on average*: from cells with a depth, the depth whose mean tokens are nearest to the
target; single questions may lie far from it. *Matched budget per question* is ours: no question gets more tokens than
the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from backread.bench.results import Results
from backread.bench.rows import BuildRow
from backread.bench.spec import Cell
from backread.bench.stats.intervals import Interval
from backread.bench.tables import build_rows, mean_of, spent_rows
from backread.errors import InvalidInputError

__all__ = [
    "ORACLE",
    "Averaged",
    "BreakEven",
    "Point",
    "against",
    "averaged",
    "break_even",
    "break_even_rows",
    "default_baseline",
    "front",
    "points",
    "same_limit",
]

ORACLE = "oracle"
"""The retriever that ranks gold first: a reference, not an upper bound, and no contestant."""


@dataclass(frozen=True, slots=True)
class Point:
    """A cell as tokens per question against a value."""

    cell: Cell
    tokens: Interval
    value: Interval


@dataclass(frozen=True, slots=True)
class Averaged:
    """The cell of a design and retriever that comes nearest to a target of tokens per question on average."""

    target: float
    point: Point


@dataclass(frozen=True, slots=True)
class BreakEven:
    """How many questions about one history a design's building has to save tokens in, until it has paid.

    Attributes:
        build_tokens: per history; None when no building was recorded, or not all of it was counted.
        baseline_tokens: of evidence, per question.
        tokens: the same of the cell.
        questions: None for never, and where `build_tokens` is unknown.
        all_baseline_tokens: input and output of all calls for recall and answer, per question; None when unknown.
        all_tokens: the same of the cell.
        all_questions: `questions` by these.
    """

    baseline: Cell
    cell: Cell
    build_tokens: float | None
    baseline_tokens: float
    tokens: float
    questions: int | None
    all_baseline_tokens: float | None
    all_tokens: float | None
    all_questions: int | None


def break_even(construction_tokens: float, baseline_tokens: float, tokens: float) -> int | None:
    """Questions about one history after which what a question saves has paid for the construction; None for never.

        construction tokens / (baseline tokens per question - tokens per question), rounded up

    Definition of arXiv 2607.29104, section 6.2: tokens alone, no latency, money, embedding or storage.

    Example:
        >>> break_even(119_884, 903, 529)
        321

    Raises:
        InvalidInputError: a number is negative.
    """
    if min(construction_tokens, baseline_tokens, tokens) < 0:
        raise InvalidInputError("tokens can't be negative")
    saved = baseline_tokens - tokens
    return math.ceil(construction_tokens / saved) if saved > 0 else None


def points(results: Results, value: str) -> tuple[Point, ...]:
    """Every cell for which both tokens and the value are known, in the order of the spec."""
    found = []
    for name in results.cells:
        ok = results.ok(name)
        tokens, worth = mean_of(ok, "tokens"), mean_of(ok, value)
        if tokens.mean is not None and worth.mean is not None:
            found.append(Point(results.cell(name), tokens, worth))
    return tuple(found)


def front(found: Sequence[Point]) -> frozenset[str]:
    """Names of the cells on the Pareto front: none has at least their value for fewer tokens, or more for as many.

    Cells with the oracle are no contestants. Equal cells are both on it.
    """
    pairs = [
        (point.tokens.mean, point.value.mean, point.cell)
        for point in found
        if point.cell.retriever != ORACLE and point.tokens.mean is not None and point.value.mean is not None
    ]
    return frozenset(
        cell.name
        for tokens, value, cell in pairs
        if not any(t <= tokens and v >= value and (t < tokens or v > value) for t, v, _ in pairs)
    )


def default_baseline(cells: Sequence[Cell]) -> str:
    """The design and retriever of the first cell that isn't the oracle: "naive_rag/bm25".

    Raises:
        InvalidInputError: there is no other.
    """
    for cell in cells:
        if cell.retriever != ORACLE:
            return _family(cell)
    raise InvalidInputError("every cell is an oracle: there is nothing to compare with")


def against(cells: Sequence[Cell], baseline: str) -> tuple[tuple[Cell, Cell], ...]:
    """(baseline, cell) for every cell that can be compared, in the order given; the oracle's are left out.

    Args:
        cells: all there are.
        baseline: a cell's name, which every other cell is compared with, or a design and retriever ("naive_rag/bm25"):
            then each cell is compared with the one of the same depth and budget, and left out where there is none.

    Raises:
        InvalidInputError: nothing is called so.
    """
    exact = [cell for cell in cells if cell.name == baseline]
    others = [cell for cell in cells if cell.retriever != ORACLE]
    if exact:
        return tuple((exact[0], cell) for cell in others if cell != exact[0])
    by_limit = {_limit(cell): cell for cell in cells if _family(cell) == baseline}
    if not by_limit:
        names = dict.fromkeys(_family(cell) for cell in others)
        raise InvalidInputError(f"there is no cell of {baseline!r}", hint=f"baselines are: {', '.join(names)}")
    return tuple(
        (by_limit[_limit(cell)], cell) for cell in others if _limit(cell) in by_limit and _family(cell) != baseline
    )


def same_limit(cells: Sequence[Cell], strategy: str) -> tuple[tuple[Cell, Cell], ...]:
    """(cell of `strategy`, cell of another) with the same retriever, depth and budget, in the order given.

    A design with a retriever of its own stands against the strategy's first one.
    """
    own = [cell for cell in cells if cell.strategy == strategy and cell.retriever != ORACLE]
    pairs = []
    for cell in cells:
        if cell.strategy == strategy or cell.retriever == ORACLE:
            continue
        alike = [other for other in own if _limit(other) == _limit(cell)]
        chosen = [other for other in alike if other.retriever == cell.retriever]
        if not chosen and cell.retriever is None:
            chosen = alike
        if chosen:
            pairs.append((chosen[0], cell))
    return tuple(pairs)


def averaged(found: Sequence[Point], targets: Sequence[float]) -> tuple[Averaged, ...]:
    """For every target and every design and retriever with depths, the depth nearest to the target; ties: the smaller.

    Args:
        found: cells; those with a depth and no budget take part.
        targets: tokens per question.
    """
    groups: dict[str, list[Point]] = {}
    for point in found:
        if point.cell.depth is not None and point.cell.budget is None and point.tokens.mean is not None:
            groups.setdefault(_family(point.cell), []).append(point)
    rows = []
    for target in targets:
        for members in groups.values():
            nearest = min(members, key=lambda p: (abs((p.tokens.mean or 0.0) - target), p.cell.depth or 0))
            rows.append(Averaged(target, nearest))
    return tuple(rows)


def break_even_rows(results: Results, pairs: Sequence[tuple[Cell, Cell]]) -> tuple[BreakEven, ...]:
    """A row for each (baseline, cell) whose tokens are known."""
    builds = {row.strategy: row for row in build_rows(results)}
    rows = []
    for baseline, cell in pairs:
        tokens = [mean_of(results.ok(each.name), "tokens").mean for each in (baseline, cell)]
        if tokens[0] is None or tokens[1] is None:
            continue
        everything = [_all_tokens(results, each) for each in (baseline, cell)]
        built = _built(builds.get(cell.strategy))
        rows.append(
            BreakEven(
                baseline=baseline,
                cell=cell,
                build_tokens=built,
                baseline_tokens=tokens[0],
                tokens=tokens[1],
                questions=None if built is None else break_even(built, tokens[0], tokens[1]),
                all_baseline_tokens=everything[0],
                all_tokens=everything[1],
                all_questions=(
                    None
                    if built is None or everything[0] is None or everything[1] is None
                    else break_even(built, everything[0], everything[1])
                ),
            )
        )
    return tuple(rows)


def _family(cell: Cell) -> str:
    """The design and the retriever of a cell, as in its name."""
    return f"{cell.strategy}/{cell.retriever or 'own'}"


def _limit(cell: Cell) -> tuple[int | None, int | None]:
    return cell.depth, cell.budget


def _built(row: BuildRow | None) -> float | None:
    return None if row is None else row.tokens_each


def _all_tokens(results: Results, cell: Cell) -> float | None:
    """Input and output tokens of recall and answer, per question; None when a call wasn't counted or there is none."""
    rows = [row for row in spent_rows(results, cell.name) if row.usage.purpose in ("recall", "answer")]
    if not rows or any(row.usage.uncounted for row in rows):
        return None
    return math.fsum((row.each(row.usage.input_tokens) or 0) + (row.each(row.usage.output_tokens) or 0) for row in rows)
