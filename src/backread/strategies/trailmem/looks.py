"""Where to look for a question: its turns and sessions, ranked, and the windows that each look opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backread.construction.episode_ranking import Entries, rank_episodes
from backread.construction.sessions import together
from backread.construction.stretches import Stretch, stretches
from backread.retrieval.base import Retriever
from backread.store.history import History, Scope
from backread.types import Degradation, Ranking, ScoredUnit

__all__ = ["CUE", "WINDOWS", "Ground", "Look", "share", "survey"]

CUE = 0.3
"""What the entry of a session adds to its worth, at most; its best turn gives it 0 to 1."""

WINDOWS = 4
"""Windows of a look at most; what else there is of a session is another look."""

_HITS = 3  # turns that are looked for in a session that only its entry speaks for


@dataclass(frozen=True, slots=True)
class Look:
    """Some windows of one session, opened together.

    Attributes:
        session_id: whose.
        windows: their numbers in `Ground.windows`, best first.
        best: the place of the best turn that was found in them.
        worth: looks are taken by it, best first.
    """

    session_id: str
    windows: tuple[int, ...]
    best: int
    worth: float


@dataclass(frozen=True, slots=True)
class Ground:
    """All that may be looked at for a question.

    Attributes:
        ranked: turns that were found, best first, with their scores; those only an entry led to are not in it.
        windows: around all of them, in the order of the history; places count on behind those of `ranked`.
        looks: best first.
        degraded: what searching had to do without.
    """

    ranked: tuple[ScoredUnit, ...]
    windows: tuple[Stretch, ...]
    looks: tuple[Look, ...]
    degraded: tuple[Degradation, ...]


def share(ranked: Sequence[ScoredUnit], place: int) -> float:
    """How good a place is: 1 for the best turn, 0 for the worst one and all behind it; 1 where all are equal."""
    if place >= len(ranked):
        return 0.0
    best, worst = ranked[0].score, ranked[-1].score
    return (ranked[place].score - worst) / (best - worst) if best > worst else 1.0


def survey(
    history: History, retriever: Retriever, question: str, entries: Entries | None, *, top_k: int, cued: int
) -> Ground:
    """Rank what there is, and lay out the looks.

    A look is worth its best turn, between 0 and 1, and a share of what the entry of its session scores against the
    best entry.

    Args:
        history: whose turns.
        retriever: ranks turns, and entries where there are some.
        question: as it was asked.
        entries: where the entries of sessions are kept; None where none were built.
        top_k: turns that are found.
        cued: how many of the best sessions by their entries are looked into when no turn of them was found.
    """
    corpus = history.corpus("turn")
    found = retriever.search(corpus, question, top_k)
    windows = stretches(corpus, found)
    degraded = found.degraded
    cues: Mapping[str, float] = {}
    if entries is not None and windows:
        ranked = rank_episodes(history, retriever, question, entries)
        best = max((episode.score or 0.0 for episode in ranked.episodes), default=0.0)
        cues = {episode.session_id: episode.score / best for episode in ranked.episodes if episode.score}
        seen = {window.turns[0].session_id for window in windows}
        unseen = [session_id for session_id in list(cues)[:cued] if session_id not in seen]
        if unseen:
            inside = history.corpus("turn", Scope(session_ids=unseen))
            behind = retriever.search(inside, question, _HITS * len(unseen))
            windows = stretches(corpus, Ranking((*found.items, *behind.items)))
        degraded = together([*degraded, *ranked.degraded])
    there = {turn_id for window in windows for turn_id in window.places}
    order = tuple(item for item in found.items if item.unit_id in there)  # others were deleted meanwhile
    return Ground(order, tuple(windows), _looks(order, windows, cues), degraded)


def _looks(ranked: Sequence[ScoredUnit], windows: Sequence[Stretch], cues: Mapping[str, float]) -> tuple[Look, ...]:
    of_session: dict[str, list[int]] = {}
    for number, window in enumerate(windows):
        of_session.setdefault(window.turns[0].session_id, []).append(number)
    looks: list[Look] = []
    for session_id, numbers in of_session.items():
        numbers.sort(key=lambda number: windows[number].best)
        for start in range(0, len(numbers), WINDOWS):
            some = tuple(numbers[start : start + WINDOWS])
            best = windows[some[0]].best
            looks.append(Look(session_id, some, best, share(ranked, best) + CUE * cues.get(session_id, 0.0)))
    return tuple(sorted(looks, key=lambda look: (-look.worth, look.best)))
