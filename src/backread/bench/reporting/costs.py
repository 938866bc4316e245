"""What it took: write-time work, model calls, tokens and time."""

from __future__ import annotations

from collections.abc import Sequence

from backread.bench.reporting.layout import UNKNOWN, Section, Table, interval, seconds, table, whole
from backread.bench.reporting.view import View
from backread.bench.results import Results
from backread.bench.tables import build_rows, seconds_row, spent_rows, tokens_row

__all__ = ["cost_section"]


def cost_section(view: View) -> Section:
    """Write-time work by design, and what a question takes by purpose."""
    results = view.results
    text = "Building is done once a history, the rest once a question: the two are never added up."
    return Section("Costs", (text,), tables=tuple([*_building(results), *_calls(results), _tokens(results)]))


def _building(results: Results) -> list[Table]:
    rows = [
        (
            row.strategy,
            whole(row.histories),
            whole(row.put),
            whole(row.failed),
            whole(sum(usage.calls for usage in row.usage)),
            whole(row.tokens),
            whole(row.tokens_each),
            _money([usage.cost for usage in row.usage], sum(usage.unpriced for usage in row.usage)),
            seconds(row.seconds),
            seconds(row.median_seconds),
        )
        for row in build_rows(results)
    ]
    heads = ("design", "histories", "entries", "failed sessions", "calls", "tokens", "tokens per history", "cost")
    note = "Only what this experiment built: a design without a row had nothing to build, or an earlier run built it."
    columns = (*heads, "seconds", "seconds per history, median")
    return [table("Building", columns, rows, note=note)] if rows else []


def _calls(results: Results) -> list[Table]:
    rows = [
        (
            cell,
            row.usage.purpose,
            ", ".join(row.usage.models),
            whole(row.questions),
            UNKNOWN if (calls := row.each(row.usage.calls)) is None else f"{calls:.2f}",
            _at_least(row.each(row.usage.input_tokens), row.usage.uncounted),
            _at_least(row.each(row.usage.output_tokens), row.usage.uncounted),
            _money([row.usage.cost], row.usage.unpriced),
        )
        for cell in results.cells
        for row in spent_rows(results, cell)
    ]
    columns = ("cell", "for", "model", "questions", "calls", "tokens sent", "tokens got", "cost of all")
    note = "Calls and tokens are per question, failed ones too. ≥ marks a sum that some calls are missing from."
    return [table("Model calls", columns, rows, words=3, note=note)] if rows else []


def _tokens(results: Results) -> Table:
    medians = {cell: seconds_row(results, cell) for cell in results.cells}
    stages = list(dict.fromkeys(stage for row in medians.values() for stage in row))
    rows = []
    for cell, took in medians.items():
        tokens = tokens_row(results, cell)
        rows.append(
            (
                cell,
                interval(tokens.context, digits=0),
                whole(tokens.context.n),
                interval(tokens.prompt, digits=0),
                whole(tokens.prompt.n),
                whole(tokens.overflow),
                *(seconds(took.get(stage)) for stage in stages),
            )
        )
    heads = ("cell", "tokens of evidence", "their n", "tokens of the prompt", "of n", "budget held nothing")
    note = "Per question; seconds are medians. Tokens of the prompt are as the answering model's endpoint counted them."
    return table("Tokens and time", (*heads, *(f"seconds, {stage}" for stage in stages)), rows, note=note)


def _at_least(number: float | None, missing: int) -> str:
    return f"≥ {whole(number)}" if missing and number is not None else whole(number)


def _money(costs: Sequence[float | None], unpriced: int) -> str:
    known = [cost for cost in costs if cost is not None]
    if not known:
        return UNKNOWN
    return f"{'≥ ' if unpriced else ''}{sum(known):,.4f}"
