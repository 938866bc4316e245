"""Evidence as the answerer sees it: fenced, numbered, dated. The only place that counts a budget.

    <evidence id="3f9c2a">
    # 2023-05-08 13:56
    [1] Caroline: I went to a support group yesterday.
    # 2023-05-25 19:10
    [2] Melanie: That's great!
    </evidence id="3f9c2a">

A heading gives the time of the lines below it; lines keep the order of the history. Every line names its speaker, an
excerpt is marked and names its turn, and continuation lines are indented, so that stored text can't pass for another
line or close the fence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backread.text.analysis import query_terms, tokens
from backread.text.excerpts import excerpt
from backread.text.fencing import fence, quote, safe
from backread.text.times import format_time
from backread.text.tokens import TokenCounter
from backread.types import Evidence, Source

__all__ = ["Candidate", "Fitted", "fit", "render"]

_WIDEST_NUMBER = "[9999] "
_SMALLEST_EXCERPT = 12
"""Tokens under which an excerpt says nothing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line that may be shown. `order` is its place in the history; lines are shown by it."""

    evidence: Evidence
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fitted:
    """What fits: evidence in the order shown, the block, its tokens, and whether nothing fitted though there was some."""

    evidence: tuple[Evidence, ...]
    rendered: str
    tokens: int
    overflow: bool


def render(evidence: Sequence[Evidence]) -> str:
    """The block for lines in the order given; "" for none."""
    if not evidence:
        return ""
    lines: list[str] = []
    heading = None
    for number, item in enumerate(evidence, 1):
        if _heading(item) != heading:
            heading = _heading(item)
            lines.append(heading)
        lines.append(f"[{number}] {_line(item)}")
    return fence(lines, label="evidence")


def fit(candidates: Sequence[Candidate], budget: int | None, counter: TokenCounter, question: str) -> Fitted:
    """The lines that fit a budget, best first, shown in the order of the history.

    Candidates come in rank order. The first that doesn't fit is cut around the words of the question, to half of what
    is left while others follow, so that one long turn can't take the place of all others; after it, whole lines that
    still fit are added. `budget` None shows everything.
    """
    if budget is None:
        chosen = list(candidates)
    elif budget <= 0:
        return Fitted((), "", 0, False)
    else:
        chosen = _choose(candidates, budget, counter, question)
    while True:
        shown = tuple(item.evidence for item in sorted(chosen, key=lambda item: item.order))
        rendered = render(shown)
        total = counter.count(rendered)
        if budget is None or total <= budget:
            return Fitted(shown, rendered, total, overflow=bool(candidates) and not shown)
        chosen.pop()  # line costs are summed, the block is counted whole: the worst ranked line pays for a difference


def _choose(candidates: Sequence[Candidate], budget: int, counter: TokenCounter, question: str) -> list[Candidate]:
    left = budget - counter.count(fence([], label="evidence"))
    chosen: list[Candidate] = []
    headings: set[str] = set()
    cut = False
    for place, candidate in enumerate(candidates):
        heading = _heading(candidate.evidence)
        extra = 0 if heading in headings else counter.count(heading + "\n")
        cost = extra + counter.count(f"{_WIDEST_NUMBER}{_line(candidate.evidence)}\n")
        if cost > left and not cut:
            follow = place + 1 < len(candidates)
            cut = True
            shorter = _cut(candidate.evidence, (left - extra) // (2 if follow else 1), counter, question)
            if shorter is None:
                continue
            candidate = replace(candidate, evidence=shorter)
            cost = extra + counter.count(f"{_WIDEST_NUMBER}{_line(shorter)}\n")
        if cost <= left:
            left -= cost
            headings.add(heading)
            chosen.append(candidate)
        elif left < _SMALLEST_EXCERPT:
            break
    return chosen


def _cut(item: Evidence, room: int, counter: TokenCounter, question: str) -> Evidence | None:
    """The line shortened to `room` tokens around the question's words; None when that leaves nothing to read."""
    empty = replace(item, text="", caption=None, cut=True)
    room -= counter.count(f"{_WIDEST_NUMBER}{_line(empty, of=len(item.text))}\n")
    if room < _SMALLEST_EXCERPT:
        return None
    wanted = {term.term for term in query_terms(question) if not term.stop}
    present = {form for token in tokens(item.text) for form in (token.stem, f"={token.surface}")}
    start, end = excerpt(item.text, wanted & present, max_tokens=room, count=counter.count)
    if start == end:
        return None
    source = item.sources[0] if item.sources else None
    sources = (Source(source.turn_id, source.start + start, source.start + end),) if source else ()
    return replace(item, text=item.text[start:end], caption=None, sources=sources, cut=True)


def _heading(item: Evidence) -> str:
    return f"# {format_time(item.time)}"


def _line(item: Evidence, of: int | None = None) -> str:
    """A line without its number."""
    who = f"{item.speaker}: " if item.speaker else ""
    image = f" [image: {item.caption}]" if item.caption else ""
    mark = ""
    if item.cut:
        turn_id = item.sources[0].turn_id if item.sources else "?"
        mark = f" […cut from turn {turn_id}]" if of is None else f" […cut from turn {turn_id}]…"
    return quote(safe(f"{who}{item.text}{image}{mark}"))
