"""The memory cache as lines that are tied to turns, and as evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backread.construction.tying import tie
from backread.models.structured import known_ids
from backread.rendering import Candidate
from backread.strategies.t2mem.observing import Observation
from backread.types import Evidence, Source, Turn

if TYPE_CHECKING:
    from backread.strategies.t2mem.schemas import Cached

__all__ = ["UNCHECKED", "MemoryLine", "as_evidence", "read_lines"]

UNCHECKED = " [unchecked]"
"""Behind a line that could be tied to no turn."""

_LAST = (2**31, 0)  # lines without a turn stand behind all others


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """A line of a memory cache m_t.

    Attributes:
        text: the model's words.
        sources: the spans they rest on, in the order of the history; empty when it could be tied to none.
        turns: the turns of the sources by label, in order.
        place: of the first source in the history.
    """

    text: str
    sources: tuple[Source, ...] = ()
    turns: Mapping[str, Turn] = field(default_factory=dict)
    place: tuple[int, int] = _LAST


def read_lines(
    cache: Sequence[Cached], observation: Observation, remembered: Mapping[str, Turn]
) -> tuple[list[MemoryLine], int]:
    """The lines of a cache, tied to turns, and how many of the labels they name were not shown.

    Blank lines say nothing and are left out. A line is checked against the turns it names, then against all turns
    behind the observation; see `construction.tying`.

    Args:
        cache: what the model wrote.
        observation: what it was shown.
        remembered: the turns by label that earlier lines rest on, which the memory shows: a line may name them too.
    """
    lines: list[MemoryLine] = []
    unknown = 0
    offered = {**remembered, **observation.turns}
    for item in cache:
        text = " ".join(item.text.split())
        if not any(sign.isalnum() for sign in text):
            continue
        named = known_ids(item.turns, offered, lambda label: label)
        unknown += len(named.unknown)
        cited = [offered[label] for label in dict.fromkeys(named.items)]
        lines.append(_tied(text, tie(text, cited, list(observation.turns.values())), offered))
    return lines, unknown


def _tied(text: str, sources: Sequence[Source], offered: Mapping[str, Turn]) -> MemoryLine:
    if not sources:
        return MemoryLine(text)
    label = {turn.turn_id: name for name, turn in offered.items()}

    def place(source: Source) -> tuple[int, int, int]:
        session, _, turn = label[source.turn_id].partition(".")
        return int(session), int(turn), source.start

    ordered = sorted(sources, key=place)
    turns = {label[source.turn_id]: offered[label[source.turn_id]] for source in ordered}
    return MemoryLine(text, tuple(ordered), turns, place(ordered[0])[:2])


def as_evidence(lines: Sequence[MemoryLine]) -> list[Candidate]:
    """The lines as evidence, ranked in the order they were written; one that is there already is left out.

    Lines that rest on nothing are marked, and stand behind the others.
    """
    candidates: list[Candidate] = []
    known: set[str] = set()
    for line in lines:
        if line.text.casefold() in known:
            continue
        known.add(line.text.casefold())
        rank = len(candidates)
        first = next(iter(line.turns.values()), None)
        evidence = Evidence(
            text=line.text if line.sources else f"{line.text}{UNCHECKED}",
            kind="rewrite",
            sources=line.sources,
            rank=rank,
            time=first.time if first else None,
            received=first is not None and first.received,
            session_id=first.session_id if first else None,
        )
        candidates.append(Candidate(evidence, (*line.place, rank)))
    return candidates
