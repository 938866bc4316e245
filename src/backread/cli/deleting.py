"""`backread delete` and `scrub`: erasing a turn, a session or a user, to the last byte."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backread.cli.completing import session_ids
from backread.cli.opening import open_memory, typed
from backread.cli.options import AsJson, StorePath, User
from backread.cli.output import counted, emit, note, shown, tell
from backread.cli.progress import spinner
from backread.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from backread.memory import Memory

__all__ = ["delete", "scrub"]


def delete(
    user: User,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="Only this session.", autocompletion=session_ids)
    ] = None,
    turn: Annotated[str | None, typer.Option("--turn", "-t", metavar="ID", help="Only this turn.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Erase a turn, a session, or everything of a user.

    What was derived from it goes too, and the bytes are overwritten: there is
    no way back. Asks first, and says how much it is; where nobody can be asked,
    `--yes` is needed.

      backread delete --user ann --turn tqp3yfktrtqdg2ue
      backread delete --user ann --session 2025-03-27
      backread delete --user ann --yes
    """
    chosen = {"session_id": session, "turn_id": turn}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    for name, value in {"user_id": user, **chosen}.items():
        if not (value or "").strip():
            raise InvalidInputError(f"{name} is empty", hint="that is never taken for everything; name what to delete")
    with open_memory(path) as memory:
        what = _described(memory, user, session, turn)
        if not yes and not _confirmed(what):
            note("nothing was deleted", label="")
            return
        receipt = memory.delete(user_id=user, **_arguments(chosen))
    if as_json:
        emit(receipt)
        return
    gone = [counted(receipt.turns, "turn")]
    gone += [f"{counted(receipt.sessions, 'session')} (whole)"] if receipt.sessions else []
    gone += [f"{receipt.vectors:,} vectors"] if receipt.vectors else []
    gone += [f"{receipt.entries:,} entries derived from them"] if receipt.entries else []
    sys.stdout.write(f"deleted {', '.join(gone)} of user {shown(user)}\n")
    if receipt.to_rebuild:
        note(f"{counted(receipt.to_rebuild, 'turn')} wait for entries to be built again")
    if receipt.pending_scrub:
        note(f"bytes of it may still be in the files: something reads the store; {typed('scrub', path)} finishes it")


def scrub(path: StorePath = None, as_json: AsJson = False) -> None:
    """Leave no byte of what was deleted: write the store anew.

    Every delete does this by itself; where it could not end (the disk was full,
    the process was killed, something else reads the store), it is done here.
    `backread verify` says whether it is due. Takes a second for every 30 MB.

      backread scrub
      backread scrub --path memory.db --json
    """
    with open_memory(path) as memory, spinner("writing the store anew"):
        memory.scrub()
        where = memory.settings.path
    if as_json:
        emit({"path": where, "scrubbed": True})
    else:
        tell(f"nothing that was deleted is left in {shown(str(where))}")


def _arguments(chosen: dict[str, str | None]) -> dict[str, Any]:
    return dict(chosen)


def _described(memory: Memory, user: str, session: str | None, turn: str | None) -> str:
    """What would be deleted, in words.

    Raises:
        NotFoundError: there is nothing of that name.
    """
    if turn is not None:
        found = memory.get(turn, user_id=user)
        if session is not None and found.session_id != session:
            raise NotFoundError(f"turn {turn!r} of user {user!r} is not in session {session!r}")
        start = " ".join(found.text[:60].split()) + ("…" if len(found.text) > 60 else "")
        return f"1 turn of user {user!r} ({found.name}: “{start}”)"
    sessions = memory.sessions(user_id=user)
    if session is not None:
        own = next((item for item in sessions if item.session_id == session), None)
        if own is None:
            raise NotFoundError(f"user {user!r} has no session {session!r}", hint="list them: backread sessions")
        return f"session {session!r} of user {user!r} with {counted(own.turns, 'turn')}"
    if not sessions:
        raise NotFoundError(f"user {user!r} has no turns in this store", hint="list them: backread users")
    turns = sum(item.turns for item in sessions)
    return f"everything of user {user!r}: {counted(turns, 'turn')} in {counted(len(sessions), 'session')}"


def _confirmed(what: str) -> bool:
    if not is_terminal():
        raise InvalidInputError(f"this would delete {what}", hint="nobody can be asked here: say --yes if it is meant")
    return typer.confirm(shown(f"Delete {what}?"), err=True)


def is_terminal() -> bool:
    """True when somebody can be asked."""
    return sys.stdin.isatty()
