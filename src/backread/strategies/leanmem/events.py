"""Events as entries: how each is written down and read, and what an evolved one rests on.

An event that a segment gave is never changed. An evolved one is an entry of the same kind beside those it was made of,
its parts, and names them: while all of them are as they were, it is shown in their place; once one is gone or another,
it is dropped and the others stand for themselves again. So a delete, a late turn, or a view of the record as it once
stood finds what was known without the rest, and nothing has to be written anew for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from backread.strategies.leanmem.dating import Days, day_of, days_in
from backread.types import Entry, EntryDraft

__all__ = ["Events", "at", "digest", "event_text", "evolved", "spans"]


def event_text(topic: str, state: str) -> str:
    """The text by which events are found, and found related: topic and state."""
    return f"{topic}. {state}" if topic else state


def digest(entry: Entry | EntryDraft) -> str:
    """16 hexadecimal digits that stand for what an entry says and rests on."""
    sources = [(source.turn_id, source.start, source.end) for source in entry.sources]
    said = json.dumps([entry.data, entry.index_text, sources], sort_keys=True, default=str)
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def at(entry: Entry) -> tuple[date, date, str]:
    """Where an event stands in time: by its anchor, then by when it was told; unknown ones last."""
    told = date.max if entry.said_at is None else entry.said_at.date()
    anchored = days_in(str(entry.data["anchor"]))
    return anchored[0].first if anchored else told, told, entry.entry_id


def spans(entry: Entry) -> list[Days]:
    """The days an event is about: its anchor, those of its timeline, and when it was told."""
    times = [str(entry.data["anchor"]), *(str(item["t"]) for item in entry.data.get("timeline", ()))]
    told = day_of(entry.said_at)
    return [days for time in dict.fromkeys([*times, told]) for days in days_in(time)]


class Events:
    """The events of a shelf as they stand: those that were written, and those that evolved from them.

    Args:
        entries: of the kind, in a view of the record.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.written: dict[str, Entry] = {}
        evolved: list[Entry] = []
        for entry in entries:
            if "parts" in entry.data:
                evolved.append(entry)
            else:
                self.written[entry.entry_id] = entry
        self.digests: Mapping[str, str] = {entry_id: digest(entry) for entry_id, entry in self.written.items()}
        whole = [self._is_whole(entry) for entry in evolved]
        self.evolved = [entry for entry, kept in zip(evolved, whole, strict=True) if kept]
        self.broken = [entry for entry, kept in zip(evolved, whole, strict=True) if not kept]

    def _is_whole(self, entry: Entry) -> bool:
        parts: Mapping[str, str] = entry.data["parts"]
        return all(self.digests.get(entry_id) == mark for entry_id, mark in parts.items())

    @property
    def current(self) -> list[Entry]:
        """The evolved events, and those that are part of none, in order of time."""
        parts = self.absorbed
        return sorted([*self.evolved, *(e for e in self.written.values() if e.entry_id not in parts)], key=at)

    @property
    def absorbed(self) -> set[str]:
        """Ids of events that are a part of an evolved one."""
        return {entry_id for entry in self.evolved for entry_id in entry.data["parts"]}

    def parts(self, entry: Entry) -> list[Entry]:
        """What an event was made of, in order of time; a written one is its own part."""
        return sorted((self.written[entry_id] for entry_id in entry.data.get("parts", (entry.entry_id,))), key=at)


def evolved(
    parts: Sequence[Entry],
    topic: str,
    anchor: str,
    state: str,
    *,
    model: str | None,
    prompt_hash: str | None,
    beside: Sequence[Entry] = (),
) -> EntryDraft:
    """The event that some written ones make together; their states are its timeline, word for word.

    Args:
        parts: in order of time.
        topic: what all of them are about.
        anchor: the date from which `state` holds, "" when it is not known.
        state: how things stand now.
        model: what wrote these three.
        prompt_hash: how it was asked.
        beside: events that it saw as well.
    """
    marks = {part.entry_id: digest(part) for part in parts}
    timeline = [{"t": part.data["anchor"] or day_of(part.said_at), "state": part.data["state"]} for part in parts]
    latest = parts[-1]
    identity = hashlib.blake2b("\n".join(marks).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    said = " ".join(str(item["state"]) for item in timeline if item["state"] != state)
    return EntryDraft(
        entry_id=f"evolved:{identity}",
        strategy=latest.strategy,
        kind=latest.kind,
        data={
            "topic": topic,
            "anchor": anchor,
            "state": state,
            "timeline": timeline,
            "parts": marks,
            "sessions": sorted({session for part in parts for session in part.data["sessions"]}),
            "turns": list(dict.fromkeys(turn_id for part in reversed(parts) for turn_id in part.data["turns"])),
        },
        index_text=f"{event_text(topic, state)} {said}".strip(),
        # Those of the latest first: an entry stands where its first source does.
        sources=tuple(dict.fromkeys(source for part in reversed(parts) for source in part.sources)),
        said_at=latest.said_at,
        model=model,
        prompt_hash=prompt_hash,
        shown=tuple(dict.fromkeys(turn_id for entry in (*parts, *beside) for turn_id in _seen(entry))),
    )


def _seen(entry: Entry) -> list[str]:
    """The turns whose words an entry may have."""
    return [*(source.turn_id for source in entry.sources), *entry.shown]
