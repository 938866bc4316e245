"""`backread build` and `backread entries`: the write-time work of a strategy, and what it wrote."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from backread.cli.completing import strategy_names
from backread.cli.opening import open_memory
from backread.cli.options import AsJson, StorePath, User
from backread.cli.output import counted, emit, note, notes, plain, shown, table, tell
from backread.cli.progress import bar

if TYPE_CHECKING:
    from types import FrameType

    from backread.types import BuildReport

__all__ = ["build", "entries", "stoppable"]


def build(
    user: User,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy", metavar="NAME", help="Whose work. Default: BACKREAD_STRATEGY.", autocompletion=strategy_names
        ),
    ] = None,
    flush: Annotated[bool, typer.Option("--flush", help="Also what is still open: the latest session.")] = False,
    maintain: Annotated[bool, typer.Option("--maintain", help="The design's offline passes after it.")] = False,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Do a strategy's write-time work on what is new.

    It can be stopped at any time and goes on from there; turns can be added
    meanwhile. Designs that work when the question comes have nothing to do.

      backread build --user ann --strategy t2mem
      backread build --user ann --strategy lightmem --flush --maintain
    """
    with open_memory(path, embedder=True, chat=True) as memory, stoppable() as stop:
        sessions = len(memory.sessions(user_id=user))
        with bar("build", sessions or None) as advance:
            report = memory.build(
                user_id=user,
                strategy=strategy,
                flush=flush,
                maintain=maintain,
                on_step=lambda step: advance(1),
                cancel=stop,
            )
    if as_json:
        emit(report)
        return
    tell(_summary(report))
    for session_id, reason in report.failed:
        note(f"{session_id}: {reason}; the next build tries again", label="failed")
    notes(report.degraded)
    if stop.is_set():
        raise KeyboardInterrupt


def entries(
    user: User,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="NAME", help="Whose entries.", autocompletion=strategy_names)
    ],
    kind: Annotated[str | None, typer.Option("--kind", metavar="NAME", help="Only entries of this kind.")] = None,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """List what a strategy built, with the turns it rests on.

    backread entries --user ann --strategy t2mem
    """
    with open_memory(path) as memory:
        found = memory.entries(user_id=user, strategy=strategy, kind=kind)
    if as_json:
        emit(found)
        return
    rows = table("entry", "kind", "when", "turns", "text", right=["turns"], fold=["entry", "text"])
    for entry in found:
        when = "unknown" if entry.said_at is None else entry.said_at.date().isoformat()
        sources = {source.turn_id for source in entry.sources}
        text = " ".join(shown(entry.index_text).split())
        rows.add_row(shown(entry.entry_id), shown(entry.kind), when, str(len(sources)), text[:300])
    tell(rows)
    note(f"{len(found):,}", label="entries")


def _summary(report: BuildReport) -> str:
    calls = sum(usage.calls for usage in report.usage)
    known = [usage.input_tokens for usage in report.usage if usage.input_tokens is not None]
    written = [usage.output_tokens for usage in report.usage if usage.output_tokens is not None]
    tokens = f", {sum(known):,} tokens read and {sum(written):,} written" if known and written else ""
    took = f"; {counted(calls, 'model call')}{tokens}" if calls else "; no model was called"
    return f"{plain(report.strategy)}: {report.put:,} written, {report.dropped:,} dropped{took}"


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets once, so that the work at hand is kept; the second time it interrupts."""
    stop = threading.Event()

    def first(number: int, frame: FrameType | None) -> None:
        note("stopping after the work at hand; press Ctrl-C again to stop now", label="")
        stop.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
