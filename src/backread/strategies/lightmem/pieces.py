"""What stands for facts where there is no model: the sentences of turns, shortened, with the spans they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backread.construction.sessions import Made
from backread.store.indexing import indexed_text, passage_text
from backread.strategies.lightmem.facts import Make, Topic
from backread.text.excerpts import sentences
from backread.text.support import content
from backread.types import EntryDraft, Source, Turn

__all__ = ["EXTRACT", "RECIPE", "pieces", "pieces_maker"]

EXTRACT = "extract"
"""The kind of entries that are made here."""

RECIPE = "extract-1"
"""Names these rules: entries of other rules are made again."""

_WORDS = 6  # content words from which a piece says something by itself


def pieces_maker(shorten: Callable[[str], str], *, strategy: str) -> Make:
    """Makes the entries of a batch: each piece of each turn. The same turns give the same entries."""

    def make(prefix: str, topics: Sequence[Topic]) -> Made:
        found = [
            (topic.number, line.turn, source, text)
            for topic in topics
            for line in topic.lines
            for source, text in pieces(line.turn, shorten)
        ]
        return Made(
            tuple(
                EntryDraft(
                    entry_id=f"{prefix}:{place}",
                    strategy=strategy,
                    kind=EXTRACT,
                    data={"form": "extractive", "fact": text, "speaker": turn.name, "topic": topic},
                    index_text=indexed_text(turn.name, text, None),
                    sources=(source,),
                    said_at=turn.time,
                )
                for place, (topic, turn, source, text) in enumerate(found)
            )
        )

    return make


def pieces(turn: Turn, shorten: Callable[[str], str]) -> list[tuple[Source, str]]:
    """The pieces of a turn, each as its span and its shortened words; the caption of an image stands with the first.

    A piece is a sentence, or several in a row until they have six content words; a shorter rest goes with the piece
    before it. A turn without a content word or a caption has none.
    """
    spans: list[tuple[int, int]] = []
    words = _WORDS
    for start, end in sentences(turn.text):
        said = len(content(turn.text[start:end]))
        if words >= _WORDS:
            spans.append((start, end))
            words = said
        else:
            spans[-1] = (spans[-1][0], end)
            words += said
    if words < _WORDS and len(spans) > 1:
        *_, (start, _), (_, end) = spans
        spans[-2:] = [(start, end)]
    found = [(Source(turn.turn_id, start, end), shorten(turn.text[start:end])) for start, end in spans]
    if turn.caption:
        source, text = found[0] if found else (Source(turn.turn_id, 0, len(turn.text)), "")
        found[:1] = [(source, passage_text(text, turn.caption))]
    return [(source, text) for source, text in found if content(text)]
