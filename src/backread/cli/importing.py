"""`backread import`: a file of another program, or of a benchmark, into the store."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from backread.cli.failures import ExitCode
from backread.cli.loading import Embedded, Loaded, embed, load
from backread.cli.opening import open_memory, store_settings, typed
from backread.cli.options import AsJson, StorePath
from backread.cli.output import counted, emit, note, pairs, plain, shown, tell
from backread.cli.progress import spinner
from backread.errors import InvalidInputError

if TYPE_CHECKING:
    from backread.importers import Imported, ImportedSession, ImportReport

__all__ = ["Format", "import_file"]

_EXAMPLES = 3
_LOOKED_AT = 4 << 20


class Format(StrEnum):
    """The importers, as choices."""

    JSONL = "jsonl"
    LOCOMO = "locomo"
    LONGMEMEVAL = "longmemeval"


_NAMES: Mapping[Format, tuple[bytes, ...]] = {
    Format.LONGMEMEVAL: (b'"question_id"', b'"haystack_'),
    Format.LOCOMO: (b'"conversation"', b'"dia_id"'),
}
"""What stands near the start of a file of each benchmark."""


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to import.")],
    format_: Annotated[
        Format | None, typer.Option("--format", "-f", help="The file's format. Default: what it looks like.")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", "-u", metavar="ID", help="Whose history. A file of one other user goes to this one."),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(metavar="NAME", help="Time zone of times without one, as Europe/Paris. Default: UTC.")
    ] = None,
    no_vectors: Annotated[
        bool, typer.Option("--no-vectors", help="Don't embed now; `backread reindex` does it later.")
    ] = False,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Import a file of conversations.

    Importing the same file twice stores nothing new, so an import that was
    stopped is finished by running it again. Text is searchable as soon as it is
    stored; vectors follow and may be stopped with Ctrl-C. Questions and gold
    answers of benchmarks are counted, never stored. A file that names several
    users is not imported under one name.

      backread import chats.jsonl --user ann
      backread import locomo10.json --path locomo.db
    """
    started = time.monotonic()
    imported = _read(file, format_ or _guess(file), user, _zone(zone, path))
    with open_memory(path, create=True, embedder=not no_vectors) as memory:
        loaded = load(memory, imported)
        wanted = loaded.finished and not no_vectors
        vectors = embed(memory, list(loaded.users), reindex=typed("reindex", path)) if wanted else None
    seconds = time.monotonic() - started
    if as_json:
        emit(_json(imported.report, loaded, vectors, seconds))
    else:
        _print(imported.report, loaded, _vectors(vectors, typed("reindex", path)), seconds)
    if not loaded.finished:
        sessions = f"{loaded.sessions:,} of {counted(len(imported.sessions), 'session')}"
        note(f"stopped after {sessions}; the same command goes on from there")
        raise typer.Exit(ExitCode.INTERRUPTED)
    if vectors is not None and vectors.interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if loaded.rejected and not loaded.stored and not loaded.known:
        raise typer.Exit(ExitCode.INPUT)


def _guess(file: Path) -> Format:
    if file.suffix.lower() in (".jsonl", ".ndjson"):
        return Format.JSONL
    try:
        with file.open("rb") as opened:
            start = opened.read(_LOOKED_AT)
    except OSError as error:
        hint = "name a file, with --format where it doesn't tell by itself"
        raise InvalidInputError(f"{file} can't be read: {error.strerror}", hint=hint) from error
    for format_, names in _NAMES.items():
        if all(name in start for name in names):
            return format_
    raise InvalidInputError(f"the format of {file} is not clear", hint=f"say it: --format {'|'.join(Format)}")


def _zone(name: str | None, path: Path | None) -> ZoneInfo:
    settings = store_settings(path)
    return (settings if name is None else replace(settings, zone=name)).zone_info


def _read(file: Path, format_: Format, user: str | None, zone: ZoneInfo) -> Imported:
    from backread.importers import importer

    with spinner(f"reading {file.name}"):
        imported = importer(format_.value)(file, zone=zone, user_id=user)
    return imported if user is None else _given_to(user, imported, file)


def _given_to(user: str, imported: Imported, file: Path) -> Imported:
    """What was read, under the name that was asked for.

    Raises:
        InvalidInputError: the file names several users, who must not become one.
    """
    named = list(dict.fromkeys(session.user_id for session in imported.sessions if session.user_id != user))
    if not named:
        return imported
    if len(named) > 1:
        several = ", ".join(map(repr, named[:_EXAMPLES])) + (", …" if len(named) > _EXAMPLES else "")
        raise InvalidInputError(
            f"{file} names {len(named):,} users ({several}), and --user is one: nothing was stored",
            hint="leave --user out to keep their names, or import a file of each user's lines",
        )
    note(f"the file says {named[0]!r}; imported as {user!r}")
    return replace(imported, sessions=_Renamed(imported.sessions, user), report=replace(imported.report, users=1))


class _Renamed(Collection["ImportedSession"]):
    """Sessions under another user's name, read anew each time as they are themselves."""

    def __init__(self, sessions: Collection[ImportedSession], user: str) -> None:
        self._sessions, self._user = sessions, user

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ImportedSession]:
        return (replace(session, user_id=self._user) for session in self._sessions)

    def __contains__(self, session: object) -> bool:
        return any(session == own for own in self)


def _json(report: ImportReport, loaded: Loaded, vectors: Embedded | None, seconds: float) -> dict[str, Any]:
    told: dict[str, Any] = plain(report)
    told["kinds"] = dict(report.kinds)
    told |= plain(loaded)
    told["sessions"], told["sessions_stored"] = report.sessions, loaded.sessions
    told["users"] = report.users
    told["vectors"] = plain(vectors)
    told["seconds"] = round(seconds, 3)
    return told


def _print(report: ImportReport, loaded: Loaded, vectors: str, seconds: float) -> None:
    rows = [
        ("users", f"{report.users:,}"),
        ("sessions", f"{report.sessions:,}"),
        ("turns", f"{report.turns:,}"),
        ("  stored", f"{loaded.stored:,}"),
        ("  known", f"{loaded.known:,}"),
        ("  rejected", f"{len(loaded.rejected):,}"),
    ]
    if report.skipped_blank or report.skipped_sessions:
        rows.append(("skipped", f"{report.skipped_blank:,} blank messages, {report.skipped_sessions:,} empty sessions"))
    if report.questions:
        rows.append(("questions", f"{report.questions:,}, not stored"))
    rows.append(("vectors", vectors))
    rows.append(("seconds", f"{seconds:.1f}"))
    tell(pairs(rows))
    for kind, number in report.kinds.items():
        tell(f"\n{kind}: {number:,}")
        examples = [item for item in report.irregularities if item.kind == kind][:_EXAMPLES]
        tell(*(f"  {shown(item.where)}: {shown(item.detail)}" for item in examples))
        if number > len(examples):
            tell(f"  … and {number - len(examples):,} more (all of them with --json)")
    for item in loaded.rejected[:_EXAMPLES]:
        note(f"{item.user_id}, {item.session_id}, {item.external_id or 'no id'}: {item.reason}", label="rejected")
    if len(loaded.rejected) > _EXAMPLES:
        note(f"… and {len(loaded.rejected) - _EXAMPLES:,} more (all of them with --json)", label="rejected")


def _vectors(vectors: Embedded | None, reindex: str) -> str:
    if vectors is None:
        return f"none made; {reindex} makes them"
    if vectors.reason is None:
        return "complete"
    return f"{vectors.pending:,} pending: {vectors.reason}" if vectors.pending else vectors.reason
