"""Reasoning that a model wrote before its answer, told apart from the answer.

Only what leads is reasoning: `<think>…</think>` (or `<thinking>`) at the very start, or everything up to a line that
starts with a closing tag nobody opened, as models leave whose chat template opened it for them. A tag anywhere else
is a word of the answer.
"""

from __future__ import annotations

import re

__all__ = ["Thoughts", "VisibleText", "split_thinking"]

_OPEN = re.compile(r"\s*<(think(?:ing)?)>", re.IGNORECASE)
_ORPHAN = re.compile(r"^[ \t]*</think(?:ing)?>", re.IGNORECASE | re.MULTILINE)
_OPENINGS = ("<think>", "<thinking>")


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
    rest = text
    while match := _OPEN.match(rest):
        thought, closed, rest = _partition(rest[match.end() :], f"</{match[1]}>")
        thoughts.append(thought)
        if not closed:
            return Thoughts("\n".join(thoughts), "")
    if not thoughts and not rest.lstrip().startswith(("{", "[")):
        orphan = _ORPHAN.search(rest)
        if orphan and not any(opening in rest[: orphan.start()].lower() for opening in _OPENINGS):
            return Thoughts(rest[: orphan.start()].strip(), rest[orphan.end() :].lstrip())
    return Thoughts("\n".join(thoughts).strip(), rest.lstrip()) if thoughts else Thoughts(None, rest)


def _partition(text: str, closing: str) -> tuple[str, bool, str]:
    at = text.lower().find(closing.lower())
    return (text, False, "") if at < 0 else (text[:at].strip(), True, text[at + len(closing) :])


class VisibleText:
    """Lets the answer of a stream through and holds leading reasoning back.

    A closing tag that nobody opened is seen too late: what came before it has been shown by then.
    """

    def __init__(self) -> None:
        self._held = ""
        self._thought = False
        self._answering = False

    def feed(self, piece: str) -> str:
        """What may be shown now that `piece` came; "" while it is not sure."""
        if self._answering:
            return piece
        self._held += piece
        while match := _OPEN.match(self._held):
            _, closed, rest = _partition(self._held[match.end() :], f"</{match[1]}>")
            if not closed:
                return ""
            self._held, self._thought = rest, True
        start = self._held.lstrip().lower()
        if any(opening.startswith(start) for opening in _OPENINGS):
            return ""
        return self._release()

    def end(self) -> str:
        """What was held back and turned out to be no reasoning."""
        return "" if self._answering or _OPEN.match(self._held) else self._release()

    def _release(self) -> str:
        self._answering = True
        held, self._held = self._held, ""
        return held.lstrip() if self._thought else held
