"""Leaving out words of a text by rule, so that there is less to read: which go first, and exactly how many.

What stands in for LLMLingua-2 (Pan et al., Findings of ACL 2024, arXiv 2403.12968) where its weights are not there, as
a `Compressor`: the words that say least go, by their inverse document frequency in the history. No model, no download.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise

from backread.errors import InvalidInputError
from backread.store.history import History
from backread.text.analysis import tokens
from backread.text.bm25 import idf
from backread.text.excerpts import sentences

__all__ = ["RULE", "LeaveOutWords", "Weigh", "WholeText", "history_weights", "kept_words", "leave_out", "word_spans"]

RULE = "words-1"
"""Names the version of the rule."""

Weigh = Callable[[Iterable[str]], Mapping[str, float]]
"""How much each of several stems says; every stem that is asked for is in the answer."""

_NOTHING = -1.0  # what a word without a letter, digit or symbol says: a dash, an arrow
# Scripts that write no spaces between words: there every character is a word of its own.
_SPACELESS = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u1000-\u102a\u1780-\u17b3"
    "\u3005-\u3007\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
)
_WORD = re.compile(rf"[{_SPACELESS}](?:(?![{_SPACELESS}])[^\s\w])*|(?:(?![{_SPACELESS}])\S)+")
_SPACELESS_END = re.compile(rf"[{_SPACELESS}][^\s\w]*\Z")
_SPACELESS_START = re.compile(f"[{_SPACELESS}]")


def kept_words(words: int, rate: float) -> int:
    """How many of so many words stay: `rate` times their number, halves up, at least one of any.

    Raises:
        InvalidInputError: the rate is not above 0 and at most 1.
    """
    if not 0 < rate <= 1:
        raise InvalidInputError(f"a rate is above 0 and at most 1, not {rate}")
    return max(min(words, 1), int(rate * words + 0.5))


def word_spans(text: str) -> list[tuple[int, int]]:
    """Spans of the words of `text`, with the punctuation at them: what stands between white space.

    In scripts without spaces each character is one, with the punctuation behind it.
    """
    return [match.span() for match in _WORD.finditer(text)]


def leave_out(text: str, rate: float, weigh: Weigh) -> str:
    """`text` with exactly `kept_words` of its words, in order; `text` itself where all stay.

    First go words without any letter or digit, then function words, then the others by weight, the later of two with
    the same. Words with a digit and words with a capital inside a sentence go last of all. Line ends between words that
    stay are kept, other white space becomes one space.

    Raises:
        InvalidInputError: the rate is not above 0 and at most 1.
    """
    spans = word_spans(text)
    count = kept_words(len(spans), rate)
    if count == len(spans):
        return text
    worth = _worth(text, spans, weigh)
    last_first = sorted(range(len(spans)), key=lambda place: (worth[place], -place), reverse=True)
    kept = sorted(last_first[:count])
    pieces = [text[slice(*spans[kept[0]])]]
    for before, place in pairwise(kept):
        pieces += [_between(text, spans[before], spans[place]), text[slice(*spans[place])]]
    return "".join(pieces)


def _worth(text: str, spans: list[tuple[int, int]], weigh: Weigh) -> list[tuple[bool, float]]:
    """What each word says: whether it is kept before all others, and the weight of its heaviest token."""
    found = list(tokens(text))
    weights = weigh({token.stem for token in found if not token.stop})
    heaviest = [_NOTHING] * len(spans)
    plain = [True] * len(spans)  # without a token that is no function word
    place = 0
    for token in found:
        while place < len(spans) and spans[place][1] <= token.start:
            place += 1
        for at in range(place, len(spans)):
            if spans[at][0] >= token.end:
                break
            heaviest[at] = max(heaviest[at], 0.0 if token.stop else weights[token.stem])
            plain[at] &= token.stop
    opening = {start for start, _ in sentences(text)}
    return [
        (not plain[at] and _tells(text[start:end], opens=start in opening), heaviest[at])
        for at, (start, end) in enumerate(spans)
    ]


def _tells(word: str, *, opens: bool) -> bool:
    """Whether a word is a number or a name: it has a digit, or a capital that is not due to where it stands."""
    first = next((place for place, sign in enumerate(word) if sign.isalpha()), 0)
    return any(sign.isdigit() or (sign.isupper() and not (opens and place == first)) for place, sign in enumerate(word))


def _between(text: str, before: tuple[int, int], after: tuple[int, int]) -> str:
    """What stands between two words that stay."""
    gap = text[before[1] : after[0]]
    if "\n" in gap:
        return "\n"
    joined = not any(sign.isspace() for sign in gap)
    if joined and (_SPACELESS_END.search(text, *before) or _SPACELESS_START.match(text, after[0])):
        return ""
    return " "


def history_weights(history: History) -> Weigh:
    """Inverse document frequencies over all turns of a history, each looked up once.

    As BM25's (`text.bm25.idf`): a stem in every turn weighs nearly nothing, one in no turn the most.
    """
    corpus = history.corpus("turn")
    known: dict[str, float] = {}

    def weigh(stems: Iterable[str]) -> Mapping[str, float]:
        wanted = sorted(stem for stem in set(stems) if stem not in known)
        counts = corpus.document_frequencies(wanted)
        size = max([corpus.history_size, *counts])  # turns may come while they are counted
        known.update(zip(wanted, idf(counts, size).tolist(), strict=True))
        return known

    return weigh


class LeaveOutWords:
    """`leave_out` as a `Compressor`. Threads may share one object."""

    def __init__(self, weigh: Weigh) -> None:
        self._weigh = weigh
        self._short = lru_cache(maxsize=1024)(self._left)

    @property
    def name(self) -> str:
        """Names the rule."""
        return "words"

    @property
    def fingerprint(self) -> str:
        """Names the version of the rule; the weights are the history's."""
        return RULE

    def compress(self, text: str, rate: float) -> str:
        """See `leave_out`."""
        return self._short(text, rate)

    def _left(self, text: str, rate: float) -> str:
        return leave_out(text, rate, self._weigh)


class WholeText:
    """A `Compressor` that leaves nothing out."""

    @property
    def name(self) -> str:
        """Says so."""
        return "none"

    @property
    def fingerprint(self) -> str:
        """Says so."""
        return "none"

    def compress(self, text: str, rate: float) -> str:
        """The text as it is.

        Raises:
            InvalidInputError: the rate is not above 0 and at most 1.
        """
        kept_words(0, rate)
        return text
