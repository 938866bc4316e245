"""Words of the command line: joined as they were typed, and the part of a text that a search found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backread.cli.output import shown
from backread.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.text import Text

    from backread.types import Turn

__all__ = ["excerpt", "joined", "marked", "turn_heading"]

WHOLE = 300
"""Characters of the longest text that is shown whole."""

EXCERPT = 240
"""Characters shown of a longer one."""


def joined(words: Sequence[str]) -> str:
    """All words with one space between them, bytes that came from the shell read as UTF-8.

    Raises:
        InvalidInputError: the bytes are no UTF-8.
    """
    text = " ".join(words)
    try:
        return os.fsencode(text).decode("utf-8", "surrogatepass")
    except UnicodeEncodeError:
        return text  # not from the shell: it is text already
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"the words are not UTF-8: {error}") from error


def excerpt(text: str, query: str) -> tuple[str, bool]:
    """A text on one line, a long one cut to what is around the words of the query; and whether it was cut."""
    if len(text) <= WHOLE:
        return " ".join(shown(text).split()), False
    from backread.text.analysis import query_terms
    from backread.text.excerpts import excerpt as best_span

    terms = {term.term for term in query_terms(query) if not term.stop}
    start, end = best_span(text, terms, max_tokens=EXCERPT, count=len)
    cut = end - start < len(text.strip())
    line = " ".join(shown(text[start:end]).split())
    return f"{'… ' if text[:start].strip() else ''}{line}{' …' if text[end:].strip() else ''}", cut


def marked(line: str, query: str) -> Text:
    """`line` with the words of the query emphasised, where colours are shown at all."""
    from rich.text import Text

    from backread.text.analysis import tokens

    made = Text(line)
    wanted = _stems(query)
    for token in tokens(line):
        if token.stem in wanted:
            made.stylize("bold yellow", token.start, token.end)
    return made


def turn_heading(turn: Turn, *parts: str) -> Text:
    """When, who, where, and the id of a turn, in one line."""
    from rich.text import Text

    from backread.text.times import format_time

    heading = Text(style="dim", overflow="fold")
    for part in parts:
        heading.append(f"{part}  ")
    heading.append(f"{format_time(turn.time, received=turn.received)}  ")
    heading.append(shown(turn.name), "not dim bold")
    heading.append(f"  {shown(turn.session_id)}  {turn.turn_id}")
    return heading


def _stems(query: str) -> frozenset[str]:
    """The stems of a query's words, without function words unless there are no others."""
    from backread.text.analysis import tokens

    found = list(tokens(query))
    return frozenset(token.stem for token in found if not token.stop) or frozenset(token.stem for token in found)
