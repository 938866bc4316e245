"""Keywords and names of a text without a model: a `Tagger` of rules."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from backread.text.analysis import tokens
from backread.text.excerpts import sentences

__all__ = ["RuleTagger"]

_WORDS = 8
_MOST = 24
_LONGEST_QUOTE = 60

# A quotation in which another one begins is left aside: a text of opening marks must not be read from each of them.
_QUOTED = re.compile(r"“([^“”\n]+)”|„([^„“”\n]+)[“”]|«\s?([^«»\n]+?)\s?»|\"([^\"\n]+)\"")
_NUMBER = re.compile(r"[$€£¥]?\d+(?:[.,:/-]\d+)*(?:\s?(?:%|(?:[ap]m|[kcm]?m|k?g|ml|l|h|min)\b))?")
_CAPITALS = re.compile(r"\b[^\W\d_a-zß-öø-ÿ][\w’'&-]*(?: (?:of |the |de |van |von )?[^\W\d_a-zß-öø-ÿ][\w’'&-]*)*")
_FIRST_PERSON = re.compile(r"I(?:['’]\w+)?\Z")


class _Tag(NamedTuple):
    place: int
    text: str


class RuleTagger:
    """Words with a capital, numbers, what stands in quotes, and the words that tell a text from those around it.

    Stands in for a trained tagger: it knows no kinds of names, and in scripts without capitals only words. A single
    word with a capital that begins a sentence is no name. Words are weighted by tf-idf, the texts around being the
    documents; the eight best are taken, and 24 tags at most in all.
    """

    @property
    def name(self) -> str:
        """Names these rules in records."""
        return "rules-1"

    def tag(self, texts: Sequence[str], around: Sequence[str] = ()) -> tuple[str, ...]:
        """See `models.base.Tagger`; needs no model, so nothing is raised."""
        words = set(_words(texts, around))
        found: list[_Tag] = []
        start = 0
        for text in texts:
            marked = list(_marked(text))
            found += (_Tag(start + place, tag) for place, tag in marked)
            for token in tokens(text):
                if token.stem in words:
                    words.discard(token.stem)
                    if not any(place <= token.start < place + len(tag) for place, tag in marked):
                        found.append(_Tag(start + token.start, text[token.start : token.end]))
            start += len(text)
        distinct: dict[str, str] = {}
        for item in sorted(found, key=lambda item: item.place):
            distinct.setdefault(item.text.casefold(), item.text)
        return tuple(distinct.values())[:_MOST]


def _marked(text: str) -> Iterator[_Tag]:
    """Names, numbers and quotations."""
    starts = {start for start, _ in sentences(text)}
    for match in _CAPITALS.finditer(text):
        words = match.group().split(" ")
        begins = match.start() in starts
        if len(words) == 1 and (begins or _FIRST_PERSON.match(words[0])):
            continue
        if begins and _is_plain(words[0]):
            words = words[1:]
        if name := " ".join(words):
            yield _Tag(match.end() - len(name), re.sub(r"['’]s\Z", "", name))
    for match in _NUMBER.finditer(text):
        yield _Tag(match.start(), match.group())
    for match in _QUOTED.finditer(text):
        quoted = next(group for group in match.groups() if group)
        if len(quoted) <= _LONGEST_QUOTE:
            yield _Tag(match.start(), quoted)


def _is_plain(word: str) -> bool:
    """Whether a word that begins a sentence is a function word: its capital says nothing."""
    return all(token.stop for token in tokens(word))


def _words(texts: Sequence[str], around: Sequence[str]) -> list[str]:
    """Stems of the best content words, by tf-idf, the earlier of equal ones."""
    documents = [set(_content(text)) for text in (*around, *texts)]
    spread = Counter(stem for document in documents for stem in document)
    counts = Counter(stem for text in texts for stem in _content(text))
    weight = {stem: count * math.log1p(len(documents) / spread[stem]) for stem, count in counts.items()}
    return sorted(weight, key=lambda stem: -weight[stem])[:_WORDS]


def _content(text: str) -> Iterable[str]:
    return (token.stem for token in tokens(text) if not token.stop and len(token.stem) > 1 and token.stem.isalpha())
