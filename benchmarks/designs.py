"""The tables about designs in docs/bench-results.md, from the records of experiments.

python benchmarks/designs.py results/locomo
python benchmarks/designs.py results/locomo results/locomo_equal_tokens
python benchmarks/designs.py results/locomo --without conv-26,conv-41,conv-43,conv-47,conv-49

Every design at every budget beside raw turns at the same budget: mean tokens, coverage of gold turns three ways, the
difference of its words with a bootstrap over users and with a t interval clustered by user, how many questions are
shown other spans, and what that changes. Of designs that look more than once, how many looks, and why they stopped.
With a second folder, its raw turns against TrailMem, budgets paired in order.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from backread.bench.comparisons import PairedRow, Side, paired_rows
from backread.bench.records import QuestionRecord
from backread.bench.results import Results, read_results
from backread.bench.stats.intervals import Interval

COVERAGE = ("coverage:verbatim", "coverage:claimed", "coverage:words")
RAW = "naive_rag"
SEED = 0


def point(value: float | None) -> str:
    """.812, −.007, or a dash."""
    if value is None:
        return "–"
    return ("−" if value < -0.0005 else "") + f"{abs(value):.3f}".removeprefix("0")


def between(interval: Interval) -> str:
    return f"[{point(interval.low)}, {point(interval.high)}]"


def mean(records: Sequence[QuestionRecord], name: str) -> float | None:
    found = [value for record in records if (value := record.measures.get(name)) is not None]
    return float(np.mean(found)) if found else None


def row(cells: Iterable[object]) -> None:
    print(f"| {' | '.join(map(str, cells))} |")


def head(names: Sequence[str]) -> None:
    row(names)
    row(["---", *["---:" for _ in names[1:]]])


def others(records: Sequence[QuestionRecord], raw: Sequence[QuestionRecord]) -> tuple[float, float | None]:
    """The share of questions that are shown other spans than raw turns show, and the change of coverage on those."""
    by_id = {record.question_id: record for record in raw}
    pairs = [(record, by_id[record.question_id]) for record in records if record.question_id in by_id]
    differ = [(one, other) for one, other in pairs if one.spans != other.spans]
    coverage = [(one.measures.get(COVERAGE[0]), other.measures.get(COVERAGE[0])) for one, other in differ]
    changes = [after - before for after, before in coverage if after is not None and before is not None]
    return len(differ) / max(1, len(pairs)), float(np.mean(changes)) if changes else None


def looks(records: Sequence[QuestionRecord]) -> list[str]:
    """Mean looks of a question, and the shares of questions by what ended them; blanks for designs without looks."""
    steps = [[step for step in record.steps if step.name == "trailmem"] for record in records]
    if not any(steps):
        return ["", ""]
    ends = Counter(str(own[-1].detail.get("stop") or "all") if own else "none" for own in steps)
    shares = ", ".join(f"{end} {count / len(steps):.0%}" for end, count in ends.most_common())
    return [f"{np.mean([len(own) for own in steps]):.1f}", shares]


class Records:
    """The records of a folder by cell, without some users and without questions that have no answer."""

    def __init__(self, folder: Path, without: frozenset[str]) -> None:
        self.results: Results = read_results(folder)
        self._without = without

    def of(self, cell: str) -> list[QuestionRecord]:
        """Those of a cell."""
        found = self.results.ok(cell)
        return [record for record in found if not record.abstention and record.user_id not in self._without]

    def cells(self) -> list[str]:
        """The cells that have a budget."""
        return [cell for cell in self.results.cells if self.results.cell(cell).budget]

    def raw(self, cell: str) -> str:
        """The cell of raw turns at the same budget."""
        budget = self.results.cell(cell).budget
        return next(
            name for name in self.cells() if name.startswith(f"{RAW}/") and self.results.cell(name).budget == budget
        )


def designs(folder: Path, without: frozenset[str]) -> None:
    records = Records(folder, without)
    data = records.results.manifest.dataset
    print(f"\n## {data['name']}: {data['questions']:,} questions, data {data['sha256'][:16]}…\n")
    names = ["design", "budget", "n", "tokens", "verbatim", "claimed", "words", "difference in words", "t interval"]
    head([*names, "other spans", "change on those", "looks", "ended by"])
    for cell in records.cells():
        own, raw = records.of(cell), records.of(records.raw(cell))
        parts = records.results.cell(cell)
        compared: list[object] = ["", "", "", ""]
        if parts.strategy != RAW:
            found = difference(Side("raw", raw), Side(cell, own), COVERAGE[2])
            share, change = others(own, raw)
            compared = [
                f"{point(found.difference.mean)} {between(found.difference)}",
                between(found.clustered),
                f"{share:.0%}",
                point(change),
            ]
        n = sum(record.measures.get(COVERAGE[0]) is not None for record in own)
        tokens = np.mean([record.tokens or 0 for record in own])
        shown = [f"`{parts.strategy}`", parts.retriever or "own", parts.budget]
        coverage = [point(mean(own, name)) for name in COVERAGE]
        row([f"{shown[0]} {shown[1]}", shown[2], n, f"{tokens:.0f}", *coverage, *compared, *looks(own)])
    oracles(records)


def oracles(records: Records) -> None:
    """What each design shows when its retriever gives what is relevant and nothing else."""
    cells = [cell for cell in records.results.cells if records.results.cell(cell).retriever == "oracle"]
    if cells:
        print("\nGold first, no budget:\n")
        head(["design", "n", "tokens", "verbatim", "claimed", "words"])
    for cell in cells:
        own = records.of(cell)
        n = sum(record.measures.get(COVERAGE[0]) is not None for record in own)
        tokens = np.mean([record.tokens or 0 for record in own])
        coverage = [point(mean(own, name)) for name in COVERAGE]
        row([f"`{records.results.cell(cell).strategy}`", n, f"{tokens:.0f}", *coverage])


def difference(baseline: Side, other: Side, value: str) -> PairedRow:
    (found,) = paired_rows([(baseline, other)], (value,), np.random.default_rng(SEED))
    return found


def equal_tokens(folder: Path, equal: Path, without: frozenset[str]) -> None:
    """TrailMem against raw turns at the budgets that take as many tokens on average."""
    ours, theirs = Records(folder, without), Records(equal, without)
    print("\nAt equal tokens: trailmem less raw turns\n")
    head(["trailmem", "tokens", "raw turns", "tokens", "difference, verbatim", "t interval"])
    cells = [cell for cell in ours.cells() if ours.results.cell(cell).strategy == "trailmem"]
    for cell, raw in zip(cells, theirs.cells(), strict=True):
        found = difference(Side(raw, theirs.of(raw)), Side(cell, ours.of(cell)), COVERAGE[0])
        tokens = [f"{np.mean([record.tokens or 0 for record in own]):.0f}" for own in (ours.of(cell), theirs.of(raw))]
        shown = f"{point(found.difference.mean)} {between(found.difference)}"
        row([cell, tokens[0], raw, tokens[1], shown, between(found.clustered)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("equal", type=Path, nargs="?")
    parser.add_argument("--without", default="", help="users left out, with commas between")
    given = parser.parse_args()
    without = frozenset(filter(None, given.without.split(",")))
    designs(given.folder, without)
    if given.equal is not None:
        equal_tokens(given.folder, given.equal, without)


if __name__ == "__main__":
    main()
