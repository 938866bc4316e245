"""The JSON in a model's reply, whatever stands around it, and never a part of it.

Order of attempts: the reply as it is; a fence that encloses all of it; the value a reply starts with; then every
complete value in the text, the last one first, since models draft before they answer. A value inside another is no
candidate, so neither fences nor brackets inside strings are ever touched. Only then are broken values repaired, in the
same order, and only if the text does not end inside a string: what was lost there can't be known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Candidate", "candidates", "starts_complete"]

MOST_BROKEN = 100
MOST_REPAIRED = 8000
"""Characters of broken values that are mended; the time that takes grows with their square."""

_FENCE = "```"
_OPENED = re.compile(r"```[\w+-]*[ \t]*\r?\n")
_START = re.compile(r"[{\[]")
_LIKE_JSON = re.compile(r"""\{\s*["'}]|\[\s*["'\[{\]\d-]""")
_SIGN = re.compile(r'["{}\[\]]|\\.', re.DOTALL)


class Candidate(NamedTuple):
    """A value found in a reply.

    Attributes:
        value: an object or an array.
        leading: True when the reply, or a fence around all of it, starts with the value.
        repaired: True when it is not what stands there letter by letter.
    """

    value: dict[str, Any] | list[Any]
    leading: bool
    repaired: bool


class _Region(NamedTuple):
    """A top-level value of a text: `value` is None when the stretch can't be decoded."""

    start: int
    end: int
    value: dict[str, Any] | list[Any] | None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


# Line ends inside strings are what models write; NaN is not.
_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant)


def candidates(reply: str) -> Iterator[Candidate]:
    """Objects and arrays of a reply, the likeliest first; see the module. Reasoning must have been taken off."""
    text = reply.strip()
    opened = _OPENED.match(text)
    enclosed = text[opened.end() : -len(_FENCE)] if opened and text.endswith(_FENCE, opened.end()) else None
    inner = text if enclosed is None or _FENCE in _outside_strings(enclosed) else enclosed.strip()
    regions = list(_regions(inner))
    leading = [region for region in regions if region.start == 0]
    others = [region for region in reversed(regions) if region.start > 0]
    for region in (*leading, *others):
        if region.value is not None:
            yield Candidate(region.value, region.start == 0, False)
    room = MOST_REPAIRED
    for region in (*leading, *others):
        if region.value is None and (room := room - (region.end - region.start)) >= 0:
            value = _repaired(inner[region.start : region.end])
            if isinstance(value, dict | list):
                yield Candidate(value, region.start == 0, True)


def starts_complete(reply: str) -> bool:
    """Whether a reply starts with a whole value, so that a cut behind it took nothing of it."""
    text = reply.strip()
    return text.startswith(("{", "[")) and _decoded(text, 0) is not None


def _regions(text: str) -> Iterator[_Region]:
    """Top-level values of a text in order: decoded, or broken but bracketed; an unclosed one that looks like JSON."""
    at = broken = 0
    while broken < MOST_BROKEN and (match := _START.search(text, at)):
        start = match.start()
        if decoded := _decoded(text, start):
            yield decoded
            at = decoded.end
            continue
        broken += 1
        end, inside_string = _balanced(text, start)
        looks = _LIKE_JSON.match(text, start) is not None
        if end is not None and looks:
            yield _Region(start, end, None)
            at = end
        elif looks:
            if not inside_string:
                yield _Region(start, len(text), None)
            return
        else:
            at = start + 1


def _repaired(text: str) -> object:
    import json_repair

    try:
        return json_repair.repair_json(text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):  # numbers of thousands of digits, brackets thousands deep
        return None


def _decoded(text: str, start: int) -> _Region | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return _Region(start, end, value) if isinstance(value, dict | list) else None


def _balanced(text: str, start: int) -> tuple[int | None, bool]:
    """Where the bracket at `start` is closed again, None if nowhere, and whether the text ends inside a string."""
    depth, inside = 0, False
    for match in _SIGN.finditer(text, start):
        sign = match[0]
        if sign == '"':
            inside = not inside
        elif not inside and sign in "{[":
            depth += 1
        elif not inside and sign in "}]":
            depth -= 1
            if depth == 0:
                return match.end(), False
    return None, inside


def _outside_strings(text: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*(?:"|\Z|\\\Z)', "", text, flags=re.DOTALL)
