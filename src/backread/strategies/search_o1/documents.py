"""What a search found, as documents: turns with the stretch of each that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backread.store.corpus import Corpus
from backread.text.analysis import query_terms
from backread.text.excerpts import excerpt
from backread.text.fencing import fence, quote
from backread.text.times import format_time
from backread.types import Ranking, Turn

__all__ = ["Document", "Part", "found_documents", "numbered"]

_CUT = "[…]"


@dataclass(frozen=True, slots=True)
class Part:
    """A turn of a document: its place in the history, and the span of its text that is shown."""

    turn: Turn
    place: tuple[int, ...]
    start: int
    end: int

    @property
    def text(self) -> str:
        """The words shown."""
        return self.turn.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Document:
    """A unit of the record, never without a part."""

    parts: tuple[Part, ...]


def found_documents(corpus: Corpus, ranking: Ranking, query: str, characters: int) -> list[Document]:
    """The units of a ranking, best first, each with at most `characters` of text.

    A unit that is longer shares them among its turns: short ones whole, long ones around the words of the query.
    """
    units = corpus.find([item.unit_id for item in ranking.items])
    terms = {term.term for term in query_terms(query) if not term.stop}
    made = []
    for unit, turns in zip(units, corpus.turns_of(units), strict=True):
        room = _shares([len(turn.text) for turn in turns], characters)
        parts = []
        for turn, share in zip(turns, room, strict=True):
            start, end = 0, len(turn.text)
            if share < end:
                start, end = excerpt(turn.text, terms, max_tokens=share, count=len)
            parts.append(Part(turn, (unit, turn.position), start, end))
        if parts:
            made.append(Document(tuple(parts)))
    return made


def _shares(lengths: Sequence[int], room: int) -> list[int]:
    """Characters for each of several texts; what short ones leave goes to the longer ones."""
    shares = [0] * len(lengths)
    shortest_first = sorted(range(len(lengths)), key=lambda place: lengths[place])
    for done, place in enumerate(shortest_first):
        shares[place] = min(lengths[place], room // (len(lengths) - done))
        room -= shares[place]
    return shares


def numbered(documents: Sequence[Document]) -> str:
    """The block a model reads: fenced, numbered from 1, each with its time, then who said what."""
    lines = []
    for number, document in enumerate(documents, 1):
        told = [
            f"[{number}] {format_time(document.parts[0].turn.time, received=document.parts[0].turn.received)}",
            *map(_line, document.parts),
        ]
        lines.append("\n    ".join(told))
    return fence(lines, label="documents")


def _line(part: Part) -> str:
    before = _CUT if part.start else ""
    after = _CUT if part.end < len(part.turn.text) else ""
    image = f" [image: {part.turn.caption}]" if part.turn.caption else ""
    return quote(f"{part.turn.name}: {before}{part.text}{after}{image}", indent=" " * 8)
