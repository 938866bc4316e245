"""`backread backup` and `rescue`: a copy of a sound store, and what can be read of a damaged one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backread.cli.failures import ExitCode
from backread.cli.opening import open_memory
from backread.cli.options import AsJson, StorePath
from backread.cli.output import counted, emit, note, pairs, plain, shown, size, table, tell
from backread.cli.progress import spinner

__all__ = ["backup", "rescue"]

_LOST = 50

Force = Annotated[bool, typer.Option("--force", help="Take the place of a file that is there.")]


def backup(
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="The new file.")],
    force: Force = False,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Copy the whole store into one file, while it is in use.

    The copy is verified, and readable by you alone. To go back to it, stop what
    uses the store and put it in place of the store and its -wal and -shm files.

      backread backup memory-2026-11-30.db
    """
    with open_memory(path) as memory, spinner("copying and verifying"):
        made = memory.backup(dest, overwrite=force)
    if as_json:
        emit(plain(made))
        return
    rows = [("backup", str(made.path))]
    rows += [(name, f"{getattr(made, name):,}") for name in ("users", "sessions", "turns", "entries")]
    tell(pairs([*rows, ("size", size(made.bytes)), ("sha256", made.sha256), ("verified", "no fault")]))


def rescue(
    damaged: Annotated[Path, typer.Argument(metavar="DAMAGED", help="The damaged store; it is only read.")],
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="The new store.")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Save every turn that can be read of a damaged store into a new one.

    Each turn is proved by its checksum and keeps its id, times and order; those
    that are lost are listed, and it ends with 6 when there are any. Vectors and
    entries are not carried over: `backread reindex` and `build` make them anew.
    Stop what uses the damaged store first.

      backread rescue memory.db saved.db
    """
    from backread.store.rescue import rescue as save

    with spinner("reading every page"):
        report = save(damaged, dest, overwrite=force)
    if as_json:
        emit(plain(report))
    else:
        rows = [("saved to", str(report.path)), ("turns known", f"{report.known:,}"), ("  saved", f"{report.saved:,}")]
        rows += [("  lost", f"{len(report.lost):,}"), ("users", f"{report.users:,}")]
        tell(pairs([*rows, ("sessions", f"{report.sessions:,}")]))
        if report.lost:
            made = table("user", "lost turn", "why", fold=("user", "lost turn", "why"))
            for turn in report.lost[:_LOST]:
                made.add_row(shown(turn.user_id or "?"), shown(turn.turn_id or "?"), turn.reason)
            tell("", made)
            if len(report.lost) > _LOST:
                tell(f"… and {len(report.lost) - _LOST:,} more (all of them with --json)")
        if report.unproved:
            names = ", ".join(shown(name) for name in report.renamed) or "none"
            note(f"{counted(report.unproved, 'turn')} could not be proved by a checksum; names made up: {names}")
        if report.unlinked:
            note(f"{counted(len(report.unlinked), 'turn')} superseded a lost one and stand on their own now")
    if report.lost or report.unproved:
        raise typer.Exit(ExitCode.FAULTS)
