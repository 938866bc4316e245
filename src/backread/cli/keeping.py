"""`backread verify`, `reindex` and `stats`: looking after a store."""

from __future__ import annotations

from typing import Annotated

import typer

from backread.cli.failures import ExitCode
from backread.cli.opening import open_memory, typed
from backread.cli.options import AsJson, StorePath, UserIfAny
from backread.cli.output import counted, emit, note, pairs, plain, shown, size, table, tell
from backread.cli.progress import bar, spinner

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
            note(f"{typed('reindex --text', path)} mends postings; for the rest restore the file from a backup")
        tell(f"\n{counted(len(report.faults), 'fault')}" if report.faults else "\nno fault")
    if not report.ok:
        raise typer.Exit(ExitCode.FAULTS)


def reindex(
    text: Annotated[bool, typer.Option("--text", help="Derive the text index again as well.")] = False,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Embed what has no vector yet, with the embedder that is set.

    After a change of embedder the old vectors serve until the new ones are
    complete. May be stopped anywhere; the next run goes on from there.

      backread reindex
      backread reindex --text
    """
    with open_memory(path, embedder=True) as memory:
        total = memory.pending()
        try:
            with bar("embedding turns", total) as advance:
                left = memory.reindex(text=text, on_progress=advance)
        except KeyboardInterrupt:
            note(f"stopped; {typed('reindex', path)} goes on from here")
            raise
        embedder = memory.embedder
    if as_json:
        emit({"embedded": total - left, "pending": left, "text": text, "embedder": embedder and embedder.fingerprint})
        return
    done = ["the text index was derived again"] if text else []
    done.append("no embedder is set: no vectors" if embedder is None else f"{counted(total - left, 'turn')} embedded")
    done += [f"{left:,} pending"] if left else []
    tell("; ".join(done))


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
