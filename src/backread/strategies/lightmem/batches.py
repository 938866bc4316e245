"""What LightMem has done of a history, kept as the strategy's state: batches, open buffers, and what was compared.

Turns go through the buffers in the order of the history, and each ends up in one batch, which is one call of the model.
A batch names its turns and its entries. It stands as long as its turns and all its entries are there; when one of its
turns was deleted or superseded, or when an entry of it went with a deleted turn of another batch that had changed it,
it is read again, with the turns that are left. A turn that comes late is in no batch, so it goes through the buffers
when it comes, as new turns do. The state holds ids and numbers, never a word of a turn.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["Batch", "Book"]

Ids = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Topics that are read in one call.

    Attributes:
        topics: turn ids of each topic, in order.
        first_topic: number of the first topic; numbers go on through a history.
        recipe: what the entries were made by; None when they were not made yet.
        entries: ids of the entries, without those that later ones have replaced.
        changed_by: turns of other batches that entries of this one were updated or dropped for.
        tries: calls that failed since it was last read.
    """

    topics: tuple[Ids, ...]
    first_topic: int
    recipe: str | None = None
    entries: Ids = ()
    changed_by: Ids = ()
    tries: int = 0

    @property
    def turn_ids(self) -> Ids:
        """Its turns, in order."""
        return tuple(turn_id for topic in self.topics for turn_id in topic)

    def only(self, turn_ids: Collection[str]) -> Batch:
        """The batch with no other turns than these; topics keep their numbers, also when they are empty."""
        return replace(self, topics=tuple(tuple(key for key in topic if key in turn_ids) for topic in self.topics))


@dataclass(frozen=True, slots=True)
class Book:
    """The state of one kind of entry.

    Attributes:
        batches: by number, in the order they were closed.
        sensory: turn ids of each round in the sensory buffer.
        short_term: turn ids of each topic in the short-term buffer.
        compared: by entry id, what the entry was last compared with; see `updating`.
        maintained: the entries that need no comparing, as of `updating`; "" when some may.
        batch_count: number of the next batch.
        topic_count: number of the next topic.
    """

    batches: Mapping[int, Batch] = field(default_factory=dict)
    sensory: tuple[Ids, ...] = ()
    short_term: tuple[Ids, ...] = ()
    compared: Mapping[str, str] = field(default_factory=dict)
    maintained: str = ""
    batch_count: int = 0
    topic_count: int = 0

    @classmethod
    def read(cls, state: bytes | None, kind: str) -> Book:
        """The book of a kind in a strategy's state; an empty one when it isn't there."""
        part = _parts(state).get(kind, {})
        return cls(
            {int(number): _batch(row) for number, row in part.get("batches", {}).items()},
            _ids(part.get("sensory", ())),
            _ids(part.get("short_term", ())),
            part.get("compared", {}),
            part.get("maintained", ""),
            part.get("batch_count", 0),
            part.get("topic_count", 0),
        )

    def written(self, state: bytes | None, kind: str) -> bytes:
        """The state with this book in the place of the one of that kind; those of others are kept."""
        part = {
            "batches": {
                str(number): {
                    "topics": row.topics,
                    "first_topic": row.first_topic,
                    "recipe": row.recipe,
                    "entries": row.entries,
                    "changed_by": row.changed_by,
                    "tries": row.tries,
                }
                for number, row in self.batches.items()
            },
            "sensory": self.sensory,
            "short_term": self.short_term,
            "compared": self.compared,
            "maintained": self.maintained,
            "batch_count": self.batch_count,
            "topic_count": self.topic_count,
        }
        return json.dumps({**_parts(state), kind: part}, separators=(",", ":")).encode()

    @property
    def open(self) -> Iterator[str]:
        """Turns in the buffers."""
        return (turn_id for part in (*self.short_term, *self.sensory) for turn_id in part)

    @property
    def gathered(self) -> set[str]:
        """Turns that went through the buffers or are in them."""
        return {turn_id for row in self.batches.values() for turn_id in row.turn_ids}.union(self.open)

    def standing(self, recipe: str, turn_ids: Collection[str], entry_ids: Collection[str] | None) -> dict[int, Batch]:
        """The batches that are as they were read, by number.

        Args:
            recipe: what entries must have been made by.
            turn_ids: the turns that are there, not superseded.
            entry_ids: the entries that are there; None when none of them is missing.
        """
        return {
            number: row
            for number, row in self.batches.items()
            if row.recipe == recipe
            and all(key in turn_ids for key in (*row.turn_ids, *row.changed_by))
            and (entry_ids is None or all(key in entry_ids for key in row.entries))
        }

    def with_batch(self, number: int, row: Batch | None) -> Book:
        """The book with another row for a batch, or without it; comparisons of its old entries are forgotten."""
        batches = dict(self.batches)
        old = batches.pop(number, None)
        forgotten = set(old.entries if old else ())
        if row is not None:
            batches[number] = row
        compared = {key: mark for key, mark in self.compared.items() if key not in forgotten}
        return replace(self, batches=dict(sorted(batches.items())), compared=compared)


def _parts(state: bytes | None) -> dict[str, Any]:
    return dict(json.loads(state)) if state else {}


def _batch(row: Mapping[str, Any]) -> Batch:
    return Batch(
        _ids(row["topics"]),
        row["first_topic"],
        row["recipe"],
        tuple(row["entries"]),
        tuple(row["changed_by"]),
        row["tries"],
    )


def _ids(parts: Any) -> tuple[Ids, ...]:  # noqa: ANN401 -- lists of lists, as JSON gives them
    return tuple(tuple(part) for part in parts)
