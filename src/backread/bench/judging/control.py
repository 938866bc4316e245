"""The vague answer: on topic, never false, and it says nothing. A judge that passes it grades topics, not answers.

For LoCoMo an audit found that the judge in general use accepted 62.81% of answers that were vague on purpose. So the
bench can make one for every question that is judged, without a model, and report what each judge said of it.
"""

from __future__ import annotations

import re

from backread.importers.base import Question
from backread.text.analysis import tokens

__all__ = ["vague_answer"]

_MOST_TOPICS = 3
_ANY = "It was something they talked about"

# What is asked for, most telling words first, and how to say nothing about it.
_FORMS = tuple(
    (re.compile(pattern, re.IGNORECASE), says)
    for pattern, says in (
        (r"\bhow (?:many|much)\b|\bwhat (?:number|amount|percentage|share)\b", "It was a certain number"),
        (
            r"\bwhen\b|\bhow long ago\b|\b(?:what|which) (?:date|day|weekday|week|month|year|season|time)\b",
            "It was at some point in the past",
        ),
        (r"\bhow (?:long|often|frequently)\b", "It went on for a while"),
        (
            r"\bwhere\b|\b(?:what|which) (?:city|town|village|country|state|region|place|street|address|location)\b",
            "It was somewhere they know",
        ),
        (
            r"\bwho(?:m|se)?\b|\b(?:what|which) (?:person|friend|relative|colleague|people)\b",
            "It was someone they know",
        ),
        (r"\bwhy\b|\b(?:what|which) (?:reason|reasons)\b", "It was for reasons of their own"),
        (
            r"^\W*(?:do|does|did|is|are|was|were|has|have|had|can|could|will|would|should)\b",
            "It depends on several things",
        ),
        (r"\bhow\b", "It was done in a way that suited them"),
    )
)
_WORDS_OF_FORMS = """
number amount percentage share long ago often frequently date day weekday week month year season time
city town village country state region place street address location
person friend relative colleague people reason reasons
"""
_ASKED_FOR = frozenset(_WORDS_OF_FORMS.split())


def vague_answer(question: Question) -> str:
    """An answer in English that fits the topic and the kind of a question and doesn't answer it; the same every time.

    Its topic is up to three words of the question, none of them a word of the gold answer or of the trap. It does not
    say that the answer is missing, so it is wrong also for a question that has none.
    """
    form = next((says for pattern, says in _FORMS if pattern.search(question.question)), _ANY)
    topic = _topic(question.question, _stems(question.answer) | _stems(question.trap))
    return f"{form}; {topic or 'it'} came up more than once."


def _topic(question: str, kept_out: set[str]) -> str:
    """Its first content words as it has them, joined: "Tove, open and shop"; "" when there is none to show."""
    words: dict[str, str] = {}
    end = 0
    for token in tokens(question):
        shown = question[token.start : token.end]
        if token.start >= end and not (token.stop or token.surface in _ASKED_FOR or _stems(shown) & kept_out):
            words.setdefault(token.stem, shown)
            end = token.end
    *before, last = [*words.values()][:_MOST_TOPICS] or [""]
    return f"{', '.join(before)} and {last}" if before else last


def _stems(text: str | None) -> set[str]:
    return {token.stem for token in tokens(text or "") if not token.stop}
