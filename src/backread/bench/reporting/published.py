"""The papers' figures on the same benchmark, beside ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from backread.bench.reference import ReferenceRow, rows
from backread.bench.reporting.layout import UNKNOWN, Section, Table, percent, table
from backread.bench.reporting.view import View
from backread.bench.tables import ABSTENTION, mean_of, type_rows

__all__ = ["published_section"]

_DATASETS: Final = {"locomo": "LoCoMo", "longmemeval": "LongMemEval-S"}
_PREFIX: Final = "accuracy:"


def published_section(view: View) -> Section | None:
    """Accuracy in percent, ours first; None when nothing was judged or the data is of no published benchmark."""
    results = view.results
    dataset = _DATASETS.get(str(results.manifest.dataset.get("benchmark")))
    if dataset is None or not results.judges:
        return None
    found = [row for row in rows(dataset=dataset) if "accuracy:overall" in row.values]
    text = (
        "Accuracy in percent, as printed. These are figures of other models, judges, prompts and sometimes other"
        " questions: they stand here to be looked at, and are no comparison. “no” under “possible” marks a row with a"
        " figure that is no k/n of its questions, or an average that is not that of its types; the notes say what was"
        " found."
    )
    by_source: dict[str, list[ReferenceRow]] = {}
    for row in found:
        by_source.setdefault(row.source, []).append(row)
    theirs = [_theirs(source, members) for source, members in by_source.items()]
    return Section(f"Published figures, {dataset}", (text,), tables=(_ours(view, _kinds(found)), *theirs))


def _kinds(found: Iterable[ReferenceRow]) -> list[str]:
    """Types of question that any of the rows has a figure of."""
    names = dict.fromkeys(name for row in found for name in row.values if name.startswith(_PREFIX))
    return [name.removeprefix(_PREFIX) for name in names if name != "accuracy:overall"]


def _ours(view: View, kinds: list[str]) -> Table:
    results = view.results
    lines = []
    for cell in (shown.name for shown in view.shown_cells):
        for judge in results.judges:
            value = f"{_PREFIX}{judge}"
            overall = mean_of(results.ok(cell), value)
            by_kind = {row.question_type: row.values[value] for row in type_rows(results, cell, [value])}
            figures = [f"{percent(by_kind[k].mean)} ({by_kind[k].n:,})" if k in by_kind else UNKNOWN for k in kinds]
            lines.append((cell, judge, f"{percent(overall.mean)} ({overall.n:,})", *figures))
    note = f'Cells of {view.shown_limit}. "{ABSTENTION}" is in overall, and in no type.'
    return table("Ours", ("cell", "judge", "overall (n)", *(f"{k} (n)" for k in kinds)), lines, words=2, note=note)


def _theirs(source: str, found: list[ReferenceRow]) -> Table:
    """The rows of one source; notes are numbered, as many rows share one."""
    kinds = _kinds(found)
    notes = {note: number for number, note in enumerate(dict.fromkeys(row.note for row in found if row.note), 1)}
    lines = [
        (
            row.table,
            row.method,
            row.setting,
            row.backbone,
            row.judge or UNKNOWN,
            {True: "yes", False: "no", None: UNKNOWN}[row.consistent] + (f" ({notes[row.note]})" if row.note else ""),
            _figure(row, "accuracy:overall"),
            *(_figure(row, f"{_PREFIX}{kind}") for kind in kinds),
        )
        for row in found
    ]
    heads = ("table", "method", "setting", "model", "judge", "possible", "overall (k/n)")
    told = " ".join(f"({number}) {note}." for note, number in notes.items())
    return table(source, (*heads, *(f"{kind} (k/n)" for kind in kinds)), lines, words=6, note=told)


def _figure(row: ReferenceRow, name: str) -> str:
    if name not in row.values:
        return UNKNOWN
    right = row.counts.get(name)
    return f"{row.values[name]} ({right[0]:,}/{right[1]:,})" if right else str(row.values[name])
