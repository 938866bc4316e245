"""The reasoning chain as text: search queries between special tokens, and what of it the document reader is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from backread.text.fencing import fence, for_model, quote

__all__ = [
    "BEGIN_QUERY",
    "BEGIN_RESULT",
    "EMPTY",
    "END_QUERY",
    "END_RESULT",
    "EXCEEDED",
    "NOTHING",
    "REPEATED",
    "Said",
    "elided",
    "native_answer",
    "result",
    "said",
]

BEGIN_QUERY, END_QUERY = "<|begin_search_query|>", "<|end_search_query|>"
BEGIN_RESULT, END_RESULT = "<|begin_search_result|>", "<|end_search_result|>"

REPEATED = "This was searched before; its result stands above. Search for something else, or answer."
EXCEEDED = "There are no searches left. Answer from the results above."
EMPTY = "The query was empty. Write a few words between the marks."
NOTHING = "Nothing useful was found."

_LAST_STEPS = 4
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
_ANSWER = re.compile(r"^(?:[^\w\n]|_)*(?:final )?answer(?:[^\w\n]|_)*?:[*_ \t]*", re.IGNORECASE | re.MULTILINE)
_BEGIN, _END = (re.compile(rf"<?\|?{word}_search_query\|?>?") for word in ("begin", "end"))


@dataclass(frozen=True, slots=True)
class Said:
    """What counts of a reply, as it may go back to the model: control tokens are broken up, but for those of a query.

    Attributes:
        text: up to the end of a query, end token included.
        query: None without one.
    """

    text: str
    query: str | None


def said(reply: str) -> Said:
    """A reply cut at the first end token: what a model writes behind it, results above all, is its own invention.

    The query begins at the last begin token before that. One that is never ended ends with its line. Tokens may lack
    some of their signs, as small models write them.
    """
    end = _END.search(reply)
    before = reply[: end.start()] if end else reply
    begins = list(_BEGIN.finditer(before))
    if not begins:
        return Said(_own_words(before).strip(), None)
    begin = begins[-1] if end else begins[0]
    query = before[begin.end() :]
    query = " ".join((query if end else query.lstrip().partition("\n")[0]).split()).strip("<|> ")
    own = _own_words(before[: begin.start()])
    return Said(f"{own}{BEGIN_QUERY}{for_model(query)}{END_QUERY}".strip(), query)


def _own_words(text: str) -> str:
    """What a model wrote, as it may go back to it; the mark that it was told to write is left to it."""
    return BEGIN_QUERY.join(map(for_model, text.split(BEGIN_QUERY)))


def native_answer(text: str) -> str:
    """What the chain ends with: behind its last "Answer:", else the whole of its last text."""
    start = max((match.end() for match in _ANSWER.finditer(text)), default=0)
    return text[start:].strip()


def result(lines: Sequence[str]) -> str:
    """What goes back into the chain for a query. The lines rest on stored text: they are fenced, and hold no token."""
    return f"{BEGIN_RESULT}\n{fence([quote(line) for line in lines], label='result')}\n{END_RESULT}"


def elided(reasoning: str) -> str:
    """The steps of a chain that its document reader is shown: numbered, "..." where some are left out.

    Steps are paragraphs. Shown are the first one, the last four, and those that hold a query or a result.
    """
    steps = [step for step in _BLANK_LINES.split(reasoning.strip()) if step]
    shown: list[str] = []
    for place, step in enumerate(steps):
        searches = BEGIN_QUERY in step or BEGIN_RESULT in step
        if place == 0 or place >= len(steps) - _LAST_STEPS or searches:
            shown.append(f"Step {place + 1}: {step}")
        elif shown[-1] != "...":
            shown.append("...")
    return "\n\n".join(shown)
