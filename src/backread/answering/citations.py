"""Citations of a model's answer, resolved to turns and checked. What can't be tied to a turn is dropped and counted."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from backread.store.indexing import passage_text
from backread.text.analysis import tokens
from backread.text.excerpts import sentences
from backread.text.fencing import for_model
from backread.text.support import content
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
_CUT = re.compile(r"\[…cut from turn [^\]]*\]?")

_LONGEST_STATEMENT = 600  # characters before a mark; a sentence that is longer is none
_MOST_QUOTES = 20  # for one line

# Signs that a model writes in another form than the turn it copies from, and what is shown as U+FFFD, one for one.
_REPLACED = (*range(9), *range(14, 32), *range(127, 133), *range(134, 160), *range(0xD800, 0xE000))
_SIGNS = {
    **{ord(sign): signs[0] for signs in ("'’‘ʼ`´", '"“”„‟«»', "-‐‑‒–—") for sign in signs},
    **dict.fromkeys((*_REPLACED, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"),
}
_FOLDED = re.compile(
    r"(?P<inside>(?<=[<＜\[])\s+|(?>\s+)(?=[>＞\]]))|(?P<space>\s+)|(?P<dots>\.\.\.)|(?P<word>[A-Za-z0-9]+)"
    r"|\.|[^\sA-Za-z0-9.]+"
)


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
    said = _Said(body)
    lines = _Lines(evidence, turns, _quotes(tail))
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
            found = lines.resolved(number, said.before(match.start()))
            if found is None:
                dropped += 1
            else:
                citations[number] = found
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


class _Said:
    """The sentences of an answer without its marks, read once however many marks there are."""

    def __init__(self, body: str) -> None:
        self._text = _MARK.sub(lambda match: " " * len(match[0]), body)
        self._starts = [start for start, _ in sentences(self._text)]

    @cached_property
    def _content(self) -> tuple[list[int], list[str]]:
        found = [token for token in tokens(self._text) if not token.stop]
        return [token.start for token in found], [token.stem for token in found]

    def before(self, end: int) -> set[str]:
        """Content words, as stems, of the sentence that a mark at `end` stands in, up to the mark."""
        sentence = bisect_left(self._starts, end) - 1
        if sentence < 0:
            return set()
        places, stems = self._content
        start = max(self._starts[sentence], end - _LONGEST_STATEMENT)
        return set(stems[bisect_left(places, start) : bisect_left(places, end)])


class _Lines:
    """Lines of evidence with what may be cited of each, looked into once however often one is cited."""

    def __init__(
        self, evidence: Sequence[Evidence], turns: Mapping[str, Turn], quotes: Mapping[int, list[str]]
    ) -> None:
        self._evidence, self._turns, self._quotes = evidence, turns, quotes
        self._sources: dict[int, list[_Source]] = {}
        self._words: dict[int, set[str]] = {}
        self._cited: dict[int, Citation | None] = {}

    def resolved(self, number: int, statement: set[str]) -> Citation | None:
        """What a mark in a statement cites; of several marks of a line, what the first that stands does."""
        if not 1 <= number <= len(self._evidence):
            return None
        if number in self._quotes:
            if number not in self._cited:
                self._cited[number] = self._quoted(number)
            return self._cited[number]
        if number not in self._words:
            line = self._evidence[number - 1]
            self._sources[number] = [_Source(line, *shown) for shown in _shown(line, self._turns)]
            self._words[number] = set[str]().union(*(source.words for source in self._sources[number]))
        if not statement & self._words[number]:
            return None
        if number not in self._cited:
            source = next(source for source in self._sources[number] if statement & source.words)
            self._cited[number] = _citation(number, source.turn, source.supporting(statement))
        return self._cited[number]

    def _quoted(self, number: int) -> Citation | None:
        line, quotes = self._evidence[number - 1], self._quotes[number][:_MOST_QUOTES]
        for turn, shown in _shown(line, self._turns):
            text = _Folded(passage_text(turn.text, turn.caption))
            span = next((found for quote in quotes if (found := _quoted(line, turn, shown, text, quote))), None)
            if span is not None:
                return _citation(number, turn, span)
        return None


class _Source:
    """A turn that a line rests on, `shown` of it, as sentences with their content words."""

    def __init__(self, line: Evidence, turn: Turn, shown: tuple[int, int]) -> None:
        self.turn, self._shown = turn, shown
        spans = [(shown[0] + start, shown[0] + end) for start, end in sentences(turn.text[shown[0] : shown[1]])]
        self._sentences = [(span, content(turn.text[slice(*span)])) for span in spans]
        beside = line.caption if line.kind == "verbatim" else line.text
        self.words = content(beside or "").union(*(words for _, words in self._sentences))

    def supporting(self, statement: set[str]) -> tuple[int, int]:
        """The sentence that shares most words with a statement; all that is shown when only what is beside it does."""
        most = max((len(statement & words) for _, words in self._sentences), default=0)
        return next((span for span, words in self._sentences if most and len(statement & words) == most), self._shown)


def _shown(line: Evidence, turns: Mapping[str, Turn]) -> Iterator[tuple[Turn, tuple[int, int]]]:
    """The turns a line rests on that are there, each with the span of it that was shown."""
    for source in line.sources:
        if (turn := turns.get(source.turn_id)) is not None:
            yield turn, (source.start, len(turn.text) if source.end is None else source.end)


def _citation(number: int, turn: Turn, span: tuple[int, int]) -> Citation:
    return Citation(number, turn.turn_id, *span, turn.text[slice(*span)])


def _quoted(line: Evidence, turn: Turn, shown: tuple[int, int], text: _Folded, quote: str) -> tuple[int, int] | None:
    """The span of the turn that a quote of its line stands for; `text` is the turn with its caption."""
    for name in dict.fromkeys((turn.name, for_model(turn.name))):  # as it is and as it was shown
        if quote.casefold().startswith(f"{name.casefold()}:"):
            quote = quote[len(name) + 1 :]
    span = text.find(quote)
    if span is not None:  # what reaches into the caption stands for the text before it, or else for the whole line
        start, end = min(span[0], len(turn.text)), min(span[1], len(turn.text))
        return (start, end) if start < end else shown
    return shown if line.kind != "verbatim" and find_quote(line.text, quote) else None


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Where a quote stands in a text, as whole words; None if nowhere.

    White space is folded, and left aside inside brackets, where a prompt may have more of it (`for_model`). So are the
    forms of apostrophes, quotation marks, dashes and ellipses; the case as given goes before any other. Where that
    finds nothing, punctuation at the quote's ends is left off.
    """
    return _Folded(text).find(quote)


class _Folded:
    """A text as quotes are compared with it, and the way back to its offsets."""

    def __init__(self, text: str) -> None:
        self.text = ""
        self._places: list[int] = []  # of each piece in the folded text
        self._spans: list[tuple[int, int]] = []  # of each piece in the text as given
        pieces: list[str] = []
        size = 0
        for match in _FOLDED.finditer(text.translate(_SIGNS)):
            # Words stand between marks of their own, which nothing else folds to: so they are found as wholes only.
            forms = {"inside": "", "space": " ", "dots": "…", "word": f"\0{match[0]}\0"}
            piece = forms.get(match.lastgroup or "", match[0])
            pieces.append(piece)
            if piece:
                self._places.append(size)
                self._spans.append(match.span())
                size += len(piece)
        self.text = "".join(pieces)

    @cached_property
    def _caseless(self) -> str:
        folded = self.text.casefold()
        if len(folded) == len(self.text):
            return folded
        return "".join(other if len(other := sign.casefold()) == 1 else sign for sign in self.text)

    def find(self, quote: str) -> tuple[int, int] | None:
        """See `find_quote`."""
        for words in _readings(quote):
            wanted = _Folded(words)
            at = self.text.find(wanted.text)
            if at < 0:
                at = self._caseless.find(wanted._caseless)
            if at >= 0:
                return self._given(at)[0], self._given(at + len(wanted.text) - 1)[1]
        return None

    def _given(self, place: int) -> tuple[int, int]:
        """The span, in the text as given, of a sign of the folded text."""
        piece = bisect_right(self._places, place) - 1
        start, end = self._spans[piece]
        following = self._places[piece + 1] if piece + 1 < len(self._places) else len(self.text)
        if following - self._places[piece] != end - start:
            return start, end
        start += place - self._places[piece]
        return start, start + 1


def _readings(quote: str) -> Iterator[str]:
    whole = quote.replace("...", "…").strip(" \t\n…").strip()
    bare = whole.strip(" \t\n….,;:!?")
    yield from dict.fromkeys(words for words in (whole, bare) if words.split())
