"""What commands print: data on stdout, everything else on stderr; JSON for programs, plain or rich text for people.

Stored text may hold anything, so what people see goes through `shown`, which takes out terminal controls. On a terminal
lines are wrapped to its width; elsewhere they are as long as what they say, without colours and without boxes, so that
ids stay whole and `grep` works.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from backread.text.fencing import safe
from backread.wire import json_text, plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from backread.types import Degradation

__all__ = ["console", "counted", "emit", "note", "notes", "plain", "shown", "size", "table", "tell", "write_bytes"]

_UNWRAPPED = 100_000
"""Width for output that no person looks at directly: nothing is wrapped."""


def emit(value: object) -> None:
    """Print `value` as JSON. Only ASCII is written, so any text (lone surrogates too) comes back as it was."""
    sys.stdout.write(json_text(value, indent=2) + "\n")


def write_bytes(text: str) -> None:
    """Write text to stdout exactly: no newline added, none translated; UTF-8 whatever the locale."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()


def console(stream: TextIO | None = None, *, width: int | None = None) -> Console:
    """A rich console that takes text literally: no markup, no emoji codes, no guessed colours.

    Args:
        stream: where to; stdout as it is now when None.
        width: columns where the stream is no terminal; None wraps nothing there.
    """
    from rich.console import Console

    class Literal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # ours to report; rich's own way is to exit with 1

    stream = sys.stdout if stream is None else stream
    made = Literal(file=stream, markup=False, emoji=False, highlight=False, legacy_windows=False)
    if not made.is_terminal:
        made = Literal(
            file=stream, markup=False, emoji=False, highlight=False, color_system=None, width=width or _UNWRAPPED
        )
    return made


def tell(*parts: RenderableType, width: int | None = None) -> None:
    """Print for people, on stdout, without blanks at the ends of lines where it is no terminal."""
    out = console(width=width)
    if out.is_terminal:
        out.print(*parts, sep="\n")
        return
    with out.capture() as captured:
        out.print(*parts, sep="\n", soft_wrap=False)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().removesuffix("\n").split("\n")))


def note(text: str, *, label: str = "note") -> None:
    """A line for people on stderr."""
    sys.stderr.write(f"{label}: {shown(text)}\n" if label else f"{shown(text)}\n")


def notes(degraded: Sequence[Degradation], pending: int = 0, *, reindex: str = "") -> None:
    """What worked less well than asked, on stderr; `reindex` is the command that embeds what is pending."""
    for item in degraded:
        count = "" if item.count is None else f" ({item.count:,})"
        note(f"{item.part}: {item.reason}{count}")
    if pending:
        turns = counted(pending, "turn")
        note(f"{turns} without a vector yet, found by words only; {reindex} embeds them")


def shown(text: str) -> str:
    """Stored text as it may go to a terminal: visible words kept, controls replaced."""
    return safe(text)


def table(*columns: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> Table:
    """An empty table. Columns in `right` are numbers; those in `fold` give way, inside a word if need be.

    Nothing is ever cut: a column that gives way goes on in the next line.
    """
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=name not in fold, overflow="fold")
    return made


def pairs(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """A table of names and values."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, value)
    return made


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 turn", "1,200 turns"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: int) -> str:
    """Bytes for people: "640 bytes", "1.3 MB"."""
    amount, unit = float(number), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{number} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
