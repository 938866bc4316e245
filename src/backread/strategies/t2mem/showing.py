"""Evidence that no model writes when the question comes: index entries, and the best turns of sessions."""

from __future__ import annotations

from collections.abc import Sequence

from backread.construction.episode_ranking import Episode, turns_of
from backread.construction.episodes import entry_lines
from backread.rendering import Candidate
from backread.retrieval.base import Retriever
from backread.store.history import History, Scope
from backread.strategies.evidence import verbatim
from backread.types import Degradation, Entry, Evidence, Turn

__all__ = ["Shown", "best_turns", "entries_as_evidence"]

Shown = tuple[list[Candidate], list[Turn], tuple[Degradation, ...]]
"""Candidates, best first; the turns that were looked at; what the retriever had to do without."""

_LAST_SESSION = 0.3


def best_turns(
    history: History, retriever: Retriever, question: str, episodes: Sequence[Episode], *, rank: int = 0
) -> Shown:
    """The turns of sessions that fit the question, best first; a turn of a worse session must fit it better.

    Turns of all the sessions are ranked together. The scale of their scores is the retriever's: they are put between 0
    and 1, and the last session costs 0.3 of that.

    Args:
        history: whose sessions.
        retriever: ranks the turns.
        question: as it was asked.
        episodes: the sessions, best first.
        rank: of the first candidate.
    """
    if not episodes:
        return [], [], ()
    place = {episode.session_id: place for place, episode in enumerate(episodes)}
    corpus = history.corpus("turn", Scope(session_ids=place))
    ranking = retriever.search(corpus, question, max(1, corpus.size))
    units = corpus.find([item.unit_id for item in ranking.items])
    found = [turn for turns in corpus.turns_of(units) for turn in turns]
    score = {item.unit_id: item.score for item in ranking.items}
    low, high = min(score.values(), default=0.0), max(score.values(), default=0.0)

    def worth(turn: Turn) -> float:
        share = (score[turn.turn_id] - low) / (high - low) if high > low else 1.0
        return share - _LAST_SESSION * place[turn.session_id] / len(place)

    ordered = sorted(found, key=worth, reverse=True)
    candidates = [
        Candidate(verbatim(turn, rank + number), (episodes[place[turn.session_id]].number, turn.position))
        for number, turn in enumerate(ordered)
    ]
    return candidates, ordered, ranking.degraded


def entries_as_evidence(history: History, retriever: Retriever, question: str, episodes: Sequence[Episode]) -> Shown:
    """The entries of sessions, best first; of a session without one its best turns."""
    candidates: list[Candidate] = []
    looked_at: list[Turn] = []
    degraded: tuple[Degradation, ...] = ()
    for episode in episodes:
        if episode.entry is None:
            lines, turns, short = best_turns(history, retriever, question, [episode], rank=len(candidates))
            candidates += lines
            degraded += short
        else:
            turns = turns_of(history, episode)
            candidates.append(Candidate(_summary(episode.entry, len(candidates)), (episode.number, 0)))
        looked_at += turns
    return candidates, looked_at, degraded


def _summary(entry: Entry, rank: int) -> Evidence:
    """An entry as a line of evidence. It rests on the turns that its lines name, on the whole session without any."""
    lines = entry_lines(entry.data)
    named = {turn_id for line in lines for turn_id in line.turn_ids}
    sources = tuple(source for source in entry.sources if not named or source.turn_id in named)
    return Evidence(
        text="\n".join(line.text for line in lines),
        kind="summary",
        sources=sources,
        rank=rank,
        time=entry.said_at,
        session_id=str(entry.data["session_id"]),
    )
