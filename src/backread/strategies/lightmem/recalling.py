"""What LightMem shows for a question: the best entries, and the best turns that no entry stands for yet."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from backread.errors import NotFoundError
from backread.rendering import Candidate
from backread.retrieval.base import Retriever
from backread.store.corpus import Corpus
from backread.store.history import History
from backread.strategies.evidence import verbatim
from backread.strategies.lightmem.building import Shelf, stands
from backread.strategies.lightmem.facts import names_speaker
from backread.strategies.lightmem.pieces import EXTRACT
from backread.types import Degradation, Entry, Evidence, Ranking, ScoredUnit, Turn

__all__ = ["Found", "find"]

DEPTH = 100
"""Turns of the whole record that are ranked to find those without an entry among them."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, best first.

    Attributes:
        candidates: lines, in rank order.
        items: entry ids and turn ids with their scores.
        turn_ids: the turns behind the lines.
        raw: turns of the record that no entry stands for.
        degraded: what the rankings lacked.
    """

    candidates: tuple[Candidate, ...]
    items: tuple[ScoredUnit, ...]
    turn_ids: tuple[str, ...]
    raw: int
    degraded: tuple[Degradation, ...]


class _Hit(NamedTuple):
    score: float
    entry: Entry | None
    unit_id: str


def find(history: History, retriever: Retriever, question: str, shelf: Shelf, *, unit: str, top_k: int) -> Found:
    """The `top_k` best of entries and of turns without an entry.

    Entries count as long as their batch stands in this view of the history; turns that are in no such batch are ranked
    as they are, among all turns of the record. Where there are both, scores of each kind are divided by the best of it,
    over all turns for turns: an open turn comes first when, and only when, it is the best of the whole record.

    Args:
        history: where to look.
        retriever: ranks entries, and turns.
        question: as it was asked.
        shelf: where the entries are.
        unit: "user_turn" where memory is made of what people say, else "turn".
        top_k: units at most.
    """
    _, _, book = shelf.book(history)
    standing = stands(history, shelf, book)
    shown = {key for row in standing.values() for key in row.entries}
    entries = history.corpus((shelf.strategy, shelf.kind))
    depth = top_k if len(standing) == len(book.batches) else max(1, entries.size)
    ranked = retriever.search(entries, question, depth)
    items = [item for item in ranked.items if item.unit_id in shown][:top_k]
    turns = history.corpus("user_turn" if unit == "user_turn" else "turn")
    covered = set(turns.find([key for row in standing.values() for key in row.turn_ids]))
    raw = _Raw((), 0.0, ())
    if len(covered) < turns.size:
        raw = _raw(turns, retriever, question, covered)
    by_id = {entry.entry_id: entry for entry in entries.entries(entries.find([item.unit_id for item in items]))}
    best = items[0].score if items and raw.items else 1.0
    hits = [_Hit(i.score / best, by_id[i.unit_id], i.unit_id) for i in items if i.unit_id in by_id]
    over = raw.best if items else 1.0
    hits += [_Hit(i.score / over, None, i.unit_id) for i in raw.items]
    hits = sorted(hits, key=lambda hit: (-hit.score, hit.entry is not None))[:top_k]
    return _found(history, hits, turns.size - len(covered), (*ranked.degraded, *raw.degraded))


class _Raw(NamedTuple):
    """Turns of the record that no entry stands for, best first, and the best score of any turn."""

    items: tuple[ScoredUnit, ...]
    best: float
    degraded: tuple[Degradation, ...]


def _raw(turns: Corpus, retriever: Retriever, question: str, covered: Set[int]) -> _Raw:
    ranked: Ranking = retriever.search(turns, question, DEPTH)
    ids = [item.unit_id for item in ranked.items]
    there = [item for item in ranked.items if (found := turns.find([item.unit_id])) and found[0] not in covered]
    return _Raw(tuple(there), ranked.items[0].score if ids else 1.0, ranked.degraded)


def _found(history: History, hits: Sequence[_Hit], raw: int, degraded: tuple[Degradation, ...]) -> Found:
    """The lines of hits, each at the place of the first turn it rests on; what was deleted meanwhile is left out."""
    wanted = [[s.turn_id for s in hit.entry.sources] if hit.entry else [hit.unit_id] for hit in hits]
    turns = {turn.turn_id: turn for turn in _there(history, list(dict.fromkeys(id_ for ids in wanted for id_ in ids)))}
    corpus = history.corpus("turn")
    candidates: list[Candidate] = []
    items: list[ScoredUnit] = []
    for hit, ids in zip(hits, wanted, strict=True):
        place = corpus.find(ids[:1])
        if not place or any(turn_id not in turns for turn_id in ids):
            continue
        line = _line(hit.entry, turns[ids[0]], len(items))
        candidates.append(Candidate(line, (place[0], line.sources[0].start, len(items))))
        items.append(ScoredUnit(hit.unit_id, hit.score))
    return Found(tuple(candidates), tuple(items), tuple(turns), raw, degraded)


def _there(history: History, turn_ids: Sequence[str]) -> list[Turn]:
    try:
        return history.turns_by_id(turn_ids)
    except NotFoundError:  # one was deleted since the ranking
        if len(turn_ids) == 1:
            return []
        middle = len(turn_ids) // 2
        return _there(history, turn_ids[:middle]) + _there(history, turn_ids[middle:])


def _line(entry: Entry | None, turn: Turn, rank: int) -> Evidence:
    """A fact in the model's words; a piece, or a turn without an entry, as it was said."""
    if entry is None:
        return verbatim(turn, rank)
    if entry.kind == EXTRACT:
        whole, source = verbatim(turn, rank), entry.sources[0]
        text = turn.text[source.start : source.end]
        captioned = turn.caption is not None and not turn.text[: source.start].strip()  # it stands with the first piece
        return replace(
            whole,
            text=text,
            sources=(source,),
            caption=turn.caption if captioned else None,
            cut=text != turn.text,
        )
    fact, speaker = entry.data["fact"], entry.data["speaker"]
    return Evidence(
        text=fact,
        kind="rewrite",
        sources=entry.sources,
        rank=rank,
        speaker=None if names_speaker(fact, speaker) else speaker,
        time=entry.said_at,
        session_id=turn.session_id,
    )
