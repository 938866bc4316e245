"""Filters as stores for agents have them: over labels, and over JSON values with operators that begin with "$"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, Literal

from backread.errors import InvalidInputError

__all__ = ["fits", "matches"]

_OPERATORS: Final = {"$eq": eq, "$ne": ne, "$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


def fits(labels: Sequence[str], side: Literal["prefix", "suffix"], path: Sequence[str]) -> bool:
    """Whether labels begin or end with a path, in which "*" stands for any one label."""
    spare = len(labels) - len(path)
    part = labels[: len(path)] if side == "prefix" else labels[max(0, spare) :]
    return spare >= 0 and all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def matches(value: object, wanted: object) -> bool:
    """Whether a value is as a filter wants it: equal, or so by every operator and in every field that is named.

    A field that isn't there is None. What has no order, such as a text and a number, is neither above nor below.

    Raises:
        InvalidInputError: an operator that doesn't exist.
    """
    if not isinstance(wanted, Mapping):
        return value == wanted
    return all(
        _compares(value, name, operand)
        if name.startswith("$")
        else isinstance(value, Mapping) and matches(value.get(name), operand)
        for name, operand in wanted.items()
    )


def _compares(value: Any, operator: str, operand: Any) -> bool:  # noqa: ANN401 -- any JSON
    if operator not in _OPERATORS:
        raise InvalidInputError(f"unknown operator {operator!r}", hint=f"operators: {', '.join(_OPERATORS)}")
    try:
        return bool(_OPERATORS[operator](value, operand))
    except TypeError:
        return False
