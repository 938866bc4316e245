"""LightMem's two buffers: rounds gather until topics can be cut from them, topics gather until they are worth a call.

Pure: what goes in comes out again exactly once, in order, also at the end. `flush` gives what is left whatever was
given before, and nothing is written over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from backread.construction.topics import parted

__all__ = ["Boundaries", "Message", "Round", "Segment", "Sensory", "ShortTerm"]


@dataclass(frozen=True, slots=True)
class Message:
    """A turn as the buffers see it.

    Attributes:
        turn_id: which turn.
        text: what is read of it, compressed.
        sensory: tokens it takes of the sensory buffer; 0 for one that only rides along.
        short_term: tokens it takes of the short-term buffer.
        human: whether a person says it, and not an assistant or a tool.
    """

    turn_id: str
    text: str
    sensory: int
    short_term: int
    human: bool


Round = tuple[Message, ...]
"""A turn of a person with the replies to it; never empty."""

Segment = tuple[Message, ...]
"""The rounds of a topic, one behind the other; never empty."""

Boundaries = Callable[[Sequence[Round]], Sequence[int]]
"""Where a run of rounds is cut; see `construction.topics`."""


class Sensory:
    """The buffer that topics are cut from.

    A round that would go beyond `room` has what is there cut first, as often as it takes; one that is larger than
    `room` alone becomes a topic of its own.

    Args:
        room: tokens it holds.
        boundaries: where to cut; never 0.
        rounds: what it holds at the start.
    """

    def __init__(self, room: int, boundaries: Boundaries, rounds: Iterable[Round] = ()) -> None:
        self._room, self._boundaries = room, boundaries
        self.rounds: list[Round] = list(rounds)

    def add(self, item: Round) -> list[Segment]:
        """The topics that this round closes, in order; often none."""
        closed: list[Segment] = []
        size = _tokens(item)
        while self.rounds and sum(map(_tokens, self.rounds)) + size > self._room:
            closed += self._cut(last=False)
        if size > self._room:
            closed.append(item)
        else:
            self.rounds.append(item)
        return closed

    def flush(self) -> list[Segment]:
        """All that is left, as topics; the buffer is empty then."""
        return self._cut(last=True)

    def _cut(self, *, last: bool) -> list[Segment]:
        boundaries = self._boundaries(self.rounds) if len(self.rounds) > 1 else ()
        topics, taken = parted(self.rounds, boundaries, last=last)
        del self.rounds[:taken]
        return [tuple(message for item in topic for message in item) for topic in topics]


def _tokens(item: Round) -> int:
    return sum(message.sensory for message in item)


class ShortTerm:
    """The buffer that gathers topics for a call of the model.

    Args:
        room: tokens it holds; a topic that would go beyond has what is there given out first, and may be larger alone.
        segments: what it holds at the start.
    """

    def __init__(self, room: int, segments: Iterable[Segment] = ()) -> None:
        self._room = room
        self.segments: list[Segment] = list(segments)

    def add(self, item: Segment) -> list[Segment] | None:
        """The topics of a batch that is full now; None as long as there is room."""
        size = sum(message.short_term for segment in (*self.segments, item) for message in segment)
        full = self.flush() if size > self._room else None
        self.segments.append(item)
        return full

    def flush(self) -> list[Segment] | None:
        """All that is left, as a batch, None when nothing is; the buffer is empty then."""
        left, self.segments = self.segments, []
        return left or None
