"""The sessions of a history in the order a question looks at them: by their entries, as they are where not built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from backread.construction.ledger import standing
from backread.construction.sessions import together
from backread.retrieval.base import Retriever
from backread.store.history import History, Scope
from backread.types import Degradation, Entry, Ranking, ScoredUnit, Turn

__all__ = ["Entries", "Episode", "Ranked", "rank_episodes", "turns_of"]


class Entries(NamedTuple):
    """Where the entries of a design are kept: strategy and kind, and the recipe of its ledger."""

    strategy: str
    kind: str
    recipe: str


@dataclass(frozen=True, slots=True)
class Episode:
    """A session as the question sees it.

    Attributes:
        number: its 1-based place in the history: i_k and s_k of the paper.
        session_id: which session.
        entry: its index entry; None where it is looked at as it is.
        score: None when the retriever found nothing of the question in it.
    """

    number: int
    session_id: str
    entry: Entry | None
    score: float | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """All sessions, best first, and behind them those without a score, in history order.

    `items` are the ids of entries, of sessions where there is no entry, that have a score.
    """

    episodes: tuple[Episode, ...]
    items: tuple[ScoredUnit, ...]
    degraded: tuple[Degradation, ...]


def rank_episodes(history: History, retriever: Retriever, question: str, entries: Entries | None) -> Ranked:
    """Rank every session once for a question; equal scores stand in history order.

    Sessions whose entries are not up to date are ranked as raw sessions. Scores of entries and of sessions have
    different scales: where both occur, each is divided by the best of its kind, that of sessions over all sessions, so
    that an open session comes first when it is the best one among all of them.

    Args:
        history: whose sessions.
        retriever: ranks entries, and sessions.
        question: as it was asked; the paper searches by nothing else (equation 12).
        entries: where the entries are; None ranks all sessions raw.
    """
    numbers = {session.session_id: number for number, session in enumerate(history.sessions(), 1)}
    if entries is None:
        sessions, raw = _search(history, retriever, question)
        scores = {item.unit_id: item.score for item in raw.items}
        return _ranked([Episode(numbers[key], key, None, scores.get(key)) for key in sessions if key in numbers], raw)
    now = standing(history, entries.strategy, ledger=entries.kind, recipe=entries.recipe)
    own = {str(entry.data["session_id"]): entry for entry in history.entries(entries.strategy, entries.kind)}
    corpus = history.corpus((entries.strategy, entries.kind))
    found = retriever.search(corpus, question, max(1, corpus.size))
    scores = {item.unit_id: item.score for item in found.items}
    built = {key: own[key] for key in now.built if key in own}
    left = [key for key in (*now.built, *now.unbuilt) if key not in built]
    if not left:
        made = [Episode(numbers[key], key, entry, scores.get(entry.entry_id)) for key, entry in built.items()]
        return _ranked(made, found)
    _, raw = _search(history, retriever, question)
    of_entries = _shares(scores, (entry.entry_id for entry in built.values()))
    of_sessions = _shares({item.unit_id: item.score for item in raw.items})
    made = [Episode(numbers[key], key, entry, of_entries.get(entry.entry_id)) for key, entry in built.items()]
    made += [Episode(numbers[key], key, None, of_sessions.get(key)) for key in left if key in numbers]
    return _ranked(made, found, raw)


def turns_of(history: History, episode: Episode) -> list[Turn]:
    """The visible turns of an episode's session, in order."""
    return list(history.turns(Scope(session_ids=[episode.session_id])))


def _search(history: History, retriever: Retriever, question: str) -> tuple[list[str], Ranking]:
    """All visible sessions by id, and the ranking of them as they are."""
    corpus = history.corpus("session", Scope())
    return corpus.unit_ids(range(corpus.size)), retriever.search(corpus, question, max(1, corpus.size))


def _shares(scores: Mapping[str, float], ids: Iterable[str] | None = None) -> dict[str, float]:
    """Each score as a share of the best one of `ids`, or of all."""
    chosen = {key: scores[key] for key in (scores if ids is None else ids) if key in scores}
    best = max(chosen.values(), default=1.0)
    return {key: score / best for key, score in chosen.items()}


def _ranked(made: Iterable[Episode], *found: Ranking) -> Ranked:
    made = sorted(made, key=lambda episode: episode.number)
    scored = sorted((episode for episode in made if episode.score), key=lambda episode: -(episode.score or 0.0))
    items = tuple(
        ScoredUnit(episode.entry.entry_id if episode.entry else episode.session_id, episode.score or 0.0)
        for episode in scored
    )
    rest = [episode for episode in made if not episode.score]
    return Ranked((*scored, *rest), items, together([item for ranking in found for item in ranking.degraded]))
