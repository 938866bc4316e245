"""Progress of long work, on stderr: a bar with an estimate of the time left where it is a terminal, else nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from backread.cli.output import console

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

__all__ = ["Advance", "bar", "spinner"]


class Advance(Protocol):
    """Moves a bar."""

    def __call__(self, steps: int, /) -> None:
        """`steps` more are done."""
        ...


@contextmanager
def bar(title: str, total: int | None, *, in_bytes: bool = False) -> Iterator[Advance]:
    """A bar over `total` steps, None when nobody knows; what is yielded moves it. Of no steps there is no bar."""
    err = console(sys.stderr)
    if not err.is_terminal or total == 0:
        yield lambda steps: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    amount: ProgressColumn = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), amount, TimeElapsedColumn())
    left = (TextColumn("left", style="dim"), TimeRemainingColumn())
    with Progress(*columns, *left, console=err) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)


@contextmanager
def spinner(title: str) -> Iterator[None]:
    """Something that turns while work of unknown length goes on."""
    err = console(sys.stderr)
    if not err.is_terminal:
        yield
        return
    with err.status(title):
        yield
