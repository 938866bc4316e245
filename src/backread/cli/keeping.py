"""`backread verify`, `reindex` and `stats`: looking after a store."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backread.cli.failures import ExitCode
from backread.cli.opening import open_memory, store_settings, typed
from backread.cli.options import AsJson, StorePath, UserIfAny
from backread.cli.output import counted, emit, note, pairs, plain, shown, size, table, tell
from backread.cli.progress import bar, spinner
from backread.errors import InvalidInputError

if TYPE_CHECKING:
    from backread.memory import Memory

__all__ = ["reindex", "stats", "verify"]

_FAULTS = 50


def verify(user: UserIfAny = None, path: StorePath = None, as_json: AsJson = False) -> None:
    """Prove the store: derive everything again and compare.

    Names every fault and mends none. Ends with 6 when there are faults.

      backread verify
      backread verify --user ann --json
    """
    with open_memory(path) as memory, spinner("verifying"):
        report = memory.verify(user_id=user)
    if as_json:
        emit({"ok": report.ok, **plain(report)})
    else:
        tell(pairs((name, f"{number:,} checked") for name, number in report.checked.items()))
        if report.faults:
            made = table("kind", "which", "fault", fold=("which", "fault"))
            for fault in report.faults[:_FAULTS]:
                made.add_row(fault.where, shown(fault.what), shown(fault.detail))
            tell("", made)
            if len(report.faults) > _FAULTS:
                tell(f"… and {len(report.faults) - _FAULTS:,} more (all of them with --json)")
            note(f"{typed('reindex --text', path)} mends postings; for the rest restore a backup, or `backread rescue`")
        for notice in report.notices:
            note(shown(notice))
        tell(f"\n{counted(len(report.faults), 'fault')}" if report.faults else "\nno fault")
    if not report.ok:
        raise typer.Exit(ExitCode.FAULTS)


def reindex(
    to: Annotated[
        str | None, typer.Option("--to", metavar="NAME", help="Embed with this embedder and change over to it.")
    ] = None,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Search by the vectors of the embedder before again.")
    ] = False,
    drop_previous: Annotated[
        bool, typer.Option("--drop-previous", help="Free the vectors kept for --rollback.")
    ] = False,
    text: Annotated[bool, typer.Option("--text", help="Derive the text index again as well.")] = False,
    ann: Annotated[
        bool, typer.Option("--ann", help="Build nearest-neighbour indexes for very large histories.")
    ] = False,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Embed what has no vector yet, with the embedder that is set.

    After a change of embedder the old vectors serve until the new ones are
    complete, and are kept to go back to. May be stopped anywhere; the next run
    goes on from there.

      backread reindex
      backread reindex --to qwen3-0.6b
      backread reindex --rollback
      backread reindex --drop-previous
      backread reindex --ann
    """
    if sum((rollback, text, ann, to is not None or drop_previous)) > 1:
        raise InvalidInputError(
            "--rollback, --text and --ann go alone; --to and --drop-previous may go together",
            hint="one after the other",
        )
    if ann:
        _build_ann(path, as_json)
    elif rollback:
        _roll_back(path, as_json)
    elif drop_previous and to is None:
        _drop_previous(path, as_json)
    else:
        _embed(to, text, drop_previous, path, as_json)


def _embed(to: str | None, text: bool, drop_previous: bool, path: Path | None, as_json: bool) -> None:
    command = "reindex" if to is None else f"reindex --to {shlex.quote(to)}"
    with _opened_with(to, path) as memory:
        total, before = memory.pending(), memory.previous_embedder
        try:
            with bar("embedding turns", total) as advance:
                left = memory.reindex(text=text, keep_previous=not drop_previous, on_progress=advance)
        except KeyboardInterrupt:
            note(f"stopped; {typed(command, path)} goes on from here")
            raise
        embedder, previous = memory.embedder, memory.previous_embedder
    fingerprint = embedder and embedder.fingerprint
    if as_json:
        counts = {"embedded": total - left, "pending": left, "text": text}
        emit({**counts, "embedder": fingerprint, "previous": previous})
    else:
        done = ["the text index was derived again"] if text else []
        embedded = f"{counted(total - left, 'turn')} embedded"
        done.append("no embedder is set: no vectors" if embedder is None else embedded)
        done += [f"{left:,} pending"] if left else []
        tell("; ".join(done))
        if previous not in (None, before):
            back, free = typed("reindex --rollback", path), typed("reindex --drop-previous", path)
            tell(f"the vectors of {previous} are kept: {back} goes back to them, {free} frees them")
    if left and to is not None:
        note(f"the vectors from before stay in use until none is pending: {typed(command, path)} goes on from here")
    elif to is not None and to != (set_now := store_settings(path).embedder):
        note(f"set BACKREAD_EMBEDDER={shlex.quote(to)}: as long as it is {set_now}, search goes by words only")


def _build_ann(path: Path | None, as_json: bool) -> None:
    with open_memory(path) as memory, spinner("building nearest-neighbour indexes"):
        built = memory.maintain(newer=0.0)
    if as_json:
        emit({"built": built})
    else:
        tell(f"{counted(built, 'nearest-neighbour file')} built" if built else "no history is large enough to need one")


def _opened_with(to: str | None, path: Path | None) -> Memory:
    """The store, open with the embedder that is set, or with the one called `to`."""
    if to is None:
        return open_memory(path, embedder=True)
    from backread.memory import Memory

    with open_memory(path) as memory:  # there must be a store
        settings = memory.settings
    return Memory.open(settings=replace(settings, embedder=to))


def _roll_back(path: Path | None, as_json: bool) -> None:
    with open_memory(path, embedder=True) as memory:
        with spinner("going back"):
            left = memory.rollback()
        fingerprint, previous, embedder = memory.stats().embedder, memory.previous_embedder, memory.embedder
    if as_json:
        emit({"pending": left, "embedder": fingerprint, "previous": previous})
    else:
        pending = f"; {counted(left, 'turn')} added since pending" if left else ""
        tell(f"the vectors of {fingerprint} are in use again, those of {previous} are kept{pending}")
    if embedder is None or embedder.fingerprint != fingerprint:
        note(f"set BACKREAD_EMBEDDER to the embedder of {fingerprint}: until then search goes by words only")


def _drop_previous(path: Path | None, as_json: bool) -> None:
    with open_memory(path) as memory:
        previous = memory.previous_embedder
        with spinner("writing the file anew"):
            dropped = memory.drop_previous()
    if as_json:
        emit({"dropped": previous if dropped else None})
    else:
        tell(f"the vectors of {previous} are gone" if dropped else "no vectors of an embedder before this one are kept")


def stats(user: UserIfAny = None, path: StorePath = None, as_json: AsJson = False) -> None:
    """Count what the store holds.

    backread stats
    backread stats --user ann --json
    """
    with open_memory(path, embedder=True) as memory:
        found, where = memory.stats(user_id=user), memory.settings.path
    if as_json:
        emit({"path": where, "user_id": user, **plain(found)})
        return
    rows = [("store", str(where))]
    rows += [("user", shown(user))] if user is not None else []
    rows += [
        (name, f"{getattr(found, name):,}") for name in ("users", "sessions", "turns", "entries", "postings", "vectors")
    ]
    rows.append(("pending", f"{found.pending:,} turns without a vector"))
    rows += [("size", size(found.bytes)), ("embedder", found.embedder or "none yet")]
    tell(pairs(rows))
