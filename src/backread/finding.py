"""Turns as callers get them: hits of a search, with repetitions of the same words under one, and an export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from backread.errors import NotFoundError
from backread.messages import export_message
from backread.retrieval.base import Retriever
from backread.store.history import History, Scope
from backread.store.layout import UNKNOWN_TIME
from backread.store.rows import attachment_bytes
from backread.types import Attachments, Degradation, Hit, Hits, Ranking, Turn

__all__ = ["exported", "grouped_hits", "turns_still_there"]


def grouped_hits(
    history: History,
    scope: Scope,
    retriever: Retriever,
    query: str,
    top_k: int,
    *,
    deep: bool,
    most_bytes: int | None = None,
    attachments: Attachments = "full",
) -> Hits:
    """The `top_k` best different turns in scope, best first.

    Args:
        history: whose turns.
        scope: which of them; turns of unknown time that it leaves out are counted in `degraded`.
        retriever: ranks them.
        query: what to look for.
        top_k: hits at most.
        deep: rank some more than are asked for; not worth it where each costs a model's reading.
        most_bytes: nothing more is read once so much was; what is left out is said in `degraded`. The best is always
            there.
        attachments: how they are given; in full they count as bytes.
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
        hits, left_out = _grouped(ranking, history, top_k, most_bytes, attachments)
        if left_out:
            told = f"more than {most_bytes:,} bytes were found; what is ranked lower is left out"
            degraded = (*degraded, Degradation("size", told, left_out))
        if left_out or len(hits) >= top_k or len(ranking.items) < depth:
            return Hits(hits[:top_k], (*degraded, *ranking.degraded))
        depth *= 4  # the places were taken by repetitions: look deeper


def turns_still_there(
    history: History, turn_ids: Sequence[str], *, attachments: Attachments = "full"
) -> dict[str, Turn]:
    """Turns by id; those that were deleted since their ids were found are left out."""
    try:
        return dict(zip(turn_ids, history.turns_by_id(turn_ids, attachments=attachments), strict=True))
    except NotFoundError:
        half = len(turn_ids) // 2
        if not half:
            return {}
        halves = (turn_ids[:half], turn_ids[half:])
        first, second = (turns_still_there(history, part, attachments=attachments) for part in halves)
        return {**first, **second}


def exported(history: History) -> Iterator[dict[str, Any]]:
    """All turns of a view as messages, in order of arrival, each after the one it replaces."""
    for turn in history.arrivals():
        older = turns_still_there(history, [turn.supersedes] if turn.supersedes else [])
        replaced = next((found.external_id or found.turn_id for found in older.values()), None)
        yield export_message(turn, user_id=history.user_id, supersedes=replaced)


def _grouped(
    ranking: Ranking, history: History, top_k: int, most_bytes: int | None, attachments: Attachments
) -> tuple[tuple[Hit, ...], int]:
    """The ranked turns, best first, what a speaker said again in the same words with its best place; how many are left.

    More than `top_k` come only as repetitions of those are looked for.
    """
    said: dict[tuple[str, str], tuple[float, list[Turn]]] = {}
    scores = {item.unit_id: item.score for item in ranking.items}
    read = left = 0
    for number, turn in enumerate(history.still_there(list(scores), attachments=attachments)):
        if most_bytes is not None:
            read += _bytes(turn, full=attachments == "full")
            if said and read > most_bytes:
                left = len(scores) - number
                break
        known = said.get((turn.name, turn.text))
        if known is not None:
            known[1].append(replace(turn, text=known[1][0].text))  # the same words: kept once
        elif len(said) < top_k:
            said[turn.name, turn.text] = (scores[turn.turn_id], [turn])
    return tuple(Hit(best, score, tuple(also)) for score, (best, *also) in said.values()), left


def _bytes(turn: Turn, *, full: bool) -> int:
    texts = len(turn.text.encode("utf-8", "surrogatepass")) + len((turn.caption or "").encode("utf-8", "surrogatepass"))
    return texts + sum(len(attachment_bytes(item)) for item in turn.attachments) if full else texts
