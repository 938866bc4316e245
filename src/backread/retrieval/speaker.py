"""Who a question is about: speakers of the history that it names.

A name says whose turns to prefer; as a word to search for it only misleads, because a speaker's name is in most of the
other's turns and in every vector of the speaker's own. So the words are searched without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["named_speakers", "without_names"]

_FEWEST_WORDS = 2


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    words = sorted(map(re.escape, names), key=lambda name: (-len(name), name))
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?:['’]s)?(?!\w)", re.IGNORECASE)


def named_speakers(question: str, speakers: Sequence[str]) -> tuple[str, ...]:
    """The speakers a question names, in the order of `speakers`; a possessive counts, case doesn't."""
    return tuple(name for name in speakers if name.strip() and _pattern([name]).search(question))


def without_names(question: str, names: Sequence[str]) -> str:
    """The question without these names; as it is when fewer than two words would remain."""
    if not names:
        return question
    rest = " ".join(_pattern(names).sub(" ", question).split())
    return rest if len(re.findall(r"\w+", rest)) >= _FEWEST_WORDS else question
