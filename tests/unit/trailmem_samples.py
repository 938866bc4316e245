"""A history of short sessions, and a retriever that gives the scores it is told, for TrailMem's tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from backread.store.corpus import Corpus
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.types import Degradation, Ranking, ScoredUnit, TurnDraft

__all__ = ["NOON", "Given", "fill"]

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Given:
    """A retriever with a score for each word: of a turn counts its first word, of an entry its session."""

    name = "given"
    config: Mapping[str, str] = {"retriever": "given"}

    def __init__(self, scores: Mapping[str, float], degraded: tuple[Degradation, ...] = ()) -> None:
        self._scores, self._degraded = scores, degraded

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """As told."""
        ids = corpus.unit_ids(range(corpus.size))
        if corpus.unit == "turn":
            words = [turns[0].text.split()[0] for turns in corpus.turns_of(range(corpus.size))]
        else:
            words = ids
        found = [
            ScoredUnit(unit_id, self._scores[word])
            for unit_id, word in zip(ids, words, strict=True)
            if word in self._scores
        ]
        return Ranking(tuple(sorted(found, key=lambda item: -item.score)[:top_k]), self._degraded)


def fill(store: SqliteStore, sessions: Mapping[str, Iterable[str]], user_id: str = "ann") -> History:
    """The history of these sessions, a day apart, their texts an hour apart."""
    for day, (session_id, texts) in enumerate(sessions.items()):
        drafts = [
            TurnDraft(session_id, "user", text, speaker="Ann", said_at=NOON + timedelta(days=day, hours=hour))
            for hour, text in enumerate(texts)
        ]
        store.append(user_id, drafts)
    return History(store, user_id)
