"""Published figures of the papers, to stand beside ours, and a check of whether they can be what they say they are.

The files in `reference/` hold every row of the papers' tables as printed. A figure is *consistent* when it is possible:
an accuracy must be the rounding of k right answers out of as many questions as there are, an average the one over all
questions, a total the sum of its parts. What isn't stays in, flagged, with the reason where one could be found.

Column names are measures: "accuracy:<question type>" in percent, "recall@10:<question type>" as a share,
"tokens_k:…" in thousands, "tokens:…", "calls:…", "seconds:…". A row's counts are the k out of n behind a figure.
"""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from backread.errors import InvalidInputError

__all__ = ["PROTOCOLS", "Check", "ReferenceRow", "check", "rows"]

PROTOCOLS: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "locomo": {"multi-hop": 282, "temporal": 321, "open-domain": 96, "single-hop": 841},
        "locomo, five runs": {"overall": 5 * 1540},
        "longmemeval": {
            "single-session-user": 70,
            "single-session-assistant": 56,
            "single-session-preference": 30,
            "multi-session": 133,
            "knowledge-update": 78,
            "temporal-reasoning": 133,
        },
        "longmemeval, five runs": {"overall": 5 * 500},
        "longmemeval, user turns": {
            "knowledge-update": 72,
            "multi-session": 121,
            "single-session-preference": 30,
            "single-session-user": 64,
            "temporal-reasoning": 127,
            "abstention": 30,
        },
    }
)
"""Questions by type, as a row's source counts them. Without its adversarial ones LoCoMo has 1,540, LongMemEval has 500;
"user turns" leaves out what only assistants said and takes abstention out of its types, so that 444 remain.
"""

_WORDS: Final = frozenset(
    {"source", "table", "dataset", "protocol", "backbone", "judge", "method", "setting"}
    | {"counts", "marks", "consistent", "note"}
)
"""Columns of the files that are not figures."""


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """A row of a published table.

    Attributes:
        source: the paper, with its arXiv number.
        table: where in the paper.
        dataset: "LoCoMo" or "LongMemEval-S".
        protocol: which questions were counted, a key of `PROTOCOLS`; "" when the source doesn't say.
        judge: who graded; "" when nothing of the row was graded.
        values: figures by column, exactly as printed.
        counts: right answers and questions behind an accuracy, where they can be told.
        marks: significance marks of the source, by column.
        consistent: whether every figure that can be checked is possible; None when none can.
        note: what was found, or what has to be known to read the row.
    """

    source: str
    table: str
    dataset: str
    protocol: str
    backbone: str
    judge: str
    method: str
    setting: str
    values: Mapping[str, Decimal]
    counts: Mapping[str, tuple[int, int]]
    marks: Mapping[str, str]
    consistent: bool | None
    note: str


@dataclass(frozen=True, slots=True)
class Check:
    """What the figures of a row allow.

    Attributes:
        consistent: None when no figure can be checked.
        counts: (right answers, questions) of every accuracy that is a rounding of one, by column.
        faults: what is impossible, one sentence each.
    """

    consistent: bool | None
    counts: Mapping[str, tuple[int, int]]
    faults: tuple[str, ...]


def rows(*, dataset: str | None = None, source: str | None = None) -> tuple[ReferenceRow, ...]:
    """Published rows in the order of the papers; only those of a data set, or of sources that begin so.

    Raises:
        InvalidInputError: there is none.
    """
    folder = importlib.resources.files("backread.bench").joinpath("reference")
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".csv")), key=lambda item: item.name)
    found = [
        row
        for item in files
        for row in map(_row, csv.DictReader(item.read_text(encoding="utf-8").splitlines()))
        if (dataset is None or row.dataset == dataset) and (source is None or row.source.startswith(source))
    ]
    if not found:
        raise InvalidInputError(f"no published figures of dataset {dataset!r} and source {source!r}")
    return tuple(found)


def check(row: ReferenceRow) -> Check:
    """Whether the figures of a row are possible, from the figures and the protocol alone.

    - an accuracy is 100 k / n, rounded to the digits printed, for the n questions of its type;
    - the overall accuracy is that of the sum of the ks;
    - an overall recall lies where the recalls of the types can put it, weighted by their questions with gold;
    - the total of tokens is the sum of its parts, each within its rounding.
    """
    sizes = PROTOCOLS.get(row.protocol, {})
    counts: dict[str, tuple[int, int]] = {}
    faults: list[str] = []
    checked = False
    for name, size in sizes.items():
        column = f"accuracy:{name}"
        if column in row.values:
            checked = True
            right = _right(row.values[column], size)
            if right is None:
                faults.append(f"{column} {row.values[column]} is no rounding of k/{size}")
            else:
                counts[column] = (right, size)
    if "accuracy:overall" in row.values and "overall" not in sizes and sizes:
        checked = True
        faults += _overall(row, sizes, counts)
    for faulty in (_recall_fault(row, sizes), _total_fault(row)):
        if faulty is not None:
            checked = True
            faults += faulty
    return Check(not faults if checked else None, counts, tuple(faults))


def _overall(row: ReferenceRow, sizes: Mapping[str, int], counts: dict[str, tuple[int, int]]) -> list[str]:
    """What is wrong with the overall accuracy; its count is added to `counts`."""
    printed, total = row.values["accuracy:overall"], sum(sizes.values())
    typed = [f"accuracy:{name}" for name in sizes]
    if not any(name in row.values for name in typed):
        right = _right(printed, total)
        if right is None:
            return [f"accuracy:overall {printed} is no rounding of k/{total}"]
        counts["accuracy:overall"] = (right, total)
        return []
    if not all(name in counts for name in typed):
        return []  # a type is impossible already: what they pool to can't be told
    right = sum(counts[name][0] for name in typed)
    if not _rounds_to(Fraction(100 * right, total), printed):
        return [f"accuracy:overall {printed} is not that of the types, {right}/{total} = {100 * right / total:.2f}"]
    counts["accuracy:overall"] = (right, total)
    return []


def _recall_fault(row: ReferenceRow, sizes: Mapping[str, int]) -> list[str] | None:
    """What is wrong with the overall recall, None when there is nothing to check it by."""
    known = {name: n for name, n in sizes.items() if f"recall@10:{name}" in row.values}
    printed = row.values.get("recall@10:overall")
    if printed is None or not known:
        return None
    total = sum(known.values())
    summed = sum((n * Fraction(row.values[f"recall@10:{name}"]) for name, n in known.items()), Fraction(0))
    pooled = summed / total
    # Every recall of a type may be off by half a unit of its last digit, and so may their mean.
    if abs(pooled - Fraction(printed)) <= 2 * _half_unit(printed):
        return []
    return [f"recall@10:overall {printed} is not the mean over the {total} questions, {float(pooled):.4f}"]


def _total_fault(row: ReferenceRow) -> list[str] | None:
    """What is wrong with the total of tokens, None when its parts are not all there."""
    names = ("tokens_k:build, all histories", "tokens_k:questions, all", "tokens_k:total")
    if not all(name in row.values for name in names):
        return None
    parts = [row.values[name] for name in names]
    added = Fraction(parts[0]) + Fraction(parts[1])
    if abs(added - Fraction(parts[2])) <= sum(map(_half_unit, parts), Fraction(0)):
        return []
    return [f"tokens_k:total {parts[2]} is not the sum of its parts, {float(added):.3f}"]


def _right(printed: Decimal, size: int) -> int | None:
    """The k of which `printed` is 100 k / size, rounded; None when there is none."""
    nearest = round(Fraction(printed) * size / 100)
    return nearest if 0 <= nearest <= size and _rounds_to(Fraction(100 * nearest, size), printed) else None


def _rounds_to(value: Fraction, printed: Decimal) -> bool:
    return abs(value - Fraction(printed)) <= _half_unit(printed)


def _half_unit(printed: Decimal) -> Fraction:
    """Half of one in the last digit."""
    return Fraction(Decimal(1).scaleb(int(printed.as_tuple().exponent))) / 2


def _row(line: Mapping[str, str]) -> ReferenceRow:
    return ReferenceRow(
        source=line["source"],
        table=line["table"],
        dataset=line["dataset"],
        protocol=line["protocol"],
        backbone=line["backbone"],
        judge=line["judge"],
        method=line["method"],
        setting=line["setting"],
        values={name: Decimal(text) for name, text in line.items() if name not in _WORDS and text},
        counts=_counts(line["counts"]),
        marks=dict(_pairs(line.get("marks") or "")),
        consistent={"true": True, "false": False, "": None}[line["consistent"]],
        note=line["note"],
    )


def _counts(text: str) -> dict[str, tuple[int, int]]:
    split = {name: value.partition("/") for name, value in _pairs(text)}
    return {name: (int(right), int(size)) for name, (right, _, size) in split.items()}


def _pairs(text: str) -> list[tuple[str, str]]:
    """("a", "b") of every "a=b", split at "; "."""
    split = [item.partition("=") for item in text.split("; ") if item]
    return [(name, value) for name, _, value in split]
