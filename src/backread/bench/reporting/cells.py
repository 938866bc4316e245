"""What each cell came to: values against tokens, accuracy, types of question, measures, failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from backread.bench.matching import ORACLE, Point, front, points
from backread.bench.plots import Bars, Line, Mark, Stack, bar_plot, stack_plot, token_plot
from backread.bench.reporting.layout import (
    UNKNOWN,
    Plot,
    Section,
    Table,
    counted,
    decimal,
    interval,
    seconds,
    table,
    whole,
)
from backread.bench.reporting.view import View, families, family, label
from backread.bench.results import Results
from backread.bench.rows import Excluded, MeasureRow, SplitRow
from backread.bench.spec import Cell
from backread.bench.tables import (
    ABSTENTION,
    accuracy_rows,
    failure_row,
    loss_row,
    mean_of,
    measure_rows,
    quality_rows,
    seconds_row,
    type_rows,
)

__all__ = ["failure_section", "measure_section", "quality_section", "summary_section", "type_section"]

_UNTOLD: Final = "can't be told"


def summary_section(view: View) -> Section:
    """Every cell in one row, accuracy in full, and values against tokens."""
    results = view.results
    rows = []
    for cell in results.cells:
        ok = results.ok(cell)
        took = seconds_row(results, cell)
        rows.append(
            (
                cell,
                interval(mean_of(ok, "tokens"), digits=0),
                seconds(sum(took.values()) if took else None),
                *(counted(mean_of(ok, value)) for value in view.values),
            )
        )
    columns = ("cell", "tokens of evidence", "seconds", *(f"{value} (n)" for value in view.values))
    note = "Seconds are the sum of the medians of the stages. A coverage is no accuracy."
    tables = [table("", columns, rows, note=note), *_accuracy(results)]
    return Section("Summary", plots=tuple(_token_plots(view)), tables=tuple(tables))


def _accuracy(results: Results) -> list[Table]:
    """Counts behind every accuracy."""
    rows = [
        (
            cell,
            row.judge,
            whole(row.correct),
            whole(row.interval.n),
            whole(row.unscored),
            whole(results.counts(cell).error),
            whole(row.total),
            interval(row.interval),
            decimal(row.lower),
            UNKNOWN if row.undisputed is None else counted(row.undisputed),
        )
        for cell in results.cells
        for row in accuracy_rows(results, cell)
    ]
    columns = (
        "cell",
        "judge",
        "correct",
        "scored",
        "unscored",
        "failed",
        "all",
        "accuracy",
        "lower bound",
        "undisputed (n)",
    )
    return [table("Accuracy", columns, rows, words=2)] if rows else []


def _token_plots(view: View) -> list[Plot]:
    """Accuracy and coverage against tokens, once for cells with a budget and once for those with a depth."""
    chosen = [
        next((value for value in view.values if value.startswith(kind)), "") for kind in ("accuracy:", "coverage:")
    ]
    plots = []
    limits: dict[str, Callable[[Cell], int | None]] = {
        "budget": lambda cell: cell.budget,
        "depth": lambda cell: cell.depth,
    }
    for value in filter(None, chosen):
        found = points(view.results, value)
        for what, limit in limits.items():
            if not any(limit(point.cell) is not None for point in found):
                continue
            group = [p for p in found if limit(p.cell) is not None or (p.cell.depth is None and p.cell.budget is None)]
            name = f"{value.replace(':', '-')}-by-{what}"
            caption = (
                f"{label(value)} against tokens; each mark is a {what}, with its 95 % interval if any. Marks at the"
                " same tokens stand beside each other."
            )
            plots.append(Plot(name, token_plot(_lines(view, group), value=label(value), salt=name), caption))
    return plots


def _lines(view: View, group: Sequence[Point]) -> list[Line]:
    best = front(group)
    lines: dict[str, list[Mark]] = {}
    for point in group:
        mark = Mark(point.tokens.mean or 0.0, point.value, point.cell.name in best)
        lines.setdefault(family(point.cell), []).append(mark)
    return [Line(name, tuple(marks), view.places[name], name.endswith(f"/{ORACLE}")) for name, marks in lines.items()]


def type_section(view: View) -> Section:
    """A table of types for every value."""
    results, values = view.results, view.values
    found = {cell: {row.question_type: row for row in type_rows(results, cell, values)} for cell in results.cells}
    kinds = sorted({kind for rows in found.values() for kind in rows}, key=lambda kind: (kind == ABSTENTION, kind))
    tables = [
        table(
            value,
            ("cell", *(f"{kind} (n)" for kind in kinds)),
            [
                (cell, *(counted(rows[kind].values[value]) if kind in rows else UNKNOWN for kind in kinds))
                for cell, rows in found.items()
            ],
        )
        for value in values
    ]
    text = f'Questions that have no answer in the history stand under "{ABSTENTION}", not under the type they are of.'
    return Section("By type of question", (text,), plots=_type_plot(view), tables=tuple(tables))


def _type_plot(view: View) -> tuple[Plot, ...]:
    if not view.values:
        return ()
    value = view.values[0]
    found = {cell: type_rows(view.results, cell.name, [value]) for cell in view.shown_cells}
    sizes = {row.question_type: max(row.n, 0) for rows in found.values() for row in rows}
    kinds = sorted(sizes, key=lambda kind: (kind == ABSTENTION, kind))
    names = {kind: f"{kind} (n={sizes[kind]:,})" for kind in kinds}
    bars = [
        Bars(family(cell), {names[r.question_type]: r.values[value] for r in rows}, view.places[family(cell)])
        for cell, rows in found.items()
    ]
    svg = bar_plot(bars, [names[kind] for kind in kinds], value=label(value))
    return (
        Plot(
            "types",
            svg,
            f"{label(value)} by type of question, cells of {view.shown_limit}.",
        ),
    )


def measure_section(view: View) -> Section:
    """Rankings by design and retriever, evidence and answers by cell; what was left out is said for each measure."""
    found = {cell: {row.name: row for row in measure_rows(view.results, cell.name)} for cell in view.cells}
    tables = []
    ranked: dict[str, Mapping[str, MeasureRow]] = {}
    for name, cells in families(view.cells).items():
        for cell in cells:
            if any(_is_ranking(measure) for measure in found[cell]):
                ranked.setdefault(name, found[cell])
    names = list(dict.fromkeys(name for rows in ranked.values() for name in rows if _is_ranking(name)))
    if names:
        lines = []
        for name in names:
            there = {design: rows[name] for design, rows in ranked.items() if name in rows}
            any_row = next(iter(there.values()))
            texts = [counted(there[design].interval) if design in there else UNKNOWN for design in ranked]
            lines.append((name, any_row.level, _left_out(there.values()), whole(any_row.k), *texts))
        columns = ("measure", "gold items", "left out", "k", *(f"{design} (n)" for design in ranked))
        note = "A ranking doesn't depend on the budget: each design and retriever is shown once."
        tables.append(table("Rankings", columns, lines, words=3, note=note))
    others = list(dict.fromkeys(name for rows in found.values() for name in rows if not _is_ranking(name)))
    if others:
        lines = [
            (cell.name, *(counted(rows[name].interval) if name in rows else UNKNOWN for name in others))
            for cell, rows in found.items()
        ]
        left_out = [f"{name}: {_left_out([rows[name] for rows in found.values() if name in rows])}" for name in others]
        columns = ("cell", *(f"{name} (n)" for name in others))
        tables.append(table("Evidence and answers", columns, lines, note=f"Left out: {'; '.join(left_out)}."))
    text = "These measure rankings, evidence and wording; none of them is an accuracy."
    return Section("All measures", (text,), tables=tuple(tables))


def _is_ranking(name: str) -> bool:
    head, _, rest = name.partition(":")
    return bool(rest) and head not in ("coverage", "abstention") and not rest.startswith("coverage")


def _left_out(rows: Iterable[MeasureRow]) -> str:
    """Why questions are in none of these figures; cells differ where questions failed."""
    texts = dict.fromkeys(_excluded(row.excluded) for row in rows)
    return " or ".join(texts) or "none"


def _excluded(out: Excluded) -> str:
    parts = ((out.abstention, "abstention"), (out.no_gold, "no gold"), (out.other, "undefined"))
    return ", ".join(f"{count:,} {why}" for count, why in parts if count) or "none"


def quality_section(view: View) -> Section | None:
    """Memory quality by dimension; None when it was not graded."""
    found = {cell: {r.dimension: r.interval for r in quality_rows(view.results, cell)} for cell in view.results.cells}
    dimensions = list(dict.fromkeys(name for graded in found.values() for name in graded))
    if not dimensions:
        return None
    rows = [
        (cell, *(counted(graded[name]) if name in graded else UNKNOWN for name in dimensions))
        for cell, graded in found.items()
    ]
    note = "1 to 5, as the judge's model graded the evidence shown; what it did not grade is in no mean."
    return Section("Memory quality", tables=(table("", ("cell", *(f"{d} (n)" for d in dimensions)), rows, note=note),))


def failure_section(view: View) -> Section:
    """Why wrong answers are wrong, and how far the gold turns came."""
    results = view.results
    wrong = {cell: failure_row(results, cell) for cell in results.cells}
    lost = {cell: loss_row(results, cell) for cell in results.cells}
    parts = [
        ("Why wrong answers are wrong", "wrong answers", "Answers that the strict judge called incorrect", wrong),
        (
            "Where evidence is lost",
            "questions with gold turns",
            "Of each question the gold turn that came least far",
            lost,
        ),
    ]
    plots, tables = [], []
    for title, of, caption, found in parts:
        if not any(row.of for row in found.values()):
            continue
        name = title.lower().replace(" ", "-")
        stacks = [Stack(family(cell), _all_parts(found[cell.name])) for cell in view.shown_cells if found[cell.name].of]
        plots.append(
            Plot(
                name, stack_plot(stacks, of=of, neutral=_UNTOLD, salt=name), f"{caption}; cells of {view.shown_limit}."
            )
        )
        names = list(dict.fromkeys(part for row in found.values() for part in _all_parts(row)))
        rows = [
            (cell, whole(row.of), *(whole(_all_parts(row).get(part, 0)) for part in names))
            for cell, row in found.items()
        ]
        tables.append(table(title, ("cell", of, *names), rows))
    return Section("Where it fails", plots=tuple(plots), tables=tuple(tables))


def _all_parts(row: SplitRow) -> dict[str, int]:
    return {**row.parts, _UNTOLD: row.untold}
