"""Folding words to the one form that index and query share: compatibility forms, case, accents, digits, stems."""

from __future__ import annotations

import re
import unicodedata
from array import array
from functools import cache, lru_cache
from typing import Protocol

from backread import forking

__all__ = ["Offsets", "fold_word", "marks_class", "normalise", "stem_word", "symbols_class"]

# Signs whose compatibility form is a word ("backread™" must not become "backreadtm").
_KEPT = frozenset("\u2120\u2122")

# Characters that are part of a word on paper but not of its identity: soft hyphen, (non-)joiners, word joiner, BOM,
# and the Arabic tatweel and vowel signs (tashkeel), the Hebrew points (niqqud) and cantillation.
_DROPPED = (
    "\u00ad\u034f\u200c\u200d\u2060\ufeff\u0640\u0670\ufe0e\ufe0f"
    + "".join(
        map(chr, (*range(0x0610, 0x061B), *range(0x064B, 0x0660), *range(0x06D6, 0x06DD), *range(0x06DF, 0x06E5)))
    )
    + "".join(map(chr, (0x06E7, 0x06E8, *range(0x06EA, 0x06EE))))
    + "".join(map(chr, (*range(0x0591, 0x05BE), 0x05BF, 0x05C1, 0x05C2, 0x05C4, 0x05C5, 0x05C7)))
)
# Letters that people write either way. Latin ones have no decomposition, so accent stripping alone would miss them.
_UNIFIED = {
    "’": "'", "‘": "'", "ʼ": "'",
    "أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ی": "ي", "ة": "ه", "ک": "ك",
    "ø": "o", "Ø": "o", "ł": "l", "Ł": "l", "đ": "d", "Đ": "d", "ħ": "h", "Ħ": "h", "ı": "i", "æ": "ae", "Æ": "ae",
    "œ": "oe", "Œ": "oe",
}  # fmt: skip
_WORD_TABLE: dict[int, str | None] = {ord(c): None for c in _DROPPED} | {ord(a): b for a, b in _UNIFIED.items()}

# Accents fall only where they are not letters of their own: after Latin and Greek bases, and the stress marks and the
# diaeresis of Russian vowels (й and ї are letters and stay). Devanagari, Thai and the rest are never touched.
_ACCENTS = re.compile(
    r"(?<=[A-Za-z\u0180-\u024f\u0250-\u02af\u0370-\u03ff])[\u0300-\u036f]+"
    r"|(?<=[аеиоуыэюяіє])[\u0300\u0301]+|(?<=е)\u0308"
)
_DIGIT = re.compile(r"\d")
_ASCII_OR_NOT = re.compile(r"[\x00-\x7f]+(?=[\x00-\x7f]|\Z)|[\x00-\x7f]?[^\x00-\x7f]+")

_STEMMERS = (
    (0x0041, 0x024F, "english"),
    (0x0370, 0x03FF, "greek"),
    (0x0400, 0x04FF, "russian"),
    (0x0620, 0x06FF, "arabic"),
    (0x0900, 0x097F, "hindi"),
)
# Longer or mixed strings are identifiers, hashes and base64: stemming them costs time and gains nothing.
_LONGEST_STEMMED = 40
_stem_lock = forking.Lock()


class Offsets:
    """Where the characters of a normalised text came from; half-open code-point spans of the original."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts = array("I")
        self._ends = array("I")

    def identity(self, start: int, end: int) -> None:
        """Append one-to-one characters for the original span [start, end)."""
        self._starts.extend(range(start, end))
        self._ends.extend(range(start + 1, end + 1))

    def cluster(self, start: int, end: int, width: int) -> None:
        """Append `width` characters that all stand for the original span [start, end)."""
        self._starts.extend([start] * width)
        self._ends.extend([end] * width)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The original span of the normalised, non-empty span [start, end)."""
        return self._starts[start], self._ends[end - 1]


def normalise(text: str) -> tuple[str, Offsets | None]:
    """The NFKC form of `text`, and the map back to its offsets; None when nothing changed.

    Composed and decomposed forms of the same text give the same string. Trade mark signs keep their form.
    """
    if text.isascii() or unicodedata.is_normalized("NFKC", text):
        return text, None
    offsets = Offsets()
    out: list[str] = []
    for match in _ASCII_OR_NOT.finditer(text):
        run, start = match.group(), match.start()
        if unicodedata.is_normalized("NFKC", run):
            out.append(run)
            offsets.identity(start, match.end())
        else:
            _normalise_run(run, start, out, offsets)
    return "".join(out), offsets


def _normalise_run(run: str, start: int, out: list[str], offsets: Offsets) -> None:
    """Append the NFKC form of `run` cluster by cluster: a base with everything that may compose with it."""
    size = len(run)
    at = 0
    while at < size:
        end = at + 1
        while end < size and _extends(run[end]):
            end += 1
        cluster = run[at:end]
        normal = cluster if cluster in _KEPT else unicodedata.normalize("NFKC", cluster)
        out.append(normal)
        offsets.cluster(start + at, start + end, len(normal))
        at = end


def _extends(char: str) -> bool:
    """True when `char` may compose with what stands before it."""
    if "\u1160" <= char <= "\u11ff" or char in "\uff9e\uff9f\u3099\u309a":  # vowel and final jamo, kana voicing
        return True
    return unicodedata.category(char)[0] == "M"


def fold_word(word: str) -> str:
    """`word` in lower case without accents; may be "" for a word of Arabic tatweel only.

    Expects NFKC. Case is folded fully (ß is ss, final sigma is sigma, İ is i), digits of all scripts become ASCII.
    """
    if word.isascii():
        return word.lower()
    word = word.translate(_WORD_TABLE).casefold()
    if word.isascii():
        return word
    # A second pass: case folding may bring back what the table maps (İ gives i and a dot above).
    word = _ACCENTS.sub("", unicodedata.normalize("NFD", word).translate(_WORD_TABLE))
    word = _DIGIT.sub(lambda m: str(unicodedata.decimal(m.group())), word)
    return unicodedata.normalize("NFC", word)


@lru_cache(maxsize=1 << 15)
def stem_word(surface: str) -> str:
    """The Snowball stem of a folded word by its script; the word itself where there is no stemmer for it.

    Latin letters are taken for English (Porter2), Cyrillic for Russian, Devanagari for Hindi.
    """
    if len(surface) > _LONGEST_STEMMED or not surface[:1].isalpha() or _DIGIT.search(surface):
        return surface
    code = ord(surface[0])
    for first, last, language in _STEMMERS:
        if first <= code <= last:
            # A stemmer keeps the word it works on in itself, so one thread at a time.
            with _stem_lock:
                return str(_stemmer(language).stemWord(surface)) or surface
    return surface


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # Snowball's own name


@cache
def _stemmer(language: str) -> _Stemmer:
    import snowballstemmer  # every language it has: slow, and no matter to who only reads

    stemmer: _Stemmer = snowballstemmer.stemmer(language)
    return stemmer


@cache
def marks_class() -> str:
    """The inside of a regex class with every combining mark of this Python's Unicode version."""
    return _category_class("M", 0x300, 0x1E950) + "\U000e0100-\U000e01ef"


@cache
def symbols_class() -> str:
    """The inside of a regex class with every "other symbol" (emoji, dingbats, arrows) and the skin tones."""
    return _category_class("So", 0xA6, 0x1FC00) + "\U0001f3fb-\U0001f3ff"


def _category_class(category: str, first: int, last: int) -> str:
    """Ranges of the code points in [first, last) whose category starts with `category`, as for a regex class."""
    ranges: list[list[int]] = []
    for code in range(first, last):
        if unicodedata.category(chr(code)).startswith(category):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in ranges)
