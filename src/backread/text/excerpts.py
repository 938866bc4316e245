"""Sentences of a text, and the excerpt of it that answers a query best within a budget of tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

from backread.text._boundaries import word_end, word_start
from backread.text.analysis import find_terms

__all__ = ["excerpt", "sentences"]

# A full stop only ends a sentence before white space (so not in "3.5" or "a.com"); an ideographic one always does.
# A run of stops is tried from its first one only and never taken apart again: a text of dots takes linear time.
_END = re.compile(r"(?<![.!?…])(?>[.!?…]+)(?>[\"'”’»)\]]*)(?=\s)|[。！？｡]+[」』”’）)\]]*|\n")
_BLANK = re.compile(r"\s*")
_LAST_WORD = re.compile(r"(?:\w\.)*\w+\Z")
_ABBREVIATED = """
    dr mr mrs ms prof st vs etc e.g i.e cf jr sr no nr vol fig approx dept inc ltd co corp mt ave blvd gen col sgt capt
    rev hon gov sen rep jan feb mar apr jun jul aug sep sept oct nov dec z.b d.h bzw usw ca bspw sra srta
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())


_Fits = Callable[[int, int], bool]


class _Match(NamedTuple):
    start: int
    end: int
    term: str


def sentences(text: str) -> list[tuple[int, int]]:
    """Spans of the sentences of `text` in order, white space around them left out; none is blank.

    A sentence ends at ".", "!", "?" or "…" (with closing quotes) before white space, at 。！？ and at every line end;
    not after an abbreviation such as "Dr." or "e.g.", nor after an initial.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _END.finditer(text):
        if match.group() == "." and _abbreviated(text, match.start()):
            continue
        _append_stripped(text, start, match.end(), spans)
        start = match.end()
    _append_stripped(text, start, len(text), spans)
    return spans


def _abbreviated(text: str, stop: int) -> bool:
    """True when the full stop at `stop` belongs to the word before it."""
    word = _LAST_WORD.search(text[max(0, stop - 12) : stop])
    if word is None:
        return False
    name = word.group()
    return name.lower() in _ABBREVIATIONS or (len(name) == 1 and name.isalpha() and name.isupper() and name != "I")


def _append_stripped(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    blank = _BLANK.match(text, start, end)
    first = blank.end() if blank else start
    if first < end:
        spans.append((first, first + len(text[first:end].rstrip())))


def excerpt(text: str, terms: Collection[str], *, max_tokens: int, count: Callable[[str], int]) -> tuple[int, int]:
    """The half-open span of `text`, at most `max_tokens` long by `count`, that holds the most of the distinct `terms`.

    `terms` are terms as of `query_terms`: stems, "=" surfaces and compounds. Of equal spans the first wins; room that
    is left is filled, at most half of it back to the start of the sentence, then forwards, then backwards. The span
    starts and ends at word boundaries where there are any near, and not inside a grapheme cluster unless that is all
    that fits. Where no term occurs it is the start of the text. (0, 0) for a blank text or when nothing fits.

    `count` is called some dozens of times, apart from the first call on stretches not much longer than the budget.
    """
    first, last = _stripped(text)
    if first >= last or max_tokens < 1:
        return (0, 0)
    total = count(text[first:last])
    if total <= max_tokens:
        return (first, last)

    def fits(start: int, end: int) -> bool:
        return count(text[start:end]) <= max_tokens

    room = max_tokens * (last - first) // total
    core = _best_core(text, terms, fits, room=room) or (first, first)
    return _widen(text, core, first, last, fits, reach=max(0, room - (core[1] - core[0])) // 2)


def _stripped(text: str) -> tuple[int, int]:
    return len(text) - len(text.lstrip()), len(text.rstrip())


def _best_core(text: str, terms: Collection[str], fits: _Fits, *, room: int) -> tuple[int, int] | None:
    """The best window from its first to its last match, or where it starts if no match fits; None without a match."""
    matches = [_Match(*found) for found in find_terms(text, terms)]
    if not matches:
        return None
    # Characters per token differ along a text: `room` is a guess, made smaller until the window it finds fits.
    while room > 0:
        core = _densest(matches, room)
        if fits(*core):
            return core
        room = room * 2 // 3
    start = _densest(matches, 1)[0]
    return (start, start)


def _densest(matches: list[_Match], room: int) -> tuple[int, int]:
    """The span over the most distinct terms that is at most `room` characters long, or one match."""
    inside: Counter[str] = Counter()
    best, most = (matches[0].start, matches[0].end), 0
    left = 0
    for match in matches:
        inside[match.term] += 1
        while matches[left] is not match and match.end - matches[left].start > room:
            term = matches[left].term
            inside[term] -= 1
            if not inside[term]:
                del inside[term]
            left += 1
        if len(inside) > most:
            best, most = (matches[left].start, match.end), len(inside)
    return best


def _widen(text: str, core: tuple[int, int], first: int, last: int, fits: _Fits, *, reach: int) -> tuple[int, int]:
    """Fill the room around `core` in [first, last): to the sentence, at most `reach`, then forwards, then backwards."""
    start, end = core
    if start < end:  # else the match itself does not fit: show how it begins
        sentence = _sentence_start(text, start, first)
        if start - sentence <= reach and fits(sentence, end):
            start = sentence
        else:  # what follows a match matters as much as what leads to it
            low = word_start(text, start - reach, start) if start - sentence > reach else sentence
            start = _grow_left(text, start, end, low, fits)
    end = _grow_right(text, start, end, last, fits)
    if end == last and start > first:
        start = _grow_left(text, start, end, first, fits)
    # Trimming to words can in principle cost a token more: a cut word is another word.
    while end > start and not fits(start, end):
        end = word_end(text, end - 1, start) if end - start > 1 else start
    if end <= start:
        return (0, 0)
    a, b = _stripped(text[start:end])
    return (start + a, start + b) if a < b else (0, 0)


def _sentence_start(text: str, at: int, first: int) -> int:
    """Where the sentence around `at` starts, looked for a few hundred characters back."""
    low = max(first, at - 600)
    start = low
    for match in _END.finditer(text, low, at):
        if not (match.group() == "." and _abbreviated(text, match.start())):
            start = match.end()
    blank = _BLANK.match(text, start, at)
    start = blank.end() if blank else start
    return word_start(text, start, at) if start == low > first else start


def _grow_right(text: str, start: int, end: int, last: int, fits: _Fits) -> int:
    """The furthest word end up to `last` with which the span still fits."""
    place = end + _furthest(last - end, lambda more: fits(start, end + more))
    return place if place in (end, last) else max(end, word_end(text, place, end))


def _grow_left(text: str, start: int, end: int, first: int, fits: _Fits) -> int:
    """The furthest word start down to `first` with which the span still fits."""
    place = start - _furthest(start - first, lambda more: fits(start - more, end))
    return place if place in (start, first) else min(start, word_start(text, place, start))


def _furthest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `limit` that fits, 0 if none; a logarithm of calls by doubling, then halving."""
    good, step = 0, 64
    while good < limit:
        reach = min(limit, good + step)
        if not fits(reach):
            break
        good, step = reach, step * 2
    bad = min(limit, good + step) if good < limit else good + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good
