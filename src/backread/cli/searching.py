"""`backread search`: turns that match, best first."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from backread.cli.completing import session_ids
from backread.cli.opening import open_memory, typed
from backread.cli.options import AsJson, AsOf, StorePath, User
from backread.cli.output import counted, emit, note, notes, shown, tell
from backread.cli.wording import excerpt, joined, marked, turn_heading

if TYPE_CHECKING:
    from rich.table import Table

    from backread.types import Hit, Hits

__all__ = ["Mode", "search"]


class Mode(StrEnum):
    """The retrievers, as choices."""

    HYBRID = "hybrid"
    INTERPOLATION = "interpolation"
    RRF = "rrf"
    BM25 = "bm25"
    DENSE = "dense"


def search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for; words need no quotes.")],
    user: User,
    top_k: Annotated[int, typer.Option("--top-k", "-k", metavar="N", min=1, help="Hits at most.")] = 10,
    mode: Annotated[Mode, typer.Option(help="Words and meaning together (three ways), or one of them.")] = Mode.HYBRID,
    speaker: Annotated[str | None, typer.Option(metavar="NAME", help="Only turns of this speaker.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="Only this session.", autocompletion=session_ids)
    ] = None,
    role: Annotated[list[str] | None, typer.Option(metavar="ROLE", help="Only this role; may be repeated.")] = None,
    after: Annotated[str | None, typer.Option(metavar="TIME", help="Only turns said then or later.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Only turns said before.")] = None,
    as_of: AsOf = None,
    full: Annotated[bool, typer.Option("--full", help="Show whole texts instead of excerpts.")] = False,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Find turns by words and by meaning.

    A query is words, never syntax. Texts over 300 characters are cut around
    what matched and marked with their full length; JSON always has all of them,
    and of each attachment its type, bytes and SHA-256: `backread show --json`
    gives the attachments themselves. Finding nothing is no error.

      backread search --user ann spare key
      backread search --user ann -k 3 --after 2025-03-01 --json boiler
    """
    text = joined(query)
    with open_memory(path, embedder=True) as memory:
        hits = memory.search(
            text,
            user_id=user,
            top_k=top_k,
            mode=mode.value,
            roles=role or None,
            speaker=speaker,
            session_id=session,
            after=after,
            before=before,
            as_of=as_of,
            attachments="named",
        )
        empty = not hits and user not in memory.users()
    if as_json:
        emit(hits)
        return
    if hits:
        tell(_hits(hits, text, full))
    notes(hits.degraded, hits.pending, reindex=typed("reindex", path))
    if not hits:
        note(f"user {user!r} has no turns in this store" if empty else "nothing found")


def _hits(hits: Hits, query: str, full: bool) -> Table:
    from rich.table import Table

    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    made.add_column(justify="right", no_wrap=True)
    made.add_column(overflow="fold")
    for rank, hit in enumerate(hits, 1):
        _add(made, rank, hit, query, full)
    return made


def _add(made: Table, rank: int, hit: Hit, query: str, full: bool) -> None:
    turn = hit.turn
    made.add_row(f"{rank}", turn_heading(turn, score(hit.score)))
    line, cut = (shown(turn.text), False) if full else excerpt(turn.text, query)
    body = marked(line, query)
    if cut:
        body.append(f" [cut; {len(turn.text):,} characters in all]", "dim")
    made.add_row("", body)
    if turn.caption:
        made.add_row("", marked(f"[image: {shown(turn.caption)}]", query))
    if hit.also:
        others = ", ".join(other.turn_id for other in hit.also[:3])
        more = f" and {len(hit.also) - 3:,} more" if len(hit.also) > 3 else ""
        made.add_row("", f"[the same words {counted(len(hit.also), 'more time')}: {others}{more}]")


def score(value: float) -> str:
    """A score in six characters: scores compare within one search only, their size says nothing."""
    return f"{value:.4f}" if abs(value) < 10 else f"{value:6.2f}"
