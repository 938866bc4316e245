"""Sentences of a text, and the excerpt of it that answers a query best within a budget of tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

from backread.text._boundaries import cut_before, word_end, word_start
from backread.text.analysis import tokens

__all__ = ["excerpt", "sentences"]

# A full stop only ends a sentence before white space (so not in "3.5" or "example.com"); an ideographic one always does.
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）)\]]*|\n")
_BLANK = re.compile(r"\s*")
_LAST_WORD = re.compile(r"(?:\w\.)*\w+\Z")
_ABBREVIATIONS = frozenset(
    "dr mr mrs ms prof st vs etc e.g i.e cf jr sr no nr vol fig approx dept inc ltd co corp mt ave blvd gen col sgt capt rev "
    "hon gov sen rep jan feb mar apr jun jul aug sep sept oct nov dec z.b d.h bzw usw ca bspw sra srta".split()
)


class _Match(NamedTuple):
    start: int
    end: int
    keys: tuple[str, ...]


def sentences(text: str) -> list[tuple[int, int]]:
    """Spans of the sentences of `text` in order, white space around them left out; none is blank.

    A sentence ends at ".", "!", "?" or "…" (with closing quotes) before white space, at 。！？ and at every line end; not
    after an abbreviation such as "Dr." or "e.g.", nor after an initial.
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


def excerpt(
    text: str, terms: Collection[str], *, max_tokens: int, count: Callable[[str], int]
) -> tuple[int, int]:
    """The half-open span of `text`, at most `max_tokens` long by `count`, that holds the most of the distinct `terms`.

    `terms` are terms of analysis: stems, "=" surfaces, "=" compounds (which add nothing: their parts are found). Of equal
    spans the first wins; room that is left is filled, first back to the start of the sentence, then forwards, then
    backwards. The span starts and ends at word boundaries where there are any near, and never inside a grapheme cluster.
    Where no term occurs it is the start of the text. (0, 0) for a blank text or when nothing fits. `count` is called some
    dozens of times, on short texts apart from the first two calls.
    """
    first, last = _stripped(text)
    if first >= last or max_tokens < 1:
        return (0, 0)
    total = count(text[first:last])
    if total <= max_tokens:
        return (first, last)
    fits = _Fits(text, max_tokens, count)
    core = _best_core(text, terms, fits, room=max_tokens * (last - first) // max(1, total))
    if core is None:
        return _widen(text, (first, first), first, last, fits)
    return _widen(text, core, first, last, fits)


class _Fits:
    """Whether a span is within the budget."""

    def __init__(self, text: str, max_tokens: int, count: Callable[[str], int]) -> None:
        self._text, self._max, self._count = text, max_tokens, count

    def __call__(self, start: int, end: int) -> bool:
        # No token is shorter than a quarter of a character, so most hopeless spans need no count... but merges can be
        # long: there is no bound the other way, and a count is what decides.
        return self._count(self._text[start:end]) <= self._max


def _stripped(text: str) -> tuple[int, int]:
    return len(text) - len(text.lstrip()), len(text.rstrip())


def _best_core(text: str, terms: Collection[str], fits: _Fits, *, room: int) -> tuple[int, int] | None:
    """From the first to the last match of the best window; None when nothing matches or not even one match fits."""
    wanted = frozenset(terms)
    matches = [
        _Match(token.start, token.end, keys)
        for token in tokens(text)
        if (keys := tuple(key for key in {token.stem, "=" + token.surface} if key in wanted))
    ]
    if not matches:
        return None
    # Characters per token differ along a text: `room` is a guess, made smaller until the window it finds fits.
    while room > 0:
        core = _densest(matches, room)
        if fits(*core):
            return core
        room = room * 2 // 3
    return None


def _densest(matches: list[_Match], room: int) -> tuple[int, int]:
    """The span over the most distinct keys that is at most `room` characters long, or one match."""
    inside: Counter[str] = Counter()
    best, most = (matches[0].start, matches[0].end), 0
    left = 0
    for match in matches:
        inside.update(match.keys)
        while matches[left] is not match and match.end - matches[left].start > room:
            for key in matches[left].keys:
                inside[key] -= 1
                if not inside[key]:
                    del inside[key]
            left += 1
        if len(inside) > most:
            best, most = (matches[left].start, match.end), len(inside)
    return best


def _widen(text: str, core: tuple[int, int], first: int, last: int, fits: _Fits) -> tuple[int, int]:
    """Fill the room around `core` within [first, last): sentence start, then forwards, then backwards."""
    start, end = core
    sentence = _sentence_start(text, start, first)
    if fits(sentence, end):
        start = sentence
    else:
        start = _grow_left(text, start, end, sentence, fits)
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
    step = 64
    good, bad = end, last + 1
    while good < last and good + step < bad:
        if fits(start, min(last, good + step)):
            good = min(last, good + step)
            step *= 2
        else:
            bad = good + step
            step = (bad - good) // 2 or 1
            if bad - good <= 1:
                break
    if good < last and bad > last and fits(start, last):
        return last
    return good if good in (end, last) else max(end, word_end(text, good, end))


def _grow_left(text: str, start: int, end: int, first: int, fits: _Fits) -> int:
    """The furthest word start down to `first` with which the span still fits."""
    good, bad = start, first - 1
    step = 64
    while good > first and good - step > bad:
        place = max(first, good - step)
        if fits(place, end):
            good = place
            step *= 2
        else:
            bad = place
            step = (good - bad) // 2 or 1
            if good - bad <= 1:
                break
    return good if good in (start, first) else min(start, word_start(text, good, start))
