"""Reason-in-Documents: a call of its own reads what was found and keeps what helps; each line is tied to its turns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from backread.construction.prompt_files import Prompt
from backread.construction.tying import tie
from backread.models.base import ChatMessage
from backread.models.structured import known_ids
from backread.strategies.search_o1.documents import Document, Part, numbered
from backread.text.fencing import fence, quote
from backread.types import Source

__all__ = ["Finding", "findings", "request"]

_MARKER = re.compile(r"^[^\w\n]*useful information[^\w\n:]*(?::[^\w\n\[]*|$)", re.IGNORECASE | re.MULTILINE)
_NOTHING = re.compile(r"\W*(?:nothing (?:else )?useful|no useful information)\b.*", re.IGNORECASE)
_BULLET = re.compile(r"\A\s*(?:[-*•–]\s+|\d{1,2}[.)]\s+)?")
_NUMBERS = re.compile(r"(?<!\s)\s*\[\s*(?:doc(?:ument)?s?\.?\s*)?(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\s*\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A line the reader wrote.

    Attributes:
        text: its words, without the numbers of documents.
        sources: the sentences it could be tied to, in the order of the history; empty when it could be tied to none.
        first: the turn of its first source.
        unknown: how many numbers of documents it named that were not there.
    """

    text: str
    sources: tuple[Source, ...]
    first: Part | None
    unknown: int = 0


def request(prompt: Prompt, reasoning: str, query: str, documents: Sequence[Document]) -> list[ChatMessage]:
    """The messages of the call; `reasoning` is what is shown of the chain."""
    thoughts = fence([reasoning], label="thoughts")
    asked = f"{numbered(documents)}\n\n{thoughts}\n\nLooked for: {quote(query)}\n\n{prompt.form}"
    return [ChatMessage("system", prompt.rules), ChatMessage("user", asked)]


def findings(reply: str, documents: Sequence[Document], *, cut: bool = False) -> list[Finding] | None:
    """The lines behind the marker of a reply, tied to turns; [] for nothing useful, None when there is no marker.

    A line is tied to the turns of the documents it names, or, when it shares no word with them, to those of any
    document; see `construction.tying`. Only what was shown of a turn counts.

    Args:
        reply: what the model wrote.
        documents: what it was shown, numbered from 1.
        cut: it broke off, so its last line is not read.
    """
    marker = _MARKER.search(reply)
    if marker is None:
        return None
    lines = reply[marker.end() :].splitlines()[: -1 if cut else None]
    return [_finding(line, documents) for line in lines if _says_something(line)]


def _says_something(line: str) -> bool:
    return re.search(r"\w", _NUMBERS.sub("", line)) is not None and not _NOTHING.fullmatch(line)


def _finding(line: str, documents: Sequence[Document]) -> Finding:
    numbers = [number for match in _NUMBERS.finditer(line) for number in re.findall(r"\d+", match[1])]
    checked = known_ids(numbers, {str(number) for number in range(1, len(documents) + 1)}, lambda number: number)
    text = _NUMBERS.sub("", _BULLET.sub("", line)).strip()
    parts = {part.turn.turn_id: part for part in _in_order(documents)}
    cited = {part.turn.turn_id for number in checked.items for part in documents[int(number) - 1].parts}
    found = tie(
        text,
        [part.turn for turn_id, part in parts.items() if turn_id in cited],
        [part.turn for part in parts.values()],
    )
    sources = tuple(source for source in found if _overlap(source, parts[source.turn_id]))
    return Finding(text, sources, parts[sources[0].turn_id] if sources else None, len(checked.unknown))


def _in_order(documents: Sequence[Document]) -> list[Part]:
    return sorted((part for document in documents for part in document.parts), key=lambda part: part.place)


def _overlap(source: Source, part: Part) -> bool:
    return (source.start < part.end and (source.end is None or source.end > part.start)) or not part.turn.text
