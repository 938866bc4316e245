"""Cutting a text into passages: stretches that one vector covers, none longer than the model reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from backread.text._boundaries import cut_before
from backread.text.excerpts import sentences

__all__ = ["split_passages"]

_WORD = re.compile(r"\S+")
_PARAGRAPH = re.compile(r"\n\s*\n")


class _Atom(NamedTuple):
    """A stretch that is not cut further. `paragraph`: one starts with it; `tokens` includes the space that follows."""

    start: int
    end: int
    tokens: int
    paragraph: bool


def split_passages(text: str, *, max_tokens: int, count: Callable[[str], int]) -> tuple[tuple[int, int], ...]:
    """Half-open code-point spans of `text` in order, without overlap, that together cover all its non-space characters.

    Each has count(text[a:b]) <= max_tokens. Spans are filled greedily with whole sentences and end at a paragraph
    where one starts in the second half of the span; a sentence that is too long is cut between words, a word that is
    too long between grapheme clusters where there are any near. () for a blank text.

    A text of at most `max_tokens` UTF-8 bytes is one span without a call of `count`: no tokenizer makes tokens of less
    than a byte. Otherwise `count` sees each sentence about twice (once alone, once in its passage).

    Args:
        text: any text.
        max_tokens: the most tokens of a span, at least 1. Only a single character that has more tokens by itself than
            that gives a span above it.
        count: tokens of a text; expected to be roughly additive. Spans are checked, so an error costs calls only.

    Raises:
        ValueError: when `max_tokens` is below 1.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, not {max_tokens}")
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if start >= end:
        return ()
    if _bytes_at_most(text[start:end], max_tokens) or (
        # Worth one call only where it may well succeed.
        end - start <= 8 * max_tokens and count(text[start:end]) <= max_tokens
    ):
        return ((start, end),)
    return tuple(_pack(text, _atoms(text, max_tokens, count), max_tokens, count))


def _bytes_at_most(text: str, limit: int) -> bool:
    return len(text) <= limit and (text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= limit)


def _atoms(text: str, max_tokens: int, count: Callable[[str], int]) -> Iterator[_Atom]:
    """Sentences, the words of sentences that are too long, the pieces of words that are too long."""
    groups = _sentence_groups(text, max_tokens // 4)
    for index, (start, end, paragraph) in enumerate(groups):
        reach = groups[index + 1][0] if index + 1 < len(groups) else end
        # Counted with the white space behind it, since that is inside the passage unless the passage ends here.
        cost = count(text[start:reach])
        if cost <= max_tokens:
            yield _Atom(start, end, cost, paragraph)
            continue
        for first, last in _word_groups(text, start, end, max_tokens // 2):
            cost = count(text[first:last])
            if cost <= max_tokens:
                yield _Atom(first, last, cost, paragraph)
            else:
                yield from _pieces(text, first, last, max_tokens, count, paragraph)
            paragraph = False


def _sentence_groups(text: str, width: int) -> list[tuple[int, int, bool]]:
    """Sentences, short neighbours within a paragraph together up to `width` characters; whether a paragraph starts."""
    groups: list[tuple[int, int, bool]] = []
    after = 0
    for start, end in sentences(text):
        paragraph = bool(_PARAGRAPH.search(text, after, start))
        after = end
        if groups and not paragraph and end - groups[-1][0] <= width:
            groups[-1] = (groups[-1][0], end, groups[-1][2])
        else:
            groups.append((start, end, paragraph))
    return groups


def _word_groups(text: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    """Consecutive words together as long as they are at most `width` characters: fewer calls, less rounding."""
    first = last = start
    for word in _WORD.finditer(text, start, end):
        if last > first and word.end() - first > width:
            yield first, last
            first = word.start()
        last = word.end()
    yield first, last


def _pieces(
    text: str, start: int, end: int, max_tokens: int, count: Callable[[str], int], paragraph: bool
) -> Iterator[_Atom]:
    """Cut a word that is too long into pieces that fit, each nearly as long as fits."""
    width = max_tokens
    while start < end:
        place = min(end, start + width)
        cost = count(text[start:place])
        while cost > max_tokens and place - start > 1:
            place = start + max(1, (place - start) * max_tokens * 9 // (cost * 10))
            cost = count(text[start:place])
        if place < end:
            cut = cut_before(text, place, start)
            if cut != place:
                fewer = count(text[start:cut])
                if fewer <= max_tokens or fewer <= cost:
                    place, cost = cut, fewer
        yield _Atom(start, place, cost, paragraph)
        # The next piece starts from what this one shows of characters per token.
        width = max(1, (place - start) * max_tokens * 19 // (max(1, cost) * 20))
        start, paragraph = place, False


def _pack(text: str, atoms: Iterator[_Atom], max_tokens: int, count: Callable[[str], int]) -> Iterator[tuple[int, int]]:
    """Fill spans with atoms; what does not fit goes on to the next span."""
    held: list[_Atom] = []
    total = 0
    rough = True
    for atom in atoms:
        while held and total + atom.tokens > max_tokens:
            if rough:
                # Each count was rounded up on its own; what they come to together may leave room.
                total = count(text[held[0].start : atom.start])
                rough = False
                continue
            taken = _take(text, held, max_tokens, count)
            yield held[0].start, held[taken - 1].end
            held = held[taken:]
            total, rough = sum(each.tokens for each in held), True
        held.append(atom)
        total += atom.tokens
        # Near the limit another look would gain next to nothing.
        rough = rough or total * 10 < max_tokens * 9
    while held:
        taken = _fitting(text, held, len(held), max_tokens, count)
        yield held[0].start, held[taken - 1].end
        held = held[taken:]


def _take(text: str, held: list[_Atom], max_tokens: int, count: Callable[[str], int]) -> int:
    """How many of the held atoms make the next span: up to a paragraph in the second half, else all that fit."""
    before = sum(each.tokens for each in held)
    for place in range(len(held) - 1, 0, -1):
        before -= held[place].tokens
        if before * 2 < max_tokens:
            break
        if held[place].paragraph:
            return _fitting(text, held, place, max_tokens, count)
    return _fitting(text, held, len(held), max_tokens, count)


def _fitting(text: str, held: list[_Atom], taken: int, max_tokens: int, count: Callable[[str], int]) -> int:
    """`taken`, or fewer when the sum of the atoms' counts was too low for them together; at least 1."""
    while taken > 1 and count(text[held[0].start : held[taken - 1].end]) > max_tokens:
        taken -= max(1, taken // 16)
    return taken
