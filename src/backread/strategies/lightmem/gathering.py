"""Turns go through the buffers: from what is new of a history to batches that can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from backread.store.history import HUMAN_ROLES
from backread.strategies.lightmem.batches import Batch, Book
from backread.strategies.lightmem.buffers import Segment, Sensory, ShortTerm
from backread.strategies.lightmem.reading import Reading
from backread.strategies.lightmem.settings import Settings
from backread.types import Turn

__all__ = ["gather", "rounds"]


def rounds(turns: Iterable[Turn]) -> list[list[Turn]]:
    """Each turn of a person with the turns of others behind it; a session begins a new round."""
    found: list[list[Turn]] = []
    for turn in turns:
        if not found or turn.role in HUMAN_ROLES or turn.session_id != found[-1][-1].session_id:
            found.append([])
        found[-1].append(turn)
    return found


def gather(
    turns: Sequence[Turn],
    book: Book,
    reading: Reading,
    settings: Settings,
    *,
    flush: bool,
    most: int,
    stopped: Callable[[], bool],
) -> tuple[Book, bool]:
    """The book after what is new went through the buffers, and whether some of it is left for another call.

    The last round may still go on, so it waits until a turn comes behind it, or for `flush`. Turns in the buffers that
    are gone leave them.

    Args:
        turns: all turns that are there and not superseded, in history order.
        book: how far it came.
        reading: shortens, measures and cuts.
        settings: sizes of the buffers.
        flush: also empty the buffers once all is in them.
        most: batches that are closed at most, but for the last round's.
        stopped: asked before each round.

    Raises:
        ModelError: the embedder or the compressor could not be asked.
    """
    there = {turn.turn_id: turn for turn in turns}
    sensory = Sensory(settings.sensory, reading.boundaries, _restored(book.sensory, there, reading))
    short_term = ShortTerm(settings.short_term, _restored(book.short_term, there, reading))
    closed: list[list[Segment]] = []

    def take(segments: Iterable[Segment]) -> None:
        closed.extend(batch for segment in segments if (batch := short_term.add(segment)))

    gathered = book.gathered
    new = rounds(turn for turn in turns if turn.turn_id not in gathered)
    ready = new if flush else new[:-1]
    done = 0
    while done < len(ready) and len(closed) < most and not stopped():
        take(sensory.add(tuple(map(reading.message, ready[done]))))
        done += 1
    if flush and done == len(ready) and not stopped():
        take(sensory.flush())
        closed.extend(batch for batch in [short_term.flush()] if batch)
    for batch in closed:
        book = _with_closed(book, batch)
    rest = (tuple(map(_turn_ids, sensory.rounds)), tuple(map(_turn_ids, short_term.segments)))
    return replace(book, sensory=rest[0], short_term=rest[1]), done < len(ready)


def _restored(parts: Iterable[Sequence[str]], there: Mapping[str, Turn], reading: Reading) -> list[Segment]:
    """What a buffer held, without turns that are gone."""
    kept = (tuple(reading.message(there[key]) for key in part if key in there) for part in parts)
    return [part for part in kept if part]


def _with_closed(book: Book, batch: Sequence[Segment]) -> Book:
    row = Batch(tuple(map(_turn_ids, batch)), first_topic=book.topic_count)
    return replace(
        book,
        batches={**book.batches, book.batch_count: row},
        batch_count=book.batch_count + 1,
        topic_count=book.topic_count + len(batch),
    )


def _turn_ids(part: Segment) -> tuple[str, ...]:
    return tuple(message.turn_id for message in part)
