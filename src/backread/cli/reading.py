"""`backread users`, `sessions` and `show`: reading the record as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from backread.cli.completing import session_ids
from backread.cli.opening import open_memory
from backread.cli.options import AsJson, StorePath, User
from backread.cli.output import emit, note, shown, table, tell, write_bytes
from backread.cli.wording import turn_heading

if TYPE_CHECKING:
    from backread.types import Turn

__all__ = ["sessions", "show", "users"]


def users(path: StorePath = None, as_json: AsJson = False) -> None:
    """List everyone who has turns.

    backread users
    """
    with open_memory(path) as memory:
        found = [(name, *memory.size(user_id=name)) for name in memory.users()]
    if as_json:
        emit([{"user_id": name, "sessions": sessions, "turns": turns} for name, sessions, turns in found])
        return
    made = table("user", "sessions", "turns", right=("sessions", "turns"), fold=("user",))
    for name, own_sessions, turns in found:
        made.add_row(shown(name), f"{own_sessions:,}", f"{turns:,}")
    if found:
        tell(made)
    else:
        note("the store is empty")


def sessions(user: User, path: StorePath = None, as_json: AsJson = False) -> None:
    """List the sessions of a user, oldest first.

    backread sessions --user ann
    """
    with open_memory(path) as memory:
        found = memory.sessions(user_id=user)
    if as_json:
        emit(found)
        return
    from backread.text.times import format_time

    made = table("session", "turns", "from", "to", right=("turns",), fold=("session",))
    for session in found:
        times = (format_time(session.started_at), format_time(session.ended_at))
        made.add_row(shown(session.session_id), f"{session.turns:,}", *times)
    if found:
        tell(made)
    else:
        note(f"user {user!r} has no turns in this store")


def show(
    user: User,
    turn_id: Annotated[str | None, typer.Argument(metavar="[TURN_ID]", help="A turn id, or your own id of it.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="A whole session.", autocompletion=session_ids)
    ] = None,
    context: Annotated[
        int, typer.Option("--context", "-C", metavar="N", min=0, help="Turns before and after it, in its session.")
    ] = 0,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the text of one turn, byte for byte, and nothing else.")
    ] = False,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Show a turn, the turns around it, or a session, in full.

    Control characters are replaced on the way to the terminal; `--raw` and
    `--json` give the text as it was stored.

      backread show --user ann tqp3yfktrtqdg2ue --context 2
      backread show --user ann --session 2025-03-27
    """
    if (turn_id is None) == (session is None):
        raise typer.BadParameter("give a TURN_ID or --session, one of them")
    if session is not None and (context or raw):
        raise typer.BadParameter("--context and --raw go with a TURN_ID")
    with open_memory(path) as memory:
        chosen = None if turn_id is None else memory.get(turn_id, user_id=user)
        turns = [] if chosen is None else [chosen]
        if chosen is None or context:
            turns = list(memory.turns(user_id=user, session_id=session if chosen is None else chosen.session_id))
    if chosen is not None and context:
        turns = [turn for turn in turns if abs(turn.position - chosen.position) <= context]
    if raw and chosen is not None:
        write_bytes(chosen.text)
    elif as_json:
        emit(turns if chosen is None or context else chosen)
    else:
        _print(turns, chosen.turn_id if chosen is not None and context else None)


def _print(turns: list[Turn], chosen: str | None) -> None:
    from rich.padding import Padding
    from rich.text import Text

    for number, turn in enumerate(turns):
        heading = turn_heading(turn, *(["→" if turn.turn_id == chosen else " "] if chosen else []))
        if turn.external_id is not None:
            heading.append(f" = {shown(turn.external_id)}")
        if turn.speaker:
            heading.append(f"  {turn.role}")
        body = Text(shown(turn.text), overflow="fold")
        if turn.caption:
            body.append(f"\n[image: {shown(turn.caption)}]")
        if turn.attachments:
            kinds = ", ".join(shown(str(item.get("type"))) for item in turn.attachments)
            body.append(f"\n[attachments: {kinds}]", "dim")
        if turn.supersedes:
            body.append(f"\n[replaces {turn.supersedes}]", "dim")
        tell(*([Text()] if number else []), heading, Padding(body, (0, 0, 0, 4), expand=False))
