"""What was run, whether it went well, and what the names mean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from backread.bench.comparisons import FEWEST_USERS
from backread.bench.deciding import verdict
from backread.bench.matching import ORACLE
from backread.bench.reporting.layout import UNKNOWN, Section, Table, decimal, some, table, whole
from backread.bench.reporting.view import View, families
from backread.bench.results import Results
from backread.bench.tables import accuracy_rows, control_rows, degraded_rows, error_rows, measure_rows

__all__ = ["CONTROL_LIMIT", "legend_section", "run_section", "status_section", "warnings"]

CONTROL_LIMIT: Final = 0.1
"""The share of vague answers that a judge may let pass before a report warns."""

_SAID: Final = {
    "ok": "nothing is missing, and no judge failed.",
    "degraded": "some figures rest on less than they should.",
    "failed": "a judge could not be read too often, so its figures say nothing.",
}
_WORDS: Final = (
    ("accuracy", "answers that a judge called correct, of those with a verdict that can be read"),
    ("lower bound", "the same of all questions, as if what failed or could not be read were wrong"),
    ("strict, lenient", "judges; the lenient one lets more pass and is a second opinion, not the figure"),
    ("depth", "units that a design's retriever gives at most"),
    ("budget", "tokens of evidence that a question gets at most"),
    ("own", "the design searches with a retriever of its own"),
    ("oracle", "gold is ranked first: a reference, not an upper bound"),
    (
        "[low, high]",
        "95 % interval: of a mean Student's t with errors clustered by history, not cut to 0 and 1; of a difference a"
        " bootstrap over histories",
    ),
    (
        "p, p Holm",
        "exact McNemar test of verdicts, paired t-test of measures; corrected over all comparisons of the value."
        " The tests take questions for independent, the intervals don't",
    ),
    ("Pareto front", "cells that no other beats with at least their value for fewer tokens, or more for as many"),
    (UNKNOWN, "undefined or unknown; never 0"),
)


def run_section(view: View) -> Section:
    """Command, data, versions, models and prompts: what somebody needs to run it again."""
    manifest = view.results.manifest
    data = manifest.dataset
    records = [record for cell in view.results.cells for record in view.results.ok(cell)]
    oracle = any(cell.retriever == ORACLE for cell in view.cells)
    rows = [
        ("command", manifest.command),
        ("started", manifest.started_at),
        ("spec", manifest.spec_hash),
        ("data", f"{data.get('name', UNKNOWN)}, sha256 {data.get('sha256', UNKNOWN)}"),
        ("questions", f"{len(view.results.question_ids):,} with a record, {_count(data.get('questions'))} in the data"),
        ("histories", whole(len({record.user_id for record in records}))),
        ("turns of", ", ".join(data.get("roles") or ()) or "all roles"),
        ("what is ranked", some(sorted({record.level for record in records}))),
        ("gold labels", "never handed to a design" + ("; a cell of the oracle ranks by them" if oracle else "")),
        ("embedder", manifest.embedder or "none"),
        *((f"model: {role}", names) for role, names in _gathered(record.models for record in records).items()),
        *((f"prompt: {role}", hashes) for role, hashes in _gathered(record.prompts for record in records).items()),
        ("tokens counted by", some(sorted({r.counter for r in records if r.counter})) or UNKNOWN),
        ("versions", ", ".join(f"{name} {version}" for name, version in manifest.versions.items())),
    ]
    tables = [table("", ("what", "which"), rows, words=2)]
    if settings := _settings(view):
        tables.append(table("Settings of the designs", ("design", "settings"), settings, words=2))
    return Section("What was run", tables=tuple(tables))


def status_section(view: View) -> Section:
    """Whether the figures can be used, and what must be known beside them."""
    results = view.results
    status = results.status
    paragraphs = (f"Status: {status.name}: {_SAID[status.name]}", *status.reasons, *warnings(results))
    return Section("Status", paragraphs, tables=tuple(_failures(results) + _shortfalls(results) + _control(results)))


def warnings(results: Results) -> tuple[str, ...]:
    """What a reader has to be warned of: judges that let too much pass, and accuracies above what the key allows."""
    found = [
        f"Warning: the {row.judge} judge let {row.share:.1%} of {row.graded:,} vague answers pass; the limit is"
        f" {CONTROL_LIMIT:.0%}."
        for row in control_rows(results)
        if row.share is not None and row.share > CONTROL_LIMIT
    ]
    histories = len({r.user_id for cell in results.cells for r in results.records(cell)})
    if histories < FEWEST_USERS:
        found.append(
            f"Warning: few histories are asked about ({histories}), too few to tell what holds for others: the tables"
            " call nothing better or worse."
        )
        if said := verdict(results):
            found.append(f"For other questions about these histories: {said}")
    disputed = results.manifest.dataset.get("disputed") or {}
    ids = results.question_ids
    marked = sum(question_id in disputed for question_id in ids)
    if not marked:
        return tuple(found)
    ceiling = 1 - marked / len(ids)
    found.append(
        f"The gold answers of {marked:,} of {len(ids):,} questions are disputed: an accuracy above {ceiling:.3f} rests"
        " on disputed answers. Accuracy without these questions stands beside the other."
    )
    for cell in results.cells:
        found += [
            f"Warning: {cell} is above that by the {row.judge} judge, {row.interval.mean:.3f}."
            for row in accuracy_rows(results, cell)
            if row.interval.mean is not None and row.interval.mean > ceiling
        ]
    return tuple(found)


def legend_section(view: View) -> Section:
    """What the names mean."""
    rows = {}
    for cell in view.results.cells:
        for row in measure_rows(view.results, cell):
            name = row.name.split("@")[0] + ("@k" if row.k is not None else "")
            rows[name] = (name, row.definition or UNKNOWN)
    return Section("Legend", tables=(table("", ("name", "meaning"), [*rows.values(), *_WORDS], words=2),))


def _failures(results: Results) -> list[Table]:
    rows = []
    for row in error_rows(results):
        ids = sorted({question_id for _, question_id in row.befell})
        cells = {cell for cell, _ in row.befell}
        rows.append((row.stage, row.error, row.message, some(ids), whole(len(row.befell)), whole(len(cells))))
    columns = ("stage", "error", "message", "questions", "records", "cells")
    return [table("Failures", columns, rows, words=4)] if rows else []


def _shortfalls(results: Results) -> list[Table]:
    rows = [
        (row.part, row.reason, some(row.where, most=3), whole(row.records), whole(row.items))
        for row in degraded_rows(results)
    ]
    columns = ("part", "reason", "where", "records", "items")
    return [table("What worked less well than asked", columns, rows, words=3)] if rows else []


def _control(results: Results) -> list[Table]:
    rows = [
        (row.judge, whole(row.passed), whole(row.graded), decimal(row.share), whole(row.unscored))
        for row in control_rows(results)
    ]
    note = "A vague answer says nothing and is wrong; a judge that lets it pass lets other wrong answers pass too."
    columns = ("judge", "passed", "n", "share passed", "unscored")
    return [table("Control: vague answers", columns, rows, note=note)] if rows else []


def _settings(view: View) -> list[tuple[str, str]]:
    """The settings of each design and retriever on one line; cells differ in their depth."""
    rows = []
    for name, cells in families(view.cells).items():
        hashes = {record.config_hash for cell in cells for record in view.results.ok(cell.name)}
        found = [config for digest, config in sorted(view.results.configs.items()) if digest in hashes]
        keys = dict.fromkeys(key for config in found for key in sorted(config))
        told = {key: dict.fromkeys(json.dumps(config.get(key)) for config in found) for key in keys}
        if told:
            rows.append((name, ", ".join(f"{key} {' or '.join(texts)}" for key, texts in told.items())))
    return rows


def _count(number: object) -> str:
    return f"{number:,}" if isinstance(number, int) else "an unknown number"


def _gathered(found: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Every value of each key, sorted and joined."""
    gathered: dict[str, set[str]] = {}
    for item in found:
        for key, value in item.items():
            gathered.setdefault(key, set()).add(value)
    return {key: ", ".join(sorted(values)) for key, values in sorted(gathered.items())}
