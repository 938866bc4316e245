"""What the controller is shown at a step: index entries, a raw session, or that there is nothing to show.

    [2] 2023-05-25 (Thursday), Caroline, Melanie
      - Charity race
      - 2023-05-20, “last Saturday”: Melanie ran a charity race [2.1]

Entries and turns have short labels: 2 is the second session of the history, 2.1 the first turn of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from backread.construction.episode_ranking import Episode, turns_of
from backread.construction.episodes import entry_lines
from backread.construction.transcript import day, transcript
from backread.store.history import History
from backread.text.fencing import quote
from backread.types import Turn

__all__ = ["Observation", "notice", "observe_entries", "observe_session"]


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation o_t.

    Attributes:
        kind: what is shown.
        episodes: numbers of the sessions it shows something of.
        lines: quoted, not fenced.
        turns: the turns behind it by label, in the order shown.
    """

    kind: Literal["entries", "session", "notice"]
    episodes: tuple[int, ...]
    lines: tuple[str, ...]
    turns: Mapping[str, Turn] = field(default_factory=dict)


def observe_entries(history: History, episodes: Sequence[Episode]) -> Observation:
    """The index entries of sessions; a session without one is shown as it is."""
    lines: list[str] = []
    turns: dict[str, Turn] = {}
    for episode in episodes:
        own = turns_of(history, episode)
        label = {turn.turn_id: f"{episode.number}.{place}" for place, turn in enumerate(own, 1)}
        turns |= {label[turn.turn_id]: turn for turn in own}
        if episode.entry is None:
            lines += _session_lines(episode, own)
            continue
        who = ", ".join(episode.entry.data["participants"])
        lines.append(quote(f"[{episode.number}] {day(episode.entry.said_at)}, {who}"))
        for line in entry_lines(episode.entry.data):
            named = [label[turn_id] for turn_id in line.turn_ids if turn_id in label]
            lines.append(quote(f"  - {line.text}" + (f" [{', '.join(named)}]" if named else "")))
    return Observation("entries", tuple(episode.number for episode in episodes), tuple(lines), turns)


def observe_session(history: History, episode: Episode) -> Observation:
    """A whole raw session: ReadRaw(k) of the paper, equation 13."""
    own = turns_of(history, episode)
    turns = {f"{episode.number}.{place}": turn for place, turn in enumerate(own, 1)}
    return Observation("session", (episode.number,), tuple(_session_lines(episode, own)), turns)


def notice(text: str) -> Observation:
    """That an action gave nothing, and why."""
    return Observation("notice", (), (text,))


def _session_lines(episode: Episode, turns: Sequence[Turn]) -> list[str]:
    shown = transcript(turns, lambda place: f"{episode.number}.{place}")
    return [f"[{episode.number}] the whole session", *shown]
