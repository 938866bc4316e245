"""Reasoning that a model wrote before its answer, told apart from the answer.

Only what leads is reasoning: `<think>…</think>` (or `<thinking>`) at the very start, or everything up to a line that
starts with a closing tag nobody opened, as models leave whose chat template opened it for them. A tag anywhere else
is a word of the answer.
"""

from __future__ import annotations

import re

__all__ = ["Thoughts", "VisibleText", "split_thinking"]

_BLANK = re.compile(r"\s*")
_OPEN = re.compile(r"<(think(?:ing)?)>", re.IGNORECASE)
_CLOSE = {name: re.compile(f"</{name}>", re.IGNORECASE) for name in ("think", "thinking")}
_ORPHAN = re.compile(r"^[ \t]*</think(?:ing)?>", re.IGNORECASE | re.MULTILINE)
_OPENINGS = ("<think>", "<thinking>")
_LONGEST_TAG = len("</thinking>")


class Thoughts:
    """A text in two parts.

    Attributes:
        reasoning: None when there is none.
        answer: what is left; "" when the text is reasoning to its end.
    """

    __slots__ = ("answer", "reasoning")

    def __init__(self, reasoning: str | None, answer: str) -> None:
        self.reasoning, self.answer = reasoning, answer


def split_thinking(text: str) -> Thoughts:
    """The reasoning a text starts with and the answer after it.

    An opening tag that is never closed makes all of the text reasoning: the output ended before the answer began.
    """
    thoughts: list[str] = []
    at = 0
    while opened := _OPEN.match(text, _end_of_blank(text, at)):
        closed = _CLOSE[opened[1].lower()].search(text, opened.end())
        thoughts.append(text[opened.end() : closed.start() if closed else None])
        if closed is None:
            return Thoughts("\n".join(thoughts), "")
        thoughts[-1] = thoughts[-1].strip()
        at = closed.end()
    if thoughts:
        return Thoughts("\n".join(thoughts).strip(), text[at:].lstrip())
    if not text.lstrip().startswith(("{", "[")):
        orphan = _ORPHAN.search(text)
        if orphan and not any(opening in text[: orphan.start()].lower() for opening in _OPENINGS):
            return Thoughts(text[: orphan.start()].strip(), text[orphan.end() :].lstrip())
    return Thoughts(None, text)


def _end_of_blank(text: str, start: int) -> int:
    blank = _BLANK.match(text, start)
    return blank.end() if blank else start


class VisibleText:
    """Lets the answer of a stream through and holds leading reasoning back.

    A closing tag that nobody opened is seen too late: what came before it has been shown by then.
    """

    def __init__(self) -> None:
        self._blank: list[str] = []  # white space before anything else: shown, unless a thought follows
        self._held = ""  # what may be the beginning of a tag; never longer than one
        self._closing: re.Pattern[str] | None = None  # of the thought that is open
        self._thought = False
        self._answering = False

    def feed(self, piece: str) -> str:
        """What may be shown now that `piece` came; "" while it is not sure."""
        if self._answering:
            return piece
        text, at = self._held + piece, 0
        while True:
            if self._closing is not None:
                closed = self._closing.search(text, at)
                if closed is None:
                    self._held = text[max(at, len(text) - _LONGEST_TAG) :]
                    return ""
                self._closing, self._thought, at = None, True, closed.end()
            start = _end_of_blank(text, at)
            self._blank.append(text[at:start])
            opened = _OPEN.match(text, start)
            if opened is None:
                break
            self._closing, at = _CLOSE[opened[1].lower()], opened.end()
        self._held = text[start:]
        begun = text[start : start + _LONGEST_TAG].lower()
        return "" if any(opening.startswith(begun) for opening in _OPENINGS) else self._release()

    def end(self) -> str:
        """What was held back and turned out to be no reasoning."""
        return "" if self._answering or self._closing is not None else self._release()

    def _release(self) -> str:
        self._answering = True
        held, self._held = self._held, ""
        return held if self._thought else "".join([*self._blank, held])
