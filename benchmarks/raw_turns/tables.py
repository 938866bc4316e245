"""The tables of docs/bench-results.md from the records of an experiment on raw turns.

python benchmarks/raw_turns/tables.py results/locomo
python benchmarks/raw_turns/tables.py results/locomo --without conv-26,conv-41,conv-43,conv-47,conv-49
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from backread.bench.records import QuestionRecord
from backread.bench.results import Results, read_results
from backread.bench.tables import mean_of, value_of

RETRIEVERS = ("hybrid", "interpolation", "rrf", "bm25", "dense")
TURN = ("turn:R@1", "turn:R@5", "turn:R@10", "turn:AllEvidence@10", "turn:nDCG@10", "session:Success@5")
SESSION = ("session:R@1", "session:R@5", "session:R@10", "session:AllEvidence@10", "session:Success@5")
COVERAGE = "coverage:verbatim"


def mean(records: Sequence[QuestionRecord], name: str) -> str:
    found = mean_of(records, name)
    return "–" if found.mean is None else f"{found.mean:.3f}".removeprefix("0")


def row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(names: Sequence[str]) -> None:
    print(row(names))
    print(row(["---", *["---:" for _ in names[1:]]]))


def count(results: Results, cell: str, name: str) -> int:
    return sum(value_of(record, name) is not None for record in results.ok(cell))


def rankings(results: Results, strategy: str, names: Sequence[str]) -> None:
    """Of whole rankings: any budget's cells have them."""
    cells = {r: f"{strategy}/{r}/budget=935" for r in RETRIEVERS if f"{strategy}/{r}/budget=935" in results.cells}
    head(["retriever", "n", *names])
    for retriever, cell in cells.items():
        records = results.ok(cell)
        print(row([f"`{retriever}`", count(results, cell, names[0]), *(mean(records, name) for name in names)]))


def coverage(results: Results, strategy: str) -> None:
    limits = [*(f"depth={depth}" for depth in (3, 5, 10)), *(f"budget={budget}" for budget in (330, 500, 935))]
    head(["retriever", *limits])
    for retriever in RETRIEVERS:
        cells = [f"{strategy}/{retriever}/{limit}" for limit in limits]
        if cells[0] in results.cells:
            shown = []
            for cell in cells:
                records = results.ok(cell)
                tokens = np.mean([record.tokens or 0 for record in records])
                shown.append(f"{mean(records, COVERAGE)} ({tokens:,.0f})")
            print(row([f"`{retriever}`", *shown]))


def by_type(results: Results, strategy: str, names: Sequence[str]) -> None:
    cell = f"{strategy}/hybrid/budget=935"
    records = results.ok(cell)
    head(["type", "n", *names, f"{COVERAGE} at 500"])
    at_500 = results.ok(f"{strategy}/hybrid/budget=500")
    for kind in sorted({record.question_type for record in records}):
        own = [record for record in records if record.question_type == kind]
        shown = [mean(own, name) for name in names]
        n = sum(value_of(record, names[0]) is not None for record in own)
        print(row([kind, n, *shown, mean([r for r in at_500 if r.question_type == kind], COVERAGE)]))


def without_users(results: Results, users: frozenset[str]) -> Results:
    """The records of other users only."""
    questions = {
        cell: {key: record for key, record in records.items() if record.user_id not in users}
        for cell, records in results.questions.items()
    }
    return replace(results, questions=questions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--without", default="", help="users left out, with commas between")
    given = parser.parse_args()
    for folder in given.folders:
        results = without_users(read_results(folder), frozenset(filter(None, given.without.split(","))))
        data = results.manifest.dataset
        print(f"\n## {data['name']}\n")
        print(f"{len(results.cells)} cells, {data['questions']:,} questions, data {data['sha256'][:16]}…\n")
        for strategy, names in (("naive_rag", TURN), ("naive_rag:session", SESSION)):
            print(f"\n### {strategy}: rankings\n")
            rankings(results, strategy, names)
            print(f"\n### {strategy}: {COVERAGE} (mean tokens)\n")
            coverage(results, strategy)
            print(f"\n### {strategy}: the default by type\n")
            if f"{strategy}/hybrid/budget=935" in results.cells:
                by_type(results, strategy, names)


if __name__ == "__main__":
    main()
