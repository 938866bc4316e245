"""Cells against the baseline: on the same questions, at the same depth and budget, and where the baseline loses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backread.bench.comparisons import FEWEST_USERS, PairedRow, Side, mean_difference, paired_rows, typed_rows
from backread.bench.matching import BreakEven, Point, against, averaged, break_even_rows, points, same_limit
from backread.bench.reporting.layout import UNKNOWN, Section, Table, decimal, interval, p_value, signed, table, whole
from backread.bench.reporting.view import View, family
from backread.bench.results import Results
from backread.bench.spec import Cell
from backread.bench.tables import mean_of

__all__ = ["Compared", "compare", "loss_section", "matched_section", "paired_section"]

Pair = tuple[Cell, Cell]


@dataclass(frozen=True)
class Compared:
    """Every comparison with the baseline: over all questions, and of the first values by type of question."""

    baseline: str
    overall: tuple[PairedRow, ...]
    typed: tuple[PairedRow, ...]


def compare(view: View, baseline: str, rng: np.random.Generator) -> Compared:
    """All cells against the baseline.

    Raises:
        InvalidInputError: there is no cell of that name.
    """
    pairs = _sides(view.results, against(view.cells, baseline))
    leading = [
        next((value for value in view.values if value.startswith(kind)), "") for kind in ("accuracy:", "coverage:")
    ]
    return Compared(
        baseline,
        paired_rows(pairs, view.values, rng),
        typed_rows(pairs, [value for value in leading if value], rng),
    )


def paired_section(compared: Compared) -> Section:
    """A table of differences for every value."""
    tables = []
    for value in dict.fromkeys(row.value for row in compared.overall):
        rows = [row for row in compared.overall if row.value == value]
        discordant = any(row.only_cell is not None for row in rows)
        lines = [
            (
                row.cell,
                _said(row),
                whole(row.difference.n),
                decimal(row.baseline_mean),
                decimal(row.cell_mean),
                interval(row.difference, sign=True),
                p_value(row.p),
                p_value(row.adjusted),
                *((whole(row.only_baseline), whole(row.only_cell)) if discordant else ()),
            )
            for row in rows
        ]
        columns = ["cell", "is", "n", "baseline", "this cell", "difference", "p", "p Holm"]
        columns += ["only baseline right", "only cell right"] if discordant else []
        tables.append(table(value, columns, lines, words=2, note=_tested(rows)))
    text = (
        "Cell - baseline, question by question over those that both have a value for. The baseline is"
        f" {compared.baseline}, at the same depth and budget where it names no cell. A cell is better or worse where"
        " the whole interval lies on one side of 0, and that of a clustered t as well, in questions of at least"
        f" {FEWEST_USERS} histories."
    )
    return Section("Paired comparisons", (text,), tables=tuple(tables))


def loss_section(compared: Compared) -> Section:
    """Every comparison of the leading values in which a cell beats the baseline, and how often it is only ahead."""
    leading = {row.value for row in compared.typed}
    rows = [*(row for row in compared.overall if row.value in leading), *compared.typed]
    lost = [row for row in rows if row.better]
    ahead = sum((row.difference.mean or 0) > 0 and not row.better for row in rows)
    won = sum(row.worse for row in rows)
    text = (
        f"Of {len(rows):,} comparisons with the baseline ({compared.baseline}), over all questions and by type, another"
        f" cell is better in {len(lost):,}, and ahead in {ahead:,} more that the intervals can't tell from 0. The"
        f" baseline is better in {won:,}. One interval in twenty misses by chance. Other values are compared below."
    )
    lines = [
        (
            row.value,
            row.question_type or "all questions",
            row.cell,
            whole(row.difference.n),
            whole(row.difference.clusters),
            decimal(row.baseline_mean),
            decimal(row.cell_mean),
            interval(row.difference, sign=True),
            p_value(row.adjusted),
        )
        for row in sorted(lost, key=lambda row: (row.value, row.question_type is not None, row.question_type or ""))
    ]
    columns = ("value", "questions", "cell", "n", "histories", "baseline", "this cell", "difference", "p Holm")
    return Section("Where the baseline loses", (text,), tables=(table("", columns, lines, words=3),) if lines else ())


def matched_section(view: View, baseline: str, rng: np.random.Generator) -> Section | None:
    """Designs with the same retriever: at the same depth, at the same budget, and break-even; None without any pair."""
    strategy = baseline.split("/")[0]
    value = view.values[0] if view.values else ""
    pairs = same_limit(view.cells, strategy)
    tables = []
    for title, chosen in (
        (f"Matched depth: {value}", [p for p in pairs if p[1].depth is not None and p[1].budget is None]),
        (f"Matched budget for each question: {value}", [p for p in pairs if p[1].budget is not None]),
    ):
        if chosen:
            tables.append(_matched(view.results, title, [(None, *pair) for pair in chosen], value, rng))
    if triples := _averaged(points(view.results, value), strategy):
        title = f"Matched budget on average: {value}"
        tables.append(_matched(view.results, title, triples, value, rng))
    unlimited = [pair for pair in pairs if pair[1].budget is None]
    if rows := break_even_rows(view.results, unlimited):
        tables.append(_break_even(rows))
    if not tables:
        return None
    text = (
        f"Every design against {strategy} with the same retriever; a design with one of its own against the first of"
        f" {strategy}. At the same depth long units have more room. On average a budget holds for the mean only, and"
        " single questions may get much more."
    )
    return Section("Matched comparisons", (text,), tables=tuple(tables))


def _averaged(found: Sequence[Point], strategy: str) -> list[tuple[float | None, Cell, Cell]]:
    """(target, cell of the strategy, cell of another) for the tokens that the strategy's depths take on average."""
    depths: dict[int, list[float]] = {}
    for point in found:
        cell = point.cell
        if (
            cell.strategy == strategy
            and cell.depth is not None
            and cell.budget is None
            and point.tokens.mean is not None
        ):
            depths.setdefault(cell.depth, []).append(point.tokens.mean)
    targets = [math.fsum(tokens) / len(tokens) for _, tokens in sorted(depths.items())]
    chosen = {(row.target, family(row.point.cell)): row.point.cell for row in averaged(found, targets)}
    return [
        (target, other, cell)
        for (target, _), cell in chosen.items()
        if cell.strategy != strategy
        and (other := chosen.get((target, f"{strategy}/{cell.retriever or 'own'}"))) is not None
    ]


def _matched(
    results: Results,
    title: str,
    triples: Sequence[tuple[float | None, Cell, Cell]],
    value: str,
    rng: np.random.Generator,
) -> Table:
    """A row for each pair by limit, and the mean over retrievers for each design that has several at a limit."""
    rows = paired_rows(_sides(results, [(base, cell) for _, base, cell in triples]), [value], rng)
    groups: dict[tuple[float, str, str], list[tuple[PairedRow, tuple[str, ...]]]] = {}
    for (target, base, cell), row in zip(triples, rows, strict=True):
        size = target if target is not None else float(base.budget or base.depth or 0)
        at = base.name.rsplit("/", 1)[1] if target is None else f"~{target:,.0f} tokens"
        groups.setdefault((size, at, cell.strategy), []).append(
            (row, _matched_line(results, at, target, base, cell, row))
        )
    lines = []
    for (_, at, strategy), members in sorted(groups.items(), key=lambda group: group[0][0]):
        lines += [line for _, line in members]
        if len(members) > 1:
            mean = signed(mean_difference([row for row, _ in members]))
            lines.append((at, strategy, f"mean of {len(members)}", *[""] * 6, mean, ""))
    heads = (
        "at",
        "design",
        "retriever",
        "is",
        "n",
        "baseline tokens",
        "tokens",
        "baseline",
        "this design",
        "difference",
    )
    return table(title, (*heads, "p Holm"), lines, words=4, note=_tested(rows))


def _matched_line(
    results: Results, at: str, target: float | None, base: Cell, cell: Cell, row: PairedRow
) -> tuple[str, ...]:
    """One comparison; with a target the depths that came nearest to it."""
    tokens = []
    for each in (base, cell):
        depth = "" if target is None else f"depth {each.depth}: "
        tokens.append(depth + whole(mean_of(results.ok(each.name), "tokens").mean))
    return (
        at,
        cell.strategy,
        cell.retriever or "own",
        _said(row),
        whole(row.difference.n),
        *tokens,
        decimal(row.baseline_mean),
        decimal(row.cell_mean),
        interval(row.difference, sign=True),
        p_value(row.adjusted),
    )


def _break_even(rows: Sequence[BreakEven]) -> Table:
    lines = [
        (
            row.cell.name,
            row.baseline.name,
            whole(row.build_tokens),
            whole(row.baseline_tokens),
            whole(row.tokens),
            _questions(row.build_tokens, row.questions),
            whole(row.all_baseline_tokens),
            whole(row.all_tokens),
            UNKNOWN
            if row.all_tokens is None or row.all_baseline_tokens is None
            else _questions(row.build_tokens, row.all_questions),
        )
        for row in rows
    ]
    heads = (
        "cell",
        "against",
        "tokens to build a history",
        "baseline: evidence",
        "evidence",
        "questions to break even",
    )
    columns = (*heads, "baseline: all calls", "all calls", "questions, all calls")
    note = (
        "Questions about one history until the tokens saved have paid for building it; never, where nothing is saved."
        " Evidence is what the study counts; all calls are input and output of recall and answer. Time, money,"
        " embedding and storage are in neither."
    )
    return table("Break-even", columns, lines, words=2, note=note)


def _questions(build: float | None, questions: int | None) -> str:
    if build is None:
        return UNKNOWN
    return "never" if questions is None else whole(questions)


def _sides(results: Results, pairs: Sequence[Pair]) -> list[tuple[Side, Side]]:
    return [(Side(base.name, results.ok(base.name)), Side(cell.name, results.ok(cell.name))) for base, cell in pairs]


def _said(row: PairedRow) -> str:
    return "better" if row.better else "worse" if row.worse else ""


def _tested(rows: Sequence[PairedRow]) -> str:
    """How p-values were made, and what was left out."""
    most = max(row.unpaired for row in rows)
    left_out = f" Left out, as only one side has a value: up to {most:,}." if most else ""
    return f"p of the {rows[0].test} test, corrected by Holm over {rows[0].family} comparisons.{left_out}"
