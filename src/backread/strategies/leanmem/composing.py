"""Evidence from what was found: LeanMem, section 3.4, "composes the retrieved memories according to their roles".

A profile is one line, an event is one line with its timeline, a record is its gist, or the turns it points to where
details are wanted. Lines are chosen by score; they are shown in the order of the history, as for every design, so that
events stand in order of time, an evolved one where its latest state was told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from backread.errors import NotFoundError
from backread.rendering import Candidate
from backread.retrieval.base import Retriever
from backread.store.history import History, Scope
from backread.strategies.evidence import verbatim
from backread.strategies.leanmem.finding import FoundEntry, FoundTurn, memory_text
from backread.strategies.leanmem.matching import Constraints, match
from backread.strategies.leanmem.planning import Plan
from backread.types import Entry, Evidence, Source, Turn

__all__ = ["Composed", "compose", "entry_text", "wants_detail"]


@dataclass(frozen=True, slots=True)
class Composed:
    """What may be shown.

    Attributes:
        candidates: in the order in which a budget takes them.
        turns: ids of the turns behind them, best first.
        expanded: records that are shown turn by turn.
    """

    candidates: Sequence[Candidate]
    turns: tuple[str, ...]
    expanded: int


@dataclass
class _Lines:
    """Lines with their rank: every memory has one before any has a second."""

    first: list[tuple[float, Candidate]] = field(default_factory=list)
    more: list[tuple[float, Candidate]] = field(default_factory=list)

    def ranked(self) -> list[Candidate]:
        return [line for lines in (self.first, self.more) for _, line in sorted(lines, key=lambda item: -item[0])]


def compose(
    history: History,
    retriever: Retriever,
    question: str,
    plan: Plan,
    entries: Sequence[FoundEntry],
    raw: Sequence[FoundTurn],
) -> Composed:
    """The evidence of a plan; entries of which a turn was deleted meanwhile are left out.

    Args:
        history: whose turns.
        retriever: puts the turns of records in order.
        question: what is asked.
        plan: says whether details are wanted.
        entries: best first.
        raw: turns of sessions without entries, best first.
    """
    pointed = {found.entry.entry_id: _turns(history, found.entry.data["turns"]) for found in entries}
    kept = [found for found in entries if pointed[found.entry.entry_id]]
    wide = [found for found in kept if found.kind == "record" and wants_detail(plan, found.entry)]
    spans = {found.entry.entry_id: pointed[found.entry.entry_id] for found in wide}
    place = _places(history, retriever, question, spans)
    number = {session.session_id: count for count, session in enumerate(history.sessions())}
    lines = _Lines()
    for found in kept:
        turns = pointed[found.entry.entry_id]
        if found.entry.entry_id in spans:
            best = sorted(turns, key=lambda turn: place[turn.turn_id])
            whole = [(found.score, Candidate(verbatim(turn, 0), _order(turn, number))) for turn in best]
            lines.first += whole[:1]
            lines.more += whole[1:]
        else:
            lines.first.append((found.score, Candidate(_line(found, turns), _order(turns[0], number))))
    lines.first += [(found.score, Candidate(verbatim(found.turn, 0), _order(found.turn, number))) for found in raw]
    behind = [turn.turn_id for found in kept for turn in pointed[found.entry.entry_id]]
    behind += [found.turn.turn_id for found in raw]
    return Composed(_numbered(lines.ranked()), tuple(dict.fromkeys(behind)), len(wide))


def wants_detail(plan: Plan, entry: Entry) -> bool:
    """Whether a record is to be read word for word: the plan says so, or its gist names nothing that is asked for."""
    named = Constraints(entity=plan.constraints.entity, attribute=plan.constraints.attribute)
    return plan.detail or (bool(named.all) and not match(named, str(entry.data["gist"]), ()))


def entry_text(entry: Entry, kind: str) -> str:
    """An entry as it is shown, its role in front."""
    data = entry.data
    if kind == "profile":
        return f"[profile] {data['attribute']}: {data['value']}"
    if kind == "event":
        return f"[event] {_dated(data['topic'], data['state'], data['anchor'])}{_timeline(entry)}"
    return f"[record] {data['gist']}" if kind == "record" else f"[summary] {memory_text(entry, kind)}"


def _dated(topic: str, state: str, anchor: str) -> str:
    said = f"{topic}: {state}" if topic else state
    return f"{said} ({anchor})" if anchor else said


def _timeline(entry: Entry) -> str:
    """The states an event went through, oldest first; nothing for one that was told of once."""
    items: Sequence[Mapping[str, str]] = entry.data.get("timeline", ())
    told = [f"{item['t'] or 'date unknown'}: {item['state']}" for item in items]
    return f" | timeline: {'; '.join(told)}" if told else ""


def _line(found: FoundEntry, turns: Sequence[Turn]) -> Evidence:
    entry, first = found.entry, turns[0]
    return Evidence(
        text=entry_text(entry, found.kind),
        kind="summary" if found.kind in ("record", "summary") else "rewrite",
        sources=tuple(Source(turn.turn_id, 0, len(turn.text)) for turn in turns),
        rank=0,
        speaker=entry.data["who"] if found.kind == "profile" else None,
        time=first.time,
        received=first.received,
        session_id=first.session_id,
    )


def _turns(history: History, turn_ids: Sequence[str]) -> list[Turn]:
    """The turns of an entry in its own order; none when one is gone."""
    try:
        return history.turns_by_id(turn_ids)
    except NotFoundError:
        return []


def _order(turn: Turn, number: Mapping[str, int]) -> tuple[int, int]:
    return number.get(turn.session_id, len(number)), turn.position


def _places(
    history: History, retriever: Retriever, question: str, spans: Mapping[str, Sequence[Turn]]
) -> dict[str, int]:
    """The place of each turn of some records in the ranking of their sessions; those it doesn't name stand behind."""
    turns = [turn for own in spans.values() for turn in own]
    if not turns:
        return {}
    corpus = history.corpus("turn", Scope(session_ids={turn.session_id for turn in turns}))
    ranking = retriever.search(corpus, question, max(1, corpus.size))
    found = {item.unit_id: place for place, item in enumerate(ranking.items)}
    return {turn.turn_id: found.get(turn.turn_id, len(found)) for turn in turns}


def _numbered(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with their places as ranks, and behind their order, so that lines of one turn keep theirs."""
    return [Candidate(replace(line.evidence, rank=rank), (*line.order, rank)) for rank, line in enumerate(candidates)]
