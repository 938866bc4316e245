"""Token counts for budgets: exact with tiktoken where its ranks are at hand, a stated estimate everywhere else."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import tempfile
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

from backread.errors import MissingExtraError, ModelNotAvailableError

__all__ = ["EstimateCounter", "TiktokenCounter", "TokenCounter", "default_counter"]


class TokenCounter(Protocol):
    """Counts tokens of a text. `name` goes into records: two counts compare only under one name."""

    @property
    def name(self) -> str:
        """Which tokens these are, "tiktoken:o200k_base" or "estimate-1"."""
        ...

    def count(self, text: str) -> int:
        """Tokens of `text`; 0 for "". Takes any text, lone surrogates included."""
        ...


_ENCODING = "o200k_base"
_RANKS_URL = f"https://openaipublic.blob.core.windows.net/encodings/{_ENCODING}.tiktoken"
_RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

# All costs below are in thousandths of a token, so that sums are exact; measured on o200k_base, set on the high side.
# A Latin word by its length, from index 1 on: in a line that reads as English, in any other line, and in a line with
# letters of Latin Extended (Polish, Turkish, Czech, Vietnamese …), where `_EXTENDED` is for the words that have one.
_ENGLISH = (0, 1000, 1000, 1000, 1000, 1080, 1100, 1130, 1160, 1190, 1250, 1260, 1320, 1400, 1450, 1500)
_OTHER = (0, 1000, 1050, 1090, 1170, 1260, 1380, 1490, 1680, 1860, 2200, 2300, 2600, 2700, 3000, 3300)
_BESIDE_EXTENDED = tuple(cost * 13 // 10 if size > 4 else cost for size, cost in enumerate(_OTHER))
_EXTENDED = (0, 1060, 1200, 1300, 1500, 1900, 2350, 2700, 2950, 3300, 3400, 3700, 4000, 4400, 4500, 4900)
_COMMON = """
    the and of you that is are for with this have your my it was be can what not about would from they but how we
    our will an just like some there their at on if or as me to in i i'm it's a he she his her so do has had were been
    when which all more one out up get know think going really good here import return def class function self
"""
_ENGLISH_WORDS = frozenset(_COMMON.split())
# Per run of letters: a fixed part and a part per character, by script.
_SCRIPTS = {
    "cyrillic": (680, 235),
    "greek": (250, 410),
    "arabic": (480, 310),
    "hebrew": (250, 490),
    "indic": (450, 330),
    "thai": (200, 460),
    "han": (100, 840),
    "kana": (100, 760),
    "hangul": (450, 620),
    "other": (500, 1500),
    "rare": (200, 2400),
}
_PUNCTUATION = (0, 1000, 1060, 1250)

_SHORT = 600  # characters of a line that is remembered: 16,384 of them take 10 MB at most

_TOKEN = re.compile(
    r"""
      (?P<word>[A-Z]?[a-zß-öø-ÿ]+|[A-ZÀ-ÖØ-Þ]+(?![a-zß-öø-ÿ])|[A-ZÀ-ÖØ-Þ])(?![\u0100-\u024f\u1e00-\u1eff])
    | (?P<extended>[A-Za-zÀ-ÖØ-öø-\u024f\u1e00-\u1eff]+)
    | (?P<contraction>['’](?:s|t|re|ve|m|ll|d)(?![A-Za-z]))
    | (?P<digits>\ ?\d{1,3})
    | (?P<newline>[\ \t\r]*\n+)
    | (?P<spaces>[^\S\n]{2,}|[^\S\n](?=\Z|\n))
    | (?P<punctuation>[!-/:-@\[-`{-~]+[\r\n]*)
    | (?P<cyrillic>[\u0400-\u052f]+)
    | (?P<greek>[\u0370-\u03ff\u1f00-\u1fff]+)
    | (?P<arabic>[\u0600-\u06ff]+)
    | (?P<hebrew>[\u0590-\u05ff]+)
    | (?P<indic>[\u0900-\u0dff\u10a0-\u10ff\u0530-\u058f]+)
    | (?P<thai>[\u0e00-\u0eff]+)
    | (?P<han>[\u4e00-\u9fff]+)
    | (?P<kana>[\u3041-\u30ff]+)
    | (?P<hangul>[\uac00-\ud7a3\u3131-\u318e]+)
    | (?P<sign>[\u00a1-\u00bf\u2000-\u200c\u2010-\u2bff\u3000-\u303f\uff00-\uffef]
              |[\ufe0e\ufe0f\u200d\U0001f3fb-\U0001f3ff])
    | (?P<emoji>[\U0001f000-\U0001faff])
    | (?P<other>[\u0080-\u07ff]+)
    | (?P<rare>[^\s\x00-\u07ff]+)
    | (?P<control>[\x00-\x08\x0e-\x1f\x7f])
    """,
    re.VERBOSE,
)
_EXTENDED_LETTER = re.compile("[\u0100-\u024f\u1e00-\u1eff]")
_LINE = re.compile(r"[^\n]*\n+|[^\n]+")
_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")


class EstimateCounter:
    """An estimate of o200k_base tokens from character classes alone: no download, no data.

    Measured against o200k_base on 8 MB of text (totals, estimate over exact count): English chat +7 %, English answers
    with Markdown +4 %, German +4 to +5 %, Spanish +8 to +10 %, French +10 %, Italian +1 %, Polish +2 %, Turkish +12 %,
    Russian +12 to +21 %, Ukrainian -3 %, Chinese chat +11 %, Japanese 0 to +14 %, Korean -2 to +11 %, Arabic +10 %,
    Hindi +14 to +17 %, Thai +17 %, Python +13 %, JavaScript +14 %, C +17 %, JSON +4 %, lines full of emoji +12 %.
    A single English message lies between -3 and +12 % (5th and 95th percentile, from 30 tokens on), German between -5
    and +15 %, Chinese between -3 and +26 %. Too low for: traditional Chinese (-7 to 0 %), and text that is no language:
    base64 -14 %, words of random letters -60 %. Other tokenizers differ from o200k_base by more than that.

    Never more tokens than UTF-8 bytes.
    """

    @property
    def name(self) -> str:
        """The version of the table of costs; changing a cost changes it."""
        return "estimate-1"

    def count(self, text: str) -> int:
        """Tokens of `text`, rounded up; 0 for "".

        Never more for lines together than for them apart: count(a + nl + b) <= count(a + nl) + count(b).
        """
        return -(-sum(map(_line_cost, _LINE.findall(text))) // 1000)


def _line_cost(line: str) -> int:
    """Thousandths of a token; those of short lines are remembered, as budgets count the same turns again and again."""
    return _short_line_cost(line) if len(line) <= _SHORT else _counted_line_cost(line)


@lru_cache(maxsize=16384)
def _short_line_cost(line: str) -> int:
    return _counted_line_cost(line)


def _counted_line_cost(line: str) -> int:
    table = _latin_table(line)
    total = 0
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup or ""
        size = match.end() - match.start()
        if kind == "word":
            total += _word_cost(match.group(), size, table)
        elif kind in _SCRIPTS:
            fixed, each = _SCRIPTS[kind]
            total += fixed + each * size
        else:
            total += _piece_cost(kind, match.group(), size)
    return total


def _latin_table(line: str) -> tuple[int, ...]:
    if _EXTENDED_LETTER.search(line):
        return _BESIDE_EXTENDED
    return _ENGLISH if _reads_english(line) else _OTHER


def _word_cost(word: str, size: int, table: tuple[int, ...]) -> int:
    if size < 3:
        return table[size]
    if word.isupper():
        return 400 + size * 330
    if size < 16:
        return table[size] + (0 if word.isascii() else 250)
    # Compounds of natural languages end somewhere; what goes on is a hash or a key.
    return size * 240 if size < 32 else size * 400


def _piece_cost(kind: str, piece: str, size: int) -> int:
    if kind == "extended":
        return _EXTENDED[size] if size < 16 else size * 330
    if kind == "digits":
        return 2000 if piece[0] == " " else 1000
    if kind == "punctuation":
        size = len(piece.rstrip("\r\n"))
        if size > 3 and piece.count(piece[0]) == size:
            return 1000 + size * 60  # a rule of dashes or the like
        return _PUNCTUATION[size] if size < 4 else size * 420
    return {"contraction": 600, "newline": 1000, "spaces": 1000, "sign": 1100, "emoji": 2200, "control": 1000}[kind]


def _reads_english(line: str) -> bool:
    """True when at least one word in five is a common English one."""
    words = _WORD.findall(line.lower())
    return sum(map(_ENGLISH_WORDS.__contains__, words)) * 5 >= len(words)


class TiktokenCounter:
    """Exact o200k_base counts (GPT-4o and later) by tiktoken.

    Raises:
        MissingExtraError: when tiktoken is not installed.
        ModelNotAvailableError: when its ranks are not in its cache: they are never downloaded.
    """

    def __init__(self) -> None:
        try:
            tiktoken = importlib.import_module("tiktoken")
        except ImportError as error:
            raise MissingExtraError(
                "exact token counts need tiktoken: pip install 'backread[tiktoken]'",
                hint="pip install 'backread[tiktoken]', or use the estimate",
            ) from error
        if not _ranks_cached():
            raise ModelNotAvailableError(
                f"tiktoken has no cached ranks for {_ENCODING}, and backread doesn't download them",
                hint="set TIKTOKEN_CACHE_DIR to a folder that holds them, or use the estimate",
            )
        self._encode = tiktoken.get_encoding(_ENCODING).encode_ordinary

    @property
    def name(self) -> str:
        """Names the encoding."""
        return f"tiktoken:{_ENCODING}"

    def count(self, text: str) -> int:
        """Tokens of `text`; names of special tokens are ordinary text, lone surrogates count as U+FFFD."""
        return len(self._encode(text))


def default_counter() -> TokenCounter:
    """Exact counts when tiktoken is installed and its ranks are cached already, else the estimate; no download."""
    if importlib.util.find_spec("tiktoken") is not None and _ranks_cached():
        return TiktokenCounter()
    return EstimateCounter()


def _ranks_cached() -> bool:
    """True when the file tiktoken would read exists and is the right one (tiktoken fetches a wrong one anew)."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder == "":  # tiktoken's way of switching its cache off
        return False
    path = Path(folder or Path(tempfile.gettempdir()) / "data-gym-cache")
    # tiktoken names the file by the SHA-1 of where it came from.
    path /= hashlib.sha1(_RANKS_URL.encode(), usedforsecurity=False).hexdigest()
    try:
        status = path.stat()
    except OSError:
        return False
    return _verified(str(path), status.st_size, status.st_mtime_ns)


@cache
def _verified(path: str, size: int, mtime_ns: int) -> bool:
    """True when the file's hash is that of the ranks; size and time are there to notice a new file."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() == _RANKS_SHA256
    except OSError:
        return False
