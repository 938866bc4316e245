"""Turns as callers get them: hits of a search, with repetitions of the same words under one, and an export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from backread.errors import NotFoundError
from backread.messages import export_message
from backread.retrieval.base import Retriever
from backread.store.history import History, Scope
from backread.store.layout import UNKNOWN_TIME
from backread.types import Degradation, Hit, Hits, Ranking, Turn

__all__ = ["exported", "grouped_hits", "turns_still_there"]


def grouped_hits(history: History, scope: Scope, retriever: Retriever, query: str, top_k: int, *, deep: bool) -> Hits:
    """The `top_k` best different turns in scope, best first.

    Args:
        history: whose turns.
        scope: which of them; turns of unknown time that it leaves out are counted in `degraded`.
        retriever: ranks them.
        query: what to look for.
        top_k: hits at most.
        deep: rank some more than are asked for; not worth it where each costs a model's reading.
    """
    degraded: tuple[Degradation, ...] = ()
    if scope.after or scope.before or history.as_of:
        everything = replace(scope, after=None, before=None)
        # Of the whole record: a view with `as_of` has left the undated ones out already.
        undated = int((history.now().corpus("turn", everything).said_us == UNKNOWN_TIME).sum())
        if undated:
            degraded = (Degradation("time", "turns of unknown time are left out", undated),)
    corpus = history.corpus("turn", scope)
    depth = max(50, 2 * top_k) if deep else 2 * top_k
    while True:
        ranking = retriever.search(corpus, query, depth)
        hits = _grouped(ranking, turns_still_there(history, [item.unit_id for item in ranking.items]))
        if len(hits) >= top_k or len(ranking.items) < depth:
            return Hits(hits[:top_k], (*degraded, *ranking.degraded))
        depth *= 4  # the places were taken by repetitions: look deeper


def turns_still_there(history: History, turn_ids: Sequence[str]) -> dict[str, Turn]:
    """Turns by id; those that were deleted since their ids were found are left out."""
    try:
        return dict(zip(turn_ids, history.turns_by_id(turn_ids), strict=True))
    except NotFoundError:
        half = len(turn_ids) // 2
        if not half:
            return {}
        return {**turns_still_there(history, turn_ids[:half]), **turns_still_there(history, turn_ids[half:])}


def exported(history: History) -> Iterator[dict[str, Any]]:
    """All turns of a view as messages, in order of arrival, each after the one it replaces."""
    for turn in history.arrivals():
        older = turns_still_there(history, [turn.supersedes] if turn.supersedes else [])
        replaced = next((found.external_id or found.turn_id for found in older.values()), None)
        yield export_message(turn, user_id=history.user_id, supersedes=replaced)


def _grouped(ranking: Ranking, turns: Mapping[str, Turn]) -> tuple[Hit, ...]:
    """The ranked turns, best first; what a speaker said again in the same words stands with its best place."""
    said: dict[tuple[str, str], tuple[float, list[Turn]]] = {}
    for item in ranking.items:
        if (turn := turns.get(item.unit_id)) is not None:
            said.setdefault((turn.name, turn.text), (item.score, []))[1].append(turn)
    return tuple(Hit(best, score, tuple(also)) for score, (best, *also) in said.values())
