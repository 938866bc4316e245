"""Who a question is about: speakers of the history that it names.

A name says whose turns to prefer; as a word to search for it only misleads, because a speaker's name is in most of the
other's turns and in every vector of the speaker's own. So the words are searched without it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from backread.text.analysis import STOP_WORDS
from backread.text.cues import MONTHS

__all__ = ["named_speakers", "without_names"]

_FEWEST_WORDS = 2
_TITLES = frozenset(("dr", "mr", "mrs", "ms", "miss", "prof", "professor", "sir", "st"))
_NOT_BEFORE_NAMES = frozenset(("a", "an", "the", "my", "your", "his", "her", "its", "our", "their", "any", "every"))
_SAYING = frozenset(
    ("say", "says", "said", "tell", "tells", "told", "talk", "talked", "mention", "mentioned", "know", "think")
)
_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function", "participant"))


def _mentions(question: str, name: str) -> list[tuple[int, int]]:
    """Where a name stands in a question: the whole name, else its first word; a possessive belongs to it.

    Case doesn't matter, but a name that is also a common word or a month ("Will", "May") needs its capital and must not
    open the question. So does the first word of a longer name, which may be a thing's ("Order Manager"), but for a
    possessive. One word after an article or the like ("my order") is no name. A title ("Dr. Lee") is no first name.
    """
    first = name.split()[0] if name.split() else ""
    if first.rstrip(".").casefold() in _TITLES or first.endswith("."):
        first = ""
    for form in dict.fromkeys((name.strip(), first)):
        if not form or form.casefold() in _ROLES:
            continue
        common = form.casefold() in STOP_WORDS or form.casefold() in MONTHS
        pattern = re.compile(rf"(?<!\w){re.escape(form)}(['’]s)?(?!\w)", 0 if common else re.IGNORECASE)
        spans = []
        for match in pattern.finditer(question):
            start, end = match.span()
            opens = start == 0 and (common or (form != name.strip() and not match[1]))
            small = form != name.strip() and question[start].islower()
            if not (opens or small or (len(form.split()) == 1 and _after_article(question, start))):
                spans.append((start, end))
        if spans:
            return spans
    return []


def _after_article(question: str, start: int) -> bool:
    before = question[max(0, start - 16) : start].split()
    return bool(before) and question[start - 1].isspace() and before[-1].casefold() in _NOT_BEFORE_NAMES


def named_speakers(question: str, speakers: Sequence[str]) -> tuple[str, ...]:
    """The speakers a question names, in the order of `speakers`; roles that stand in for names don't count."""
    return tuple(name for name in speakers if _mentions(question, name))


def without_names(question: str, names: Sequence[str]) -> str:
    """The question without these names, white space folded; as it is when nothing to search for would remain.

    That is fewer than two words, or none but function words and those of saying: "Tell me about Ann" is about her.
    A name that is written small, in the record and here, may as well be a word, and stays.
    """
    kept = list(question)
    for name in names:
        for start, end in _mentions(question, name):
            if not (name.islower() and question[start].islower()):
                kept[start:end] = " " * (end - start)  # one for one: names may stand inside each other
    rest = "".join(kept)
    if rest == question:
        return question
    rest = " ".join(rest.split())
    words = re.findall(r"\w+", rest.casefold())
    enough = len(words) >= _FEWEST_WORDS and not STOP_WORDS.union(_SAYING).issuperset(words)
    return rest if enough else question
