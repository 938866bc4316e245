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

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from backread.text.analysis import query_terms, tokens
from backread.text.excerpts import excerpt
from backread.text.fencing import fence, quote
from backread.text.times import format_time
from backread.text.tokens import TokenCounter
from backread.types import Degradation, Evidence, Recall, Source

__all__ = ["Candidate", "Fitted", "fit", "render", "shortened"]

_WIDEST_NUMBER = "[9999] "
_SMALLEST_EXCERPT = 12
"""Tokens under which an excerpt says nothing."""

_FURTHER_EXCERPT = 80
"""Tokens a line must get, mark and heading included, to be cut when another one was cut already."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line that may be shown. `order` is its place in the history; lines are shown by it."""

    evidence: Evidence
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fitted:
    """What fits: evidence in the order shown, the block, its tokens; `overflow` when nothing of what there was fits."""

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


def fit(
    candidates: Sequence[Candidate], budget: int | None, counter: TokenCounter, question: str, *, gaps: bool = True
) -> Fitted:
    """The lines that fit a budget, best first, shown in the order of the history.

    Candidates come in rank order. A line that doesn't fit is cut around the words of the question to half of what is
    left, so that one long turn can't take the place of all others; whole lines that still fit follow, further long
    ones are cut while that leaves something to read, and what remains in the end is the first excerpt's again. Without
    `gaps` nothing is added after the first line that doesn't fit. `budget` None shows everything.
    """
    if budget is None:
        chosen = list(candidates)
    elif budget <= 0:
        return Fitted((), "", 0, False)
    else:
        chosen = _choose(candidates, budget, counter, question, gaps)
    while True:
        shown = tuple(item.evidence for item in sorted(chosen, key=lambda item: item.order))
        rendered = render(shown)
        total = counter.count(rendered)
        if budget is None or total <= budget:
            return Fitted(shown, rendered, total, overflow=bool(candidates) and not shown)
        chosen.pop()  # line costs are summed, the block is counted whole: the worst ranked line pays for a difference


def shortened(recall: Recall, share: float, counter: TokenCounter) -> Recall:
    """A recall with the best-ranked share of its lines, said in `degraded`; the same recall for a share of 1."""
    if share >= 1:
        return recall
    keep = sorted(recall.evidence, key=lambda item: item.rank)[: int(len(recall.evidence) * share)]
    kept = {id(item) for item in keep}
    shown = tuple(item for item in recall.evidence if id(item) in kept)
    rendered = render(shown)
    left_out = Degradation(
        "window", "the model's context window holds only part of the evidence", len(recall.evidence) - len(shown)
    )
    return replace(
        recall,
        evidence=shown,
        rendered=rendered,
        tokens=counter.count(rendered),
        degraded=(*recall.degraded, left_out),
    )


def _choose(
    candidates: Sequence[Candidate], budget: int, counter: TokenCounter, question: str, gaps: bool
) -> list[Candidate]:
    """What is shown, in rank order."""
    left = budget - counter.count(fence([], label="evidence"))
    chosen: list[Candidate] = []
    headings: set[str] = set()
    first_cut: tuple[int, Evidence] | None = None
    for place, candidate in enumerate(candidates):
        item = candidate.evidence
        cost = _cost(item, headings, counter)
        if cost > left:
            alone = not gaps or place + 1 == len(candidates)
            room = left if alone and first_cut is None else left // 2
            shorter = None
            if first_cut is None or room >= _FURTHER_EXCERPT:
                shorter = _cut(item, room, headings, counter, question)
            if shorter is not None:
                first_cut = first_cut or (len(chosen), item)
                cost = _cost(shorter, headings, counter)
                candidate = replace(candidate, evidence=shorter)
        if cost <= left:
            left -= cost
            headings.add(_heading(item))
            chosen.append(candidate)
        elif left < _SMALLEST_EXCERPT:
            break
        if first_cut is not None and not gaps:
            break
    if first_cut is not None:
        place, item = first_cut
        longer = _cut(item, left + _cost(chosen[place].evidence, headings, counter), headings, counter, question)
        if longer is not None:
            chosen[place] = replace(chosen[place], evidence=longer)
    return chosen


def _cost(item: Evidence, headings: Collection[str], counter: TokenCounter) -> int:
    """Tokens of a line with the widest number, and of its heading unless it is there already."""
    heading = _heading(item)
    extra = 0 if heading in headings else counter.count(f"{heading}\n")
    return extra + counter.count(f"{_WIDEST_NUMBER}{_line(item)}\n")


def _cut(item: Evidence, left: int, headings: Collection[str], counter: TokenCounter, question: str) -> Evidence | None:
    """The line shortened around the question's words until it costs at most `left`; None when that says nothing."""
    if left < _SMALLEST_EXCERPT:
        return None
    room = left - _cost(replace(item, text="", caption=None, cut=True), headings, counter)
    if room < _SMALLEST_EXCERPT:
        return None
    wanted = {term.term for term in query_terms(question) if not term.stop}
    present = {form for token in tokens(item.text) for form in (token.stem, f"={token.surface}")}
    while room >= _SMALLEST_EXCERPT:
        start, end = excerpt(item.text, wanted & present, max_tokens=room, count=counter.count)
        if start == end:
            return None
        sources = item.sources
        if item.kind == "verbatim":  # other kinds have words of their own: their offsets are not the turn's
            sources = tuple(Source(source.turn_id, source.start + start, source.start + end) for source in sources[:1])
        shorter = replace(item, text=item.text[start:end], caption=None, sources=sources, cut=True)
        cost = _cost(shorter, headings, counter)
        if cost <= left:
            return shorter
        room -= cost - left  # a line may count for more than its parts
    return None


def _heading(item: Evidence) -> str:
    return f"# {format_time(item.time, received=item.received)}"


def _line(item: Evidence) -> str:
    """A line without its number."""
    who = f"{item.speaker}: " if item.speaker else ""
    image = f" [image: {item.caption}]" if item.caption else ""
    mark = ""
    if item.cut:
        turn_id = item.sources[0].turn_id if item.sources else "?"
        mark = f" […cut from turn {turn_id}]"
    return quote(f"{who}{item.text}{image}{mark}")
