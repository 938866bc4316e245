"""Where a text may be cut without breaking what the reader sees as one character, or one word."""

from __future__ import annotations

import unicodedata

__all__ = ["cut_before", "word_end", "word_start"]

_JOINER = "\u200d"
# Longer clusters are not writing; giving up keeps every search bounded.
_LONGEST_CLUSTER = 32
_LONGEST_WORD = 48


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _breaks(text: str, at: int) -> bool:
    """True when a cut at `at` parts no cluster (marks, joiners, selectors, skin tones, tags, flags, jamo, CR LF)."""
    if at <= 0 or at >= len(text):
        return True
    before, char = text[at - 1], text[at]
    if char < "\u0300" and before != _JOINER:
        return not (before == "\r" and char == "\n")
    if before == _JOINER or char == _JOINER or unicodedata.category(char)[0] == "M":
        return False
    if "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f":
        return False
    if "\u1160" <= char <= "\u11ff" and "\u1100" <= before <= "\ud7a3":
        return False
    if _is_regional(char) and _is_regional(before):
        run = at - 1
        while run > 0 and at - run < 2 * _LONGEST_CLUSTER and _is_regional(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 0
    return True


def _spaceless(char: str) -> bool:
    """True for characters that stand next to each other without spaces: East and South-East Asian ones, emoji."""
    return (
        (char >= "\u2e80" and not "\uac00" <= char <= "\ud7a3")
        or "\u0e00" <= char <= "\u109f"
        or ("\u1780" <= char <= "\u17ff")
    )


def _between(text: str, at: int) -> bool:
    """True when a place with spaceless writing on a side may serve as a word boundary."""
    return (_spaceless(text[at - 1]) or _spaceless(text[at])) and _breaks(text, at)


def cut_before(text: str, at: int, low: int) -> int:
    """The last place in (low, at] where a cut breaks no cluster; `at` itself when there is none near."""
    for place in range(at, max(low, at - _LONGEST_CLUSTER), -1):
        if _breaks(text, place):
            return place
    return at


def word_start(text: str, at: int, high: int) -> int:
    """The first start of a word in [at, high]; where none is near, the next place that breaks no cluster."""
    if at <= 0 or at >= len(text):
        return max(0, min(at, len(text)))
    for place in range(at, min(high, at + _LONGEST_WORD) + 1):
        if place >= len(text) or (text[place - 1].isspace() and not text[place].isspace()) or _between(text, place):
            return place
    for place in range(at, min(high, at + _LONGEST_CLUSTER) + 1):
        if _breaks(text, place):
            return place
    return high


def word_end(text: str, at: int, low: int) -> int:
    """The last end of a word in [low, at]; where none is near, the last place that breaks no cluster."""
    if at >= len(text):
        return len(text)
    for place in range(at, max(low, at - _LONGEST_WORD) - 1, -1):
        if place > 0 and ((text[place].isspace() and not text[place - 1].isspace()) or _between(text, place)):
            return place
    return cut_before(text, at, low)
