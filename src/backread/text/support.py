"""What in a text supports a line that says it in other words: the sentences that share its content words.

A check of where words come from, not of truth: a line may share a sentence's words and turn its meaning round.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from backread.text.analysis import tokens
from backread.text.excerpts import sentences

__all__ = ["Support", "content", "support"]


@dataclass(frozen=True, slots=True)
class Support:
    """What supports a line.

    Attributes:
        spans: (number of the text, start, end), in order of texts and starts, without overlap; empty when nothing does.
        shared: distinct content words of the line that occur in the spans.
        wanted: distinct content words of the line.
    """

    spans: tuple[tuple[int, int, int], ...]
    shared: int
    wanted: int


def content(text: str) -> set[str]:
    """Stems of the words, numbers and character pairs of `text` that say something; function words left out."""
    return {token.stem for token in tokens(text) if not token.stop}


def support(line: str, texts: Sequence[str], *, known: Collection[str] = (), most: int = 4) -> Support:
    """The sentences of `texts` that together share the most content words with `line`, few rather than many.

    Sentences are taken greedily: the one with the most words that no sentence before has, the earliest of equal ones,
    as long as one adds a word that is not there yet.

    Args:
        line: what is to be supported.
        texts: where to look.
        known: stems that don't count, such as names of speakers, which a text by them need not hold; they do count when
            the line has no others.
        most: sentences at most.
    """
    wanted = content(line)
    wanted = wanted.difference(known) or wanted
    found = [
        ((number, start, end), shared)
        for number, text in enumerate(texts)
        for start, end in sentences(text)
        if (shared := wanted & content(text[start:end]))
    ]
    chosen: list[tuple[int, int, int]] = []
    covered: set[str] = set()
    while found and len(chosen) < most:
        span, shared = max(found, key=lambda item: len(item[1] - covered))
        if not shared - covered:
            break
        chosen.append(span)
        covered |= shared
    return Support(tuple(sorted(chosen)), len(covered), len(wanted))
