"""The words of an answer, as measures of answers compare them."""

from __future__ import annotations

import re
import string
import threading
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Protocol

import snowballstemmer

__all__ = ["locomo_words", "overlap_f1", "plain_words"]

_LOCOMO_FILLERS = re.compile(r"\b(a|an|the|and)\b")
_ARTICLES = frozenset({"a", "an", "the"})
_NO_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SPACELESS = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd])"
)
_stem_lock = threading.Lock()


def plain_words(text: str) -> tuple[str, ...]:
    """The words of SQuAD's normal form: no case, no punctuation, no articles (a, an, the); not stemmed.

    Rajpurkar et al. 2016, arXiv 1606.05250, and its public code. Differs from it where that knows ASCII only: text is
    taken in NFKC, punctuation and currency signs of all scripts fall, and each character of a script without spaces
    (Han, kana, Thai, Lao, Khmer, Myanmar) is a word, as MLQA (Lewis et al. 2020, arXiv 1910.07475) does for Chinese.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(character for character in folded if not _falls(character))
    return tuple(word for word in _SPACELESS.sub(r" \1 ", kept).split() if word not in _ARTICLES)


def locomo_words(text: str) -> tuple[str, ...]:
    """The words of LoCoMo's official normal form: no commas, no case, no ASCII punctuation, no a, an, the, and; stems.

    Maharana et al. 2024, arXiv 2402.17753, and its public code. Differs from it in the stemmer: Snowball's "porter",
    where the official code uses NLTK's, which adds rules of its own ("one" and "ate" stay, "dying" gives "die"). Of
    8,109 scores of made-up answers to the questions of LoCoMo 8 differed by that, the mean of no category by 0.0001.
    """
    bare = text.replace(",", "").lower().translate(_NO_ASCII_PUNCTUATION)
    return tuple(_stem(word) for word in _LOCOMO_FILLERS.sub(" ", bare).split())


def overlap_f1(hypothesis: Sequence[str], gold: Sequence[str]) -> float:
    """The harmonic mean of precision and recall of words, each as often as it occurs in both; 0.0 when none does."""
    common = (Counter(hypothesis) & Counter(gold)).total()
    return 2 * common / (len(hypothesis) + len(gold)) if common else 0.0


@cache
def _falls(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith(("P", "Sc"))


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # Snowball's own name


@cache
def _stemmer() -> _Stemmer:
    stemmer: _Stemmer = snowballstemmer.stemmer("porter")
    return stemmer


@lru_cache(maxsize=1 << 15)
def _stem(word: str) -> str:
    if len(word) < 3:
        return word  # Porter's own program and NLTK's leave "is" and "as" alone; Snowball would give "i" and "a"
    # A stemmer keeps the word it works on in itself, so one thread at a time.
    with _stem_lock:
        return str(_stemmer().stemWord(word))
