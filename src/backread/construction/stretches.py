"""The windows of a recall: which turns stand in them, and in which order a budget takes these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backread.retrieval.windows import history_windows
from backread.store.corpus import Corpus
from backread.types import Ranking, Turn

__all__ = ["Stretch", "best_first", "stretches"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A window over a session.

    Attributes:
        turns: in the order of the history.
        places: the place in the ranking of each turn that was found, by turn id; every window has one.
    """

    turns: tuple[Turn, ...]
    places: Mapping[str, int]

    @property
    def best(self) -> int:
        """The place of its best hit."""
        return min(self.places.values())

    @property
    def hits(self) -> list[Turn]:
        """The turns that were found, best first."""
        found = [turn for turn in self.turns if turn.turn_id in self.places]
        return sorted(found, key=lambda turn: self.places[turn.turn_id])


def stretches(corpus: Corpus, ranking: Ranking) -> list[Stretch]:
    """The windows around what was found, in the order of the history; turns deleted meanwhile are left out."""
    units = corpus.find([item.unit_id for item in ranking.items])
    place = {unit: number for number, unit in enumerate(units)}
    windows = history_windows(corpus.session, units)
    wanted = sorted({unit for window in windows for unit in window})
    turns = dict(zip(wanted, corpus.turns_of(wanted), strict=True))
    found = []
    for window in windows:
        there = [(unit, turn) for unit in window for turn in turns[unit]]
        places = {turn.turn_id: place[unit] for unit, turn in there if unit in place}
        if places:
            found.append(Stretch(tuple(turn for _, turn in there), places))
    return found


def best_first(windows: Sequence[Stretch]) -> list[Turn]:
    """Every turn once: those of the window with the best hit first; in each its hits, then what stands around them."""
    taken: dict[str, Turn] = {}
    for window in sorted(windows, key=lambda window: window.best):
        for turn in (*window.hits, *window.turns):
            taken.setdefault(turn.turn_id, turn)
    return list(taken.values())
