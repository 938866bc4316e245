"""Analysis for BM25 search: from text to terms, the same for what is stored and for what is asked.

A **token** is a word, a character pair of a script without spaces, or a symbol such as an emoji. Tokens give **terms**:

- the stem as it is ("running" gives `run`);
- the surface, marked with "=", where it differs from the stem (`=running`), so that the exact form can rank higher;
- the joined form of a compound, marked with "=" too (`=inv-2041` next to `inv` and `2041`).

A mark can't be typed: "=" is never part of a stem. Nothing in a query is syntax.

Rules. Text is taken in NFKC, case and accents are folded (see `fold_word`); offsets always refer to the text as given.
Words of a list of English function words are flagged as stop words and keep their form. Possessive 's and contracted
verbs after names fall ("Baker's", "Mina'll"), other apostrophes split ("l'école"). Han, kana, Hangul, Thai, Lao, Khmer
and Myanmar runs give every overlapping pair of characters, and every single character besides: single characters let
one-character words be found, weigh less in a query (kind "surface") and don't count into the length. Grouped digits are
one number ("5,000" is `5000`). camelCase gives its parts, the whole word's stem and the whole as a compound. Emoji are
terms: the stem has no skin tone and no gender sign, the surface has. Currency signs and punctuation are not. A term
ends after `MAX_TERM` characters; a longer run goes on as further tokens.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice, pairwise
from typing import Literal, NamedTuple

from backread.text._folding import fold_word, marks_class, normalise, stem_word, symbols_class
from backread.text._stopwords import STOP_WORDS

__all__ = [
    "ANALYZER",
    "MAX_TERM",
    "STOP_WORDS",
    "QueryTerm",
    "Token",
    "analyzer_version",
    "find_terms",
    "index_terms",
    "query_terms",
    "tokens",
]

ANALYZER = "backread-1"
"""Names these rules in the file that holds terms made by them; any change to the terms changes it."""

MAX_TERM = 64
"""Characters of the longest term, the "=" mark not counted."""

_IGNORED = "\u00ad\u200c\u200d\u2060\ufeff"  # may stand inside a word without being part of it
_APOSTROPHES = "'’‘ʼ"
_HAN_KANA_HANGUL = (
    "\u3005-\u3007\u3021-\u3029\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003fffd"
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7fb"
)
_SOUTH_EAST_ASIAN = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf"
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\uaa60-\uaa76\uaa7a"
    "\u1780-\u17b3\u17d7\u17dc"
)
_SPACELESS = _HAN_KANA_HANGUL + _SOUTH_EAST_ASIAN
_DASHES = {ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2212"}

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACRONYM_PLURAL = re.compile(r"[A-Z]{2,}s\Z")
_CONTRACTED = re.compile(r"'(?:s|ll|ve|d|re|m)\Z")
_EMOJI_VARIANT = re.compile("[\U0001f3fb-\U0001f3ff]|\u200d[\u2640\u2642]")
_SELECTORS = {0xFE0E: None, 0xFE0F: None}


@cache
def analyzer_version() -> str:
    """`ANALYZER` and the stemmer in use with its version: what stored terms depend on."""
    import importlib.metadata

    for package in ("PyStemmer", "snowballstemmer"):  # snowballstemmer runs PyStemmer where it is installed
        try:
            major, minor, *_ = importlib.metadata.version(package).split(".")
        except importlib.metadata.PackageNotFoundError:
            continue
        return f"{ANALYZER}/{package}-{major}.{minor}"
    return ANALYZER


@dataclass(frozen=True, slots=True)
class Token:
    """A token: folded `surface`, `stem`, half-open code-point span in the text as given, whether it is a stop word."""

    surface: str
    stem: str
    start: int
    end: int
    stop: bool


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A term to look up. `kind` is its weight class.

    "stem": the word itself. "surface": the exact form beside its stem, or one character of a longer run of a script
    without spaces; both say less than a stem. "compound": a whole identifier; says most. `stop` marks function words.
    """

    term: str
    kind: Literal["stem", "surface", "compound"]
    stop: bool


class _Piece(NamedTuple):
    """A token of a chunk with offsets relative to the chunk. `single`: one character of a longer spaceless run."""

    surface: str
    stem: str
    start: int
    end: int
    stop: bool
    single: bool = False


class _Chunk(NamedTuple):
    """The analysis of a stretch without white space: its tokens, its joined forms, stems of wholes that were split."""

    pieces: tuple[_Piece, ...]
    compounds: tuple[str, ...] = ()
    wholes: tuple[str, ...] = ()


class _Patterns(NamedTuple):
    chunk: re.Pattern[str]
    word: re.Pattern[str]
    unit: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Compiled on first use: the classes come from the Unicode tables and take some milliseconds to collect.

    Repeated groups are atomic, not possessive: before CPython 3.11.5 a possessive one may take in the start of a
    repetition that doesn't fit, so that "pot." kept its full stop.
    """
    marks, symbols = marks_class(), symbols_class()
    letter = rf"[^\W_ʼ{_SPACELESS}]"
    plain = rf"{letter}(?>(?:{letter}|[{marks}{_IGNORED}]){{0,{MAX_TERM - 1}}})"
    number = r"\d{1,3}(?>(?:,\d{3})+)(?!\w)"
    word = rf"(?:{number}|{plain}(?>(?:[{_APOSTROPHES}]{plain}){{0,3}}))"
    join = r"(?!\.\.|--)[-_.:/\\@+#&=?%~\u2010-\u2013\u2212]{1,3}+"
    lead = r"(?:(?<![.\-/\\#@~])(?:~/|\.{1,2}/|[/.@#])|(?<!\S)--?)"
    tail = r"(?:\+{1,2}|\#)"
    glyph = rf"[{symbols}][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff\u20e3]*+"
    flag = "[\U0001f1e6-\U0001f1ff]{2}|[\U0001f3f4][\U000e0020-\U000e007f]{1,8}+"
    chunk = (
        rf"(?P<word>{lead}?{word}(?>(?:{join}{word}){{0,15}}){tail}?)"
        rf"|(?P<run>[{_SPACELESS}][{_SPACELESS}{marks}{_IGNORED}]*+)"
        rf"|(?P<symbol>{flag}|{glyph}(?>(?:\u200d{glyph}){{0,7}}))"
    )
    return _Patterns(re.compile(chunk), re.compile(word), re.compile(rf"[{_SPACELESS}][{marks}{_IGNORED}]{{0,8}}+"))


def tokens(text: str) -> Iterator[Token]:
    """Tokens of `text` in order of their start; of two at one start the longer comes first.

    Lazy: a message of megabytes gives one token at a time. Lone surrogates separate.
    """
    normal, offsets = normalise(text)
    for match in _patterns().chunk.finditer(normal):
        base = match.start()
        for surface, stem, start, end, stop, _ in _pieces(match):
            a, b = base + start, base + end
            yield Token(surface, stem, *(offsets.span(a, b) if offsets else (a, b)), stop)


def index_terms(text: str) -> tuple[dict[str, int], int]:
    """How often each term occurs in `text`, and its length in tokens (the document length of BM25).

    Surfaces, compounds and the single characters of spaceless runs are terms but add nothing to the length.
    """
    terms: Counter[str] = Counter()
    length = 0
    normal, _ = normalise(text)
    seen: Counter[tuple[str, str]] = Counter()
    # Words repeat: counting whole chunks first analyses each distinct one once.
    for match in _patterns().chunk.finditer(normal):
        if match.lastgroup == "run":
            length += _count_run(match.group(), terms)
        else:
            seen[match.lastgroup or "", match.group()] += 1
    for (group, chunk), times in seen.items():
        analysed = _word_chunk(chunk) if group == "word" else _symbol_chunk(chunk)
        for piece in analysed.pieces:
            terms[piece.stem] += times
            if piece.surface != piece.stem:
                terms["=" + piece.surface] += times
            length += times
        for whole in analysed.wholes:
            terms[whole] += times
        for compound in analysed.compounds:
            terms["=" + compound] += times
    return dict(terms), length


def find_terms(text: str, terms: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Where `terms` occur in `text`: (start, end, term), spans as of `tokens`, in order of the tokens. Lazy.

    `terms` are terms of `query_terms`; a compound has the span of the whole identifier. Exactly the terms that
    `index_terms(text)` would hold are found.
    """
    wanted = frozenset(terms)
    normal, offsets = normalise(text)
    for match in _patterns().chunk.finditer(normal):
        run = match.group()
        if match.lastgroup == "run" and run.isalnum():
            found = _find_in_run(run, wanted)
        else:
            chunk = _word_chunk(run) if match.lastgroup == "word" else _Chunk(tuple(_pieces(match)))
            found = [(start, end, term) for start, end, term in _chunk_terms(chunk, len(run)) if term in wanted]
        for start, end, term in found:
            a, b = match.start() + start, match.start() + end
            yield (*(offsets.span(a, b) if offsets else (a, b)), term)


def _find_in_run(run: str, wanted: frozenset[str]) -> list[tuple[int, int, str]]:
    """Pairs and singles of a run without marks."""
    found: list[tuple[int, int, str]] = []
    for at in range(len(run)):
        if run[at : at + 2] in wanted and at + 1 < len(run):
            found.append((at, at + 2, run[at : at + 2]))
        if run[at] in wanted:
            found.append((at, at + 1, run[at]))
    return found


def _chunk_terms(chunk: _Chunk, size: int) -> Iterator[tuple[int, int, str]]:
    for compound in chunk.compounds:
        yield 0, size, "=" + compound
    for whole in chunk.wholes:
        yield 0, size, whole
    for piece in chunk.pieces:
        yield piece.start, piece.end, piece.stem
        if piece.surface != piece.stem:
            yield piece.start, piece.end, "=" + piece.surface


def query_terms(text: str) -> tuple[QueryTerm, ...]:
    """The distinct terms of a question in order of first appearance; () when it has none.

    Every one of them is a term of `index_terms(text)`. No character is an operator: AND, quotes, stars, colons and
    brackets are words or nothing.
    """
    found: dict[str, QueryTerm] = {}

    def put(term: str, kind: Literal["stem", "surface", "compound"], stop: bool = False) -> None:
        found.setdefault(term, QueryTerm(term, kind, stop))

    normal, _ = normalise(text)
    for match in _patterns().chunk.finditer(normal):
        chunk = _word_chunk(match.group()) if match.lastgroup == "word" else _Chunk(tuple(_pieces(match)))
        for compound in chunk.compounds:
            put("=" + compound, "compound")
        for whole in chunk.wholes:
            put(whole, "stem")
        for piece in chunk.pieces:
            put(piece.stem, "surface" if piece.single else "stem", piece.stop)
            if piece.surface != piece.stem:
                put("=" + piece.surface, "surface", piece.stop)
    return tuple(found.values())


def _pieces(match: re.Match[str]) -> Iterator[_Piece] | tuple[_Piece, ...]:
    """The tokens of one chunk match."""
    if match.lastgroup == "word":
        return _word_chunk(match.group()).pieces
    if match.lastgroup == "run":
        return _run_pieces(match.group())
    return _symbol_chunk(match.group()).pieces


@lru_cache(maxsize=1 << 14)
def _word_chunk(chunk: str) -> _Chunk:
    """Analyse words joined without white space; offsets are within `chunk`."""
    pieces: list[_Piece] = []
    compounds: list[str] = []
    wholes: list[str] = []
    joined: list[str] = []
    words = 0
    at = 0
    for match in _patterns().word.finditer(chunk):
        joined.append(chunk[at : match.start()].translate(_DASHES))
        whole = _word(match.group(), match.start(), pieces, compounds, wholes)
        joined.append(whole)
        words += 1
        at = match.end()
    joined.append(chunk[at:])
    if not pieces:  # nothing but Arabic tatweel
        return _Chunk(())
    if words > 1 or joined[0] or joined[-1]:
        compounds.insert(0, "".join(joined))
        if words > 1 and joined[0]:
            compounds.insert(1, "".join(joined[1:]))  # "/etc/hosts" is also found as "etc/hosts"
    return _Chunk(tuple(pieces), tuple(dict.fromkeys(c[:MAX_TERM] for c in compounds)), tuple(wholes))


def _word(raw: str, start: int, pieces: list[_Piece], compounds: list[str], wholes: list[str]) -> str:
    """Append the tokens of one word and what it gives as a whole; returns its folded form."""
    surface = fold_word(raw)
    if "," in surface:
        surface = surface.replace(",", "")  # grouped digits
    if "'" in surface and surface not in STOP_WORDS:
        surface = _CONTRACTED.sub("", surface)
    if "'" in surface and surface not in STOP_WORDS:
        compounds.append(surface)
        for part in re.finditer(rf"[^{_APOSTROPHES}]+", raw):
            _plain(part.group(), start + part.start(), pieces)
        return surface
    if raw.isascii() and not (raw.islower() or raw.istitle() or raw.isupper() or _ACRONYM_PLURAL.match(raw)):
        name = raw[: len(surface)]  # without a possessive
        cuts = [0, *(m.start() for m in _CAMEL.finditer(name)), len(name)]
        if len(cuts) > 2 and "," not in name:
            compounds.append(surface)
            wholes.append(_stem(surface))
            for a, b in pairwise(cuts):
                _plain(name[a:b], start + a, pieces)
            return surface
    _append(surface, start, start + len(raw), pieces)
    return surface


def _plain(raw: str, start: int, pieces: list[_Piece]) -> None:
    _append(fold_word(raw), start, start + len(raw), pieces)


def _append(surface: str, start: int, end: int, pieces: list[_Piece]) -> None:
    if surface:
        surface = surface[:MAX_TERM]
        pieces.append(_Piece(surface, _stem(surface), start, end, surface in STOP_WORDS))


def _stem(surface: str) -> str:
    # Function words keep their form: Porter2 would make "does" a female deer.
    return surface if surface in STOP_WORDS else stem_word(surface)


def _symbol_chunk(raw: str) -> _Chunk:
    surface = raw.translate(_SELECTORS)
    stem = _EMOJI_VARIANT.sub("", surface) or surface
    return _Chunk((_Piece(surface, stem, 0, len(raw), False),))


def _run_pieces(run: str) -> Iterator[_Piece]:
    """Pairs and singles of a spaceless run, in order of start, pair first."""
    if run.isalnum():  # no marks or joiners: every character is a unit
        for at in range(len(run) - 1):
            yield _Piece(run[at : at + 2], run[at : at + 2], at, at + 2, False)
            yield _Piece(run[at], run[at], at, at + 1, False, True)
        yield _Piece(run[-1], run[-1], len(run) - 1, len(run), False, len(run) > 1)
        return
    before: tuple[str, int, int] | None = None
    pairs = 0
    for match in _patterns().unit.finditer(run):
        unit, start, end = _unit(match.group()), match.start(), match.end()
        if before is not None:
            pair = before[0] + unit
            pairs += 1
            yield _Piece(pair, pair, before[1], end, False)
            yield _Piece(before[0], before[0], before[1], before[2], False, single=True)
        before = (unit, start, end)
    if before is not None:
        yield _Piece(before[0], before[0], before[1], before[2], False, single=pairs > 0)


def _unit(raw: str) -> str:
    """A character of a spaceless run with its marks; joiners and selectors dropped."""
    return raw if len(raw) == 1 else fold_word(raw)


def _count_run(run: str, terms: Counter[str]) -> int:
    """Add pairs and singles of a spaceless run to `terms`; returns what it adds to the length."""
    units: str | list[str] = run
    # `isalnum` is False for marks and joiners, so this is the common case: every character is a unit.
    if not run.isalnum():
        units = [_unit(m.group()) for m in _patterns().unit.finditer(run)]
    terms.update(units)
    terms.update(map(operator.add, units, islice(units, 1, None)))
    return max(1, len(units) - 1)
