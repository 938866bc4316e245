"""A recall and an answer as the page shows them: steps, what was found, lines with their turns, citations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from backread.finding import turns_still_there
from backread.memory import Memory
from backread.server.web.paths import session_path, turn_path
from backread.server.web.wording import beginning
from backread.store.history import History
from backread.strategies.registry import STRATEGIES
from backread.types import Answer, Citation, Entry, Evidence, Recall, Step, Turn
from backread.wire import plain

__all__ = ["Candidate", "MemoryLine", "Said", "StepShown", "Words", "answer_words", "candidates", "said", "step_shown"]

RANKED: Final = 30
"""What was found is shown down to this rank."""

_PREVIEW: Final = 200
_MARK: Final = re.compile(r"\[(\d{1,4})\]")
_WORDS: Final = ("question", "query")
_PROSE: Final = ("reasoning", "text")
_TOKENS: Final = ("input_tokens", "output_tokens")
_SHOWN: Final = frozenset({"step", "memory", "sources", "action", "entry_id", "fault", *_WORDS, *_PROSE, *_TOKENS})


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """A line of memory that a step wrote, and the ids of the turns it names."""

    text: str
    turn_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepShown:
    """A step of a trace.

    Attributes:
        query: what it asked or looked for, "" when it didn't.
        action: what it decided to do next.
        prose: what a model wrote on the way.
        memory: the lines it remembered; None for steps that don't.
        fault: what was wrong with it.
        input_tokens, output_tokens: of its calls, None when it made none or they are unknown.
        facts: everything else it tells, by name.
    """

    name: str
    seconds: float | None
    query: str
    action: str
    prose: str
    memory: tuple[MemoryLine, ...] | None
    fault: str
    input_tokens: int | None
    output_tokens: int | None
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that was found: how it scored, where it is, how it begins, and whether it became evidence."""

    score: float
    href: str
    title: str
    text: str
    shown: bool
    is_turn: bool


@dataclass(frozen=True, slots=True)
class Words:
    """A stretch of an answer, and the citation it is the mark of."""

    text: str
    citation: Citation | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A citation with the turn it names; None when that was deleted meanwhile."""

    citation: Citation
    turn: Turn | None
    line: Evidence


def step_shown(step: Step) -> StepShown:
    """A step by what people look for in it; whatever a strategy tells besides is kept as it is."""
    detail: Mapping[str, Any] = step.detail
    number = detail.get("step")
    action = str(detail.get("action") or "")
    if action and detail.get("entry_id") is not None:
        action = f"{action}({detail['entry_id']})"
    return StepShown(
        name=step.name if number is None else f"{step.name}, step {number}",
        seconds=step.seconds,
        query=next((str(detail[name]) for name in _WORDS if detail.get(name)), ""),
        action=action,
        prose=next((str(detail[name]) for name in _PROSE if detail.get(name)), ""),
        memory=_memory(detail),
        fault=str(detail.get("fault") or ""),
        input_tokens=_tokens(detail, "input_tokens"),
        output_tokens=_tokens(detail, "output_tokens"),
        facts=tuple((_label(name), _fact(value)) for name, value in detail.items() if name not in _SHOWN),
    )


def _memory(detail: Mapping[str, Any]) -> tuple[MemoryLine, ...] | None:
    lines = detail.get("memory")
    if not isinstance(lines, list | tuple):
        return None
    sources = detail.get("sources") or [()] * len(lines)
    return tuple(MemoryLine(str(line), tuple(map(str, ids))) for line, ids in zip(lines, sources, strict=True))


def _tokens(detail: Mapping[str, Any], name: str) -> int | None:
    value = detail.get(name)
    return value if isinstance(value, int) else None


def _label(name: str) -> str:
    return name.replace("_", " ")


def _fact(value: object) -> str:
    """A value for people: nested ones as name and value, lists with commas."""
    given = plain(value)
    if isinstance(given, dict):
        return ", ".join(f"{_label(name)} {_fact(item)}" for name, item in given.items())
    if isinstance(given, list):
        return ", ".join(_fact(item) for item in given) or "none"
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, float):
        return f"{given:.4g}"
    return "none" if given is None else f"{given:,}" if isinstance(given, int) else str(given)


def candidates(memory: Memory, history: History, recall: Recall) -> list[Candidate]:
    """The best of what was found, in order; what was deleted meanwhile is left out."""
    ranked = recall.ranked[:RANKED]
    turns = turns_still_there(history, [item.unit_id for item in ranked], attachments="none")
    sessions = {session.session_id for session in history.sessions()}
    missing = [item.unit_id for item in ranked if item.unit_id not in turns and item.unit_id not in sessions]
    entries = _entries(memory, history.user_id, recall.strategy, missing)
    cited = {source.turn_id for line in recall.evidence for source in line.sources}
    places = {line.session_id for line in recall.evidence}
    found = []
    for item in ranked:
        unit_id = item.unit_id
        if turn := turns.get(unit_id):
            href, title, text, shown = turn_path(history.user_id, unit_id), turn.name, turn.text, unit_id in cited
        elif unit_id in sessions:
            href, title, text, shown = session_path(history.user_id, unit_id), unit_id, "", unit_id in places
        elif entry := entries.get(unit_id):
            first = entry.sources[0].turn_id if entry.sources else None
            href = "" if first is None else turn_path(history.user_id, first)
            shown = any(source.turn_id in cited for source in entry.sources)
            title, text = entry.kind, entry.index_text
        else:
            continue
        found.append(Candidate(item.score, href, title, beginning(text, _PREVIEW), shown, unit_id not in sessions))
    return found


def _entries(memory: Memory, user_id: str, strategy: str, wanted: Sequence[str]) -> dict[str, Entry]:
    """Entries by id, of all designs of the same family: some share what they built."""
    if not wanted:
        return {}
    family = strategy.partition(":")[0]
    named = [name for name in STRATEGIES if name.partition(":")[0] == family]
    found = (entry for name in named for entry in memory.entries(user_id=user_id, strategy=name))
    return {entry.entry_id: entry for entry in found if entry.entry_id in set(wanted)}


def answer_words(answer: Answer) -> list[Words]:
    """The text of an answer, its marks by themselves."""
    cited = {citation.number: citation for citation in answer.citations}
    words: list[Words] = []
    at = 0
    for match in _MARK.finditer(answer.text):
        citation = cited.get(int(match[1]))
        if citation is not None:
            words += [Words(answer.text[at : match.start()]), Words(match[0], citation)]
            at = match.end()
    return [*words, Words(answer.text[at:])]


def said(answer: Answer, history: History) -> list[Said]:
    """The citations of an answer, each with its turn."""
    turns = turns_still_there(
        history, list(dict.fromkeys(citation.turn_id for citation in answer.citations)), attachments="none"
    )
    evidence = answer.recall.evidence
    return [Said(item, turns.get(item.turn_id), evidence[item.number - 1]) for item in answer.citations]
