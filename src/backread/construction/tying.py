"""Tying a line that a model wrote to the spans of turns that it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from backread.store.indexing import passage_text
from backread.text.support import content, support
from backread.types import Source, Turn

__all__ = ["tie"]


def tie(line: str, cited: Sequence[Turn], around: Sequence[Turn]) -> tuple[Source, ...]:
    """The sentences that support a line, in the order of the turns given; () when nothing does.

    Looked for in the turns the line cites, where one content word, number or name in common will do. When they share
    none, or none are cited, in all that the model was shown: there at most two sentences must have half of the line's
    content words, and two of them. Names of speakers don't count, as long as there are other words. A caption stands
    for its whole turn.
    """
    names = set[str]().union(*(content(turn.name) for turn in (*cited, *around)))
    return _in(cited, line, names, most=4) or _in(around, line, names, most=2, strict=True)


def _in(turns: Sequence[Turn], line: str, names: set[str], *, most: int, strict: bool = False) -> tuple[Source, ...]:
    texts = [passage_text(turn.text, turn.caption) for turn in turns]
    found = support(line, texts, known=names, most=most)
    if strict and (found.shared < min(2, found.wanted) or 2 * found.shared < found.wanted):
        return ()
    sources: dict[Source, None] = {}
    for number, start, end in found.spans:
        turn = turns[number]
        size = len(turn.text)
        inside = start < size
        sources[Source(turn.turn_id, start if inside else 0, min(end, size) if inside else size)] = None
    return tuple(sources)
