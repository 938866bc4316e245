"""Two experiments on the same data, cell by cell and question by question."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backread.bench.comparisons import Side, paired_rows
from backread.bench.reporting.view import View
from backread.bench.results import Results, check_comparable, read_results
from backread.errors import InvalidInputError

__all__ = ["CellDifference", "FolderComparison", "compare_folders", "compare_results"]


@dataclass(frozen=True, slots=True)
class CellDifference:
    """How a cell of the second experiment differs from the same one of the first.

    Attributes:
        measure: "accuracy:<judge>", "tokens" or a measure, see `tables.value_of`.
        n: questions that have a value in both.
        first: mean over them in the first; None without any, as `second` and `mean`.
        mean: second - first.
        low: lower end of the 95 % interval; None without one, as of fewer than two histories.
        high: its upper end.
        p: exact McNemar of verdicts, paired t of others; None where it is undefined.
        adjusted: after Holm over the `family` of all cells compared in this measure.
    """

    cell: str
    measure: str
    n: int
    first: float | None
    second: float | None
    mean: float | None
    low: float | None
    high: float | None
    p: float | None
    adjusted: float | None
    family: int


@dataclass(frozen=True, slots=True)
class FolderComparison:
    """What has to be said beside the rows, and the rows by measure and cell."""

    notes: tuple[str, ...]
    rows: tuple[CellDifference, ...]


def compare_folders(first: Path, second: Path, *, cell: str | None = None, seed: int = 0) -> FolderComparison:
    """The differences between two experiments' folders; see `compare_results`.

    Raises:
        InvalidInputError: a folder can't be read, or the two can't be compared.
        MissingExtraError: the extra `bench` isn't installed.
    """
    return compare_results(read_results(first), read_results(second), cell=cell, seed=seed)


def compare_results(first: Results, second: Results, *, cell: str | None = None, seed: int = 0) -> FolderComparison:
    """The differences in every cell that both have, over the questions that went well in both.

    Args:
        first: one experiment.
        second: the other.
        cell: only this one.
        seed: of the draws behind intervals.

    Raises:
        InvalidInputError: they are of different data, or have no cell in common, or not this one.
    """
    notes = check_comparable(first, second, strict=False)
    shared = [name for name in first.cells if name in second.cells and cell in (None, name)]
    if not shared:
        wanted = "in common" if cell is None else f"{cell!r} in common"
        raise InvalidInputError(
            f"these experiments have no cell {wanted}",
            hint=f"the first has {', '.join(first.cells)}; the second {', '.join(second.cells)}",
        )
    values = [value for value in View(first).values if value in View(second).values]
    pairs = [(Side(name, first.ok(name)), Side(name, second.ok(name))) for name in shared]
    rows = paired_rows(pairs, [*values, "tokens"], np.random.default_rng(seed))
    return FolderComparison(
        notes,
        tuple(
            CellDifference(
                cell=row.cell,
                measure=row.value,
                n=row.difference.n,
                first=row.baseline_mean,
                second=row.cell_mean,
                mean=row.difference.mean,
                low=row.difference.low,
                high=row.difference.high,
                p=row.p,
                adjusted=row.adjusted,
                family=row.family,
            )
            for row in rows
        ),
    )
