"""Citations of a model's answer, resolved to turns and checked. What can't be tied to a turn is dropped and counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from backread.store.indexing import passage_text
from backread.text.analysis import tokens
from backread.text.excerpts import sentences
from backread.types import Citation, Evidence, Turn

__all__ = ["Checked", "check", "find_quote"]

# [1], [1, 2], [1-3], and the brackets of Chinese and Japanese keyboards.
_NUMBERS = r"\d{1,4}(?:\s*[,;，、–-]\s*\d{1,4})*"
_MARK = re.compile(rf"[\[【［]\s*({_NUMBERS})\s*[\]】］]")
_RANGE = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
_WIDEST_RANGE = 20

_QUOTES = re.compile(r"^[^\w\n]*QUOTES(?:[^\w\n]*$|[*_]*:[*_ ]*(?=\[))", re.MULTILINE | re.IGNORECASE)
_LEAD = re.compile(r"\s*(?:\d+[.)]\s)?[^\w\[【［]*")
_AROUND = " \t:*_>-–—\"“”„‟«»'‘’「」『』"
_AFTER = re.compile(r"(?<=[\"”»'’」』])\s*[.,;]\s*\Z")
_CUT = re.compile(r"\s*\[…cut from turn [^\]]*\]?")

# Signs that a model writes in another form than the turn it copies from.
_SIGNS = {sign: signs for signs in ("['’‘ʼ`´]", '["“”„‟«»]', "[-‐‑‒–—]") for sign in signs[1:-1]}
_SIGNS |= {"…": r"(?:…|\.\.\.)", "\ufffd": "."}  # U+FFFD is what a control character is shown as


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer's text with only supported marks, the citations behind them, and how many were dropped."""

    text: str
    citations: tuple[Citation, ...]
    dropped: int


def check(reply: str, evidence: Sequence[Evidence], turns: Mapping[str, Turn]) -> Checked:
    """Check every mark of a reply.

    A mark [n] stands when line n exists and either a quote given for it is found in its turn (see `find_quote`), or,
    without a quote, a sentence of the turn shares a content word or number with the sentence the mark stands in. The
    citation points at that span; a line that stands by the caption of its image, or by the words a model put in place
    of the turn's, is cited as a whole. Marks that don't stand are removed from the text, and lists and ranges of marks
    are written one by one.

    Args:
        reply: what the model wrote, with or without a QUOTES part.
        evidence: the lines it was shown, in order.
        turns: the turns behind them by turn id.
    """
    body, tail = _split(reply)
    quotes = _quotes(tail)
    citations: dict[int, Citation] = {}
    dropped = 0
    pieces: list[str] = []
    at = 0
    for match in _MARK.finditer(body):
        numbers = _numbers(match[1])
        if max(numbers) > max(999, len(evidence)):
            continue  # a year
        pieces.append(body[at : match.start()])
        at = match.end()
        kept = []
        for number in numbers:
            found = _resolve(number, quotes.get(number, []), _statement(body, match.start()), evidence, turns)
            if found is None:
                dropped += 1
            else:
                citations.setdefault(number, found)
                kept.append(f"[{number}]")
        if kept:
            pieces.extend(kept)
        elif body[at : at + 1] in ("", *" \t\n.,;:!?)"):
            pieces.append(pieces.pop().rstrip(" \t"))  # the space before the mark goes with it
    pieces.append(body[at:])
    return Checked("".join(pieces).strip(), tuple(citations[number] for number in sorted(citations)), dropped)


def _split(reply: str) -> tuple[str, str]:
    match = _QUOTES.search(reply)
    return (reply[: match.start()], reply[match.end() :]) if match else (reply, "")


def _quotes(tail: str) -> dict[int, list[str]]:
    """The quotes given for each number: one a line, behind its mark or marks, in any quotation marks or none."""
    quotes: dict[int, list[str]] = {}
    for line in tail.splitlines():
        numbers: list[int] = []
        at = 0
        while (lead := _LEAD.match(line, at)) and (match := _MARK.match(line, lead.end())):
            numbers.extend(_numbers(match[1]))
            at = match.end()
        words = _AFTER.sub("", _CUT.sub("", line[at:])).strip(_AROUND)
        for number in numbers:
            if words:
                quotes.setdefault(number, []).append(words)
    return quotes


def _numbers(listed: str) -> list[int]:
    """The numbers of "1, 2" or "1-3", in order, each once; a range that runs backwards or too far is its two ends."""
    numbers: list[int] = []
    for first, last in _RANGE.findall(listed):
        low, high = int(first), int(last or first)
        numbers.extend(range(low, high + 1) if 0 <= high - low < _WIDEST_RANGE else (low, high))
    return list(dict.fromkeys(numbers))


def _statement(body: str, end: int) -> str:
    """The sentence a mark stands in, up to the mark, without other marks."""
    before = _MARK.sub(" ", body[:end]).rstrip()
    spans = sentences(before)
    return before[spans[-1][0] : spans[-1][1]] if spans else before


def _resolve(
    number: int, quotes: Sequence[str], statement: str, evidence: Sequence[Evidence], turns: Mapping[str, Turn]
) -> Citation | None:
    if not 1 <= number <= len(evidence):
        return None
    line = evidence[number - 1]
    for source in line.sources:
        turn = turns.get(source.turn_id)
        if turn is None:
            continue
        shown = (source.start, len(turn.text) if source.end is None else source.end)
        if quotes:
            span = next((found for quote in quotes if (found := _quoted(line, turn, shown, quote))), None)
        else:
            span = _supporting(line, turn, shown, statement)
        if span is not None:
            return Citation(number, turn.turn_id, *span, turn.text[span[0] : span[1]])
    return None


def _quoted(line: Evidence, turn: Turn, shown: tuple[int, int], quote: str) -> tuple[int, int] | None:
    """The span of the turn that a quote of its line stands for."""
    if quote.casefold().startswith(f"{turn.name.casefold()}:"):
        quote = quote[len(turn.name) + 1 :]
    span = find_quote(passage_text(turn.text, turn.caption), quote)
    if span is not None:  # what reaches into the caption stands for the text before it, or else for the whole line
        start, end = min(span[0], len(turn.text)), min(span[1], len(turn.text))
        return (start, end) if start < end else shown
    return shown if line.kind != "verbatim" and find_quote(line.text, quote) else None


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Where a quote stands in a text, as whole words; None if nowhere.

    White space is folded, so are the forms of apostrophes, quotation marks, dashes and ellipses; the case as given goes
    before any other. Where that finds nothing, punctuation at the quote's ends is left off.
    """
    for words in _readings(quote):
        pattern = r"\s+".join("".join(_SIGNS.get(sign, re.escape(sign)) for sign in word) for word in words.split())
        before = r"(?<![A-Za-z0-9])" if words[0].isascii() and words[0].isalnum() else ""
        after = r"(?![A-Za-z0-9])" if words[-1].isascii() and words[-1].isalnum() else ""
        pattern = f"{before}{pattern}{after}"
        if match := re.search(pattern, text) or re.search(pattern, text, re.IGNORECASE):
            return match.span()
    return None


def _readings(quote: str) -> Iterator[str]:
    whole = quote.replace("...", "…").strip(" \t\n…")
    bare = whole.strip(" \t\n….,;:!?")
    yield from dict.fromkeys(words for words in (whole, bare) if words.split())


def _supporting(line: Evidence, turn: Turn, shown: tuple[int, int], statement: str) -> tuple[int, int] | None:
    """The sentence of the shown span that shares most content words and numbers with a statement."""
    wanted = _content(statement)
    best: tuple[int, tuple[int, int]] | None = None
    for start, end in sentences(turn.text[shown[0] : shown[1]]):
        span = (shown[0] + start, shown[0] + end)
        shared = len(wanted & _content(turn.text[span[0] : span[1]]))
        if shared and (best is None or shared > best[0]):
            best = (shared, span)
    beside = line.caption if line.kind == "verbatim" else line.text
    if best is None and beside and wanted & _content(beside):
        return shown
    return best[1] if best else None


def _content(text: str) -> set[str]:
    return {token.stem for token in tokens(text) if not token.stop}
