"""Results, and what of them a report puts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from backread.bench.matching import ORACLE
from backread.bench.results import Results
from backread.bench.spec import Cell

__all__ = ["View", "families", "family", "label"]

_SHOWN: Final = 6
_NAMES: Final = {
    "coverage:words": "Coverage of gold turns by words",
    "coverage:verbatim": "Coverage of gold turns verbatim",
}


@dataclass(frozen=True)
class View:
    """Results as a report sees them."""

    results: Results

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell with records, in the order of the spec."""
        return tuple(self.results.cell(name) for name in self.results.cells)

    @cached_property
    def values(self) -> tuple[str, ...]:
        """What cells are compared by, the most telling first; see `tables.value_of`.

        Accuracy by each judge, coverage by words and verbatim, F1. Not "coverage:claimed", which doesn't compare
        designs, and no ranking: it is not what the answerer is shown.
        """
        there = {name for cell in self.results.cells for record in self.results.ok(cell) for name in record.measures}
        judged = [f"accuracy:{judge}" for judge in self.results.judges]
        return (*judged, *(name for name in ("coverage:words", "coverage:verbatim", "F1") if name in there))

    @cached_property
    def shown_cells(self) -> tuple[Cell, ...]:
        """At most six cells of one limit, for plots that can't hold all: the middle budget, else the middle depth."""
        rivals = [cell for cell in self.cells if cell.retriever != ORACLE]
        for limits in ([cell.budget for cell in rivals], [cell.depth for cell in rivals]):
            known = sorted({limit for limit in limits if limit is not None})
            if known:
                middle = known[len(known) // 2]
                return tuple(c for c, limit in zip(rivals, limits, strict=True) if limit == middle)[:_SHOWN]
        return tuple(rivals[:_SHOWN])

    @cached_property
    def places(self) -> dict[str, int]:
        """A number for every design and retriever, which chooses its colour in all plots."""
        return {name: place for place, name in enumerate(families(self.cells))}

    @property
    def shown_limit(self) -> str:
        """What limits the shown cells: "budget=500"."""
        return self.shown_cells[0].name.rsplit("/", 1)[1] if self.shown_cells else ""


def family(cell: Cell) -> str:
    """The design and the retriever of a cell: "naive_rag/hybrid"."""
    return f"{cell.strategy}/{cell.retriever or 'own'}"


def families(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Cells by design and retriever, in the order given."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(family(cell), []).append(cell)
    return found


def label(value: str) -> str:
    """A value in words, to begin a sentence or stand alone."""
    if value.startswith("accuracy:"):
        return f"Accuracy by the {value.removeprefix('accuracy:')} judge"
    return _NAMES.get(value, value)
