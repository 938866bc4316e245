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
_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function", "participant"))


def _mentions(question: str, name: str) -> list[tuple[int, int]]:
    """Where a name stands in a question: the whole name, else its first word; a possessive belongs to it.

    Case doesn't matter, but a name that is also a common word or a month ("Will", "May") needs its capital and must not
    open the question. A title ("Dr. Lee") is no first name.
    """
    first = name.split()[0] if name.split() else ""
    if first.rstrip(".").casefold() in _TITLES or first.endswith("."):
        first = ""
    for form in dict.fromkeys((name.strip(), first)):
        if not form or form.casefold() in _ROLES:
            continue
        common = form.casefold() in STOP_WORDS or form.casefold() in MONTHS
        pattern = re.compile(rf"(?<!\w){re.escape(form)}(?:['’]s)?(?!\w)", 0 if common else re.IGNORECASE)
        spans = [match.span() for match in pattern.finditer(question) if not (common and match.start() == 0)]
        if spans:
            return spans
    return []


def named_speakers(question: str, speakers: Sequence[str]) -> tuple[str, ...]:
    """The speakers a question names, in the order of `speakers`; roles that stand in for names don't count."""
    return tuple(name for name in speakers if _mentions(question, name))


def without_names(question: str, names: Sequence[str]) -> str:
    """The question without these names, white space folded; as it is when fewer than two words would remain."""
    kept = list(question)
    for start, end in (span for name in names for span in _mentions(question, name)):
        kept[start:end] = " " * (end - start)  # one for one: names may stand inside each other
    rest = "".join(kept)
    if rest == question:
        return question
    rest = " ".join(rest.split())
    return rest if len(re.findall(r"\w+", rest)) >= _FEWEST_WORDS else question
