"""Citations of a model's answer, resolved to turns and checked. What can't be tied to a turn is dropped and counted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backread.text.analysis import tokens
from backread.text.excerpts import sentences
from backread.types import Citation, Evidence, Turn

__all__ = ["Checked", "check", "find_quote"]

_MARK = re.compile(r"\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]")
_QUOTES = re.compile(r"^\W*QUOTES\W*$", re.MULTILINE | re.IGNORECASE)
_QUOTE_LINE = re.compile(r"^\s*\[(\d{1,4})\][\s:.-]*[\"“”«'](.+)[\"“”»']\s*$")


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer's text with only supported marks, the citations behind them, and how many were dropped."""

    text: str
    citations: tuple[Citation, ...]
    dropped: int


def check(reply: str, evidence: Sequence[Evidence], turns: Mapping[str, Turn]) -> Checked:
    """Check every mark of a reply.

    A mark [n] stands when line n exists and either a quote given for it is found in its turn (white space folded), or,
    without a quote, a sentence of the turn shares a content word or number with the statement before the mark. The
    citation points at that span. Marks that don't stand are removed from the text.

    Args:
        reply: what the model wrote, with or without a QUOTES part.
        evidence: the lines it was shown, in order.
        turns: the turns behind them by turn id.
    """
    body, _, tail = _split(reply)
    quotes: dict[int, list[str]] = {}
    for line in tail.splitlines():
        if match := _QUOTE_LINE.match(line):
            quotes.setdefault(int(match[1]), []).append(match[2])
    citations: dict[int, Citation] = {}
    dropped = 0
    pieces: list[str] = []
    at = 0
    for match in _MARK.finditer(body):
        pieces.append(body[at : match.start()])
        at = match.end()
        statement = _statement(body, match.start())
        for number in dict.fromkeys(int(digits) for digits in match[1].split(",")):
            found = citations.get(number) or _resolve(number, quotes.get(number, []), statement, evidence, turns)
            if found is None:
                dropped += 1
                continue
            citations[number] = found
            pieces.append(f"[{number}]")
    pieces.append(body[at:])
    text = re.sub(r"[ \t]+([.,;:!?])", r"\1", "".join(pieces)).strip()
    return Checked(text, tuple(citations[number] for number in sorted(citations)), dropped)


def _split(reply: str) -> tuple[str, str, str]:
    match = _QUOTES.search(reply)
    return (reply[: match.start()], match[0], reply[match.end() :]) if match else (reply, "", "")


def _statement(body: str, end: int) -> str:
    """The words before a mark, back to the mark or sentence before."""
    before = _MARK.sub(" ", body[:end]).rstrip()
    spans = sentences(before)
    return before[spans[-1][0] : spans[-1][1]] if spans else before


def _resolve(
    number: int, quotes: Sequence[str], statement: str, evidence: Sequence[Evidence], turns: Mapping[str, Turn]
) -> Citation | None:
    if not 1 <= number <= len(evidence):
        return None
    for source in evidence[number - 1].sources:
        turn = turns.get(source.turn_id)
        if turn is None:
            continue
        shown = (source.start, len(turn.text) if source.end is None else source.end)
        span = next((found for quote in quotes if (found := find_quote(turn.text, quote))), None)
        if span is None and not quotes:
            span = _supporting(turn.text, shown, statement)
        if span is not None:
            return Citation(number, turn.turn_id, *span, turn.text[span[0] : span[1]])
    return None


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Where a quote stands in a text: code points, white space folded, case as given first, then folded. None if nowhere."""
    words = quote.strip().strip("…").split()
    if not words:
        return None
    pattern = r"\s+".join(re.escape(word) for word in words)
    match = re.search(pattern, text) or re.search(pattern, text, re.IGNORECASE)
    return match.span() if match else None


def _supporting(text: str, shown: tuple[int, int], statement: str) -> tuple[int, int] | None:
    """The sentence of the shown span that shares most content words and numbers with a statement."""
    wanted = {token.stem for token in tokens(statement) if not token.stop}
    best: tuple[int, tuple[int, int]] | None = None
    for start, end in sentences(text[shown[0] : shown[1]]):
        span = (shown[0] + start, shown[0] + end)
        shared = len(wanted & {token.stem for token in tokens(text[span[0] : span[1]]) if not token.stop})
        if shared and (best is None or shared > best[0]):
            best = (shared, span)
    return best[1] if best else None
