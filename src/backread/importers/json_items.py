"""The objects of a JSON list, read one at a time.

LongMemEval's files are lists of 277 MB and more, which `json.load` turns into several times that in memory. Here only
one object is held: the buffer grows until the object that starts it is whole, twice as large at each try so that the
work stays linear in the size of the file.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from backread.errors import ImportFormatError
from backread.importers.base import open_file

__all__ = ["JsonItems"]

_CHUNK = 1 << 20
_MAX_ITEM = 1 << 28
_BLANKS = " \t\n\r"


class JsonItems:
    """Iterates over the objects of the JSON list in `path`; `sha256` is the file's hash once the end was reached.

    Raises (while iterating):
        ImportFormatError: the file can't be read, isn't a JSON list of objects, ends early or isn't UTF-8.
    """

    def __init__(self, path: Path, *, chunk: int = _CHUNK) -> None:
        self._path = path
        self._chunk = chunk
        self.sha256 = ""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with open_file(self._path) as file:
            window = _Window(file, self._path, self._chunk)
            window.expect("[", "a JSON list")
            number = 0
            while window.peek() != "]":
                if number:
                    window.expect(",", "a comma")
                yield window.item(number)
                number += 1
            window.expect("]", "the end of the list")
            window.expect("", "the end of the file")
            self.sha256 = window.digest.hexdigest()


class _Window:
    """The part of the file that is in memory: text from `at` on is still to be read."""

    def __init__(self, file: BinaryIO, path: Path, chunk: int) -> None:
        self.digest = hashlib.sha256()
        self._file = file
        self._path = path
        self._chunk = chunk
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._text = ""
        self._at = 0
        self._ended = False

    def peek(self) -> str:
        """The next character that isn't white space, "" at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANKS:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def expect(self, mark: str, name: str) -> None:
        """Steps over `mark`, "" standing for the end of the file."""
        found = self.peek()
        if found != mark:
            shown = repr(found) if found else "the end of the file"
            raise ImportFormatError(f"{self._path}: expected {name}, found {shown}")
        self._at += len(mark)

    def item(self, number: int) -> dict[str, Any]:
        """The object that comes next."""
        if self.peek() != "{":
            raise ImportFormatError(f"{self._path}: item {number} of the list is not an object")
        while True:
            try:
                value, self._at = json.JSONDecoder().raw_decode(self._text, self._at)
            except ValueError as error:  # not whole yet, or no JSON at all
                unfinished = isinstance(error, json.JSONDecodeError) and len(self._text) <= _MAX_ITEM
                if not unfinished or not self._more():
                    raise ImportFormatError(f"{self._path}: item {number} can't be read: {error}") from error
            except RecursionError as error:
                raise ImportFormatError(f"{self._path}: item {number} is nested too deep") from error
            else:
                return dict(value)

    def _more(self) -> bool:
        """Reads on, at least as much as is held already; False at the end of the file."""
        if self._ended:
            return False
        left = self._text[self._at :]
        data = self._file.read(max(self._chunk, len(left)))
        self.digest.update(data)
        self._ended = not data
        try:
            self._text = left + self._decode.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            raise ImportFormatError(f"{self._path} is not UTF-8: {error.reason}") from error
        self._at = 0
        return True
