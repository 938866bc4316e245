"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backread.cli.completing import strategy_names, user_ids

__all__ = ["AsJson", "AsOf", "AskedAt", "Budget", "Limit", "Question", "StorePath", "Strategy", "User", "UserIfAny"]

StorePath = Annotated[
    Path | None,
    typer.Option(
        "--path", "-p", metavar="FILE", help="The store. Default: BACKREAD_PATH, else the user's data folder."
    ),
]
User = Annotated[str, typer.Option("--user", "-u", metavar="ID", help="Whose history.", autocompletion=user_ids)]
UserIfAny = Annotated[
    str | None,
    typer.Option("--user", "-u", metavar="ID", help="Only this user. Default: everyone.", autocompletion=user_ids),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="TIME", help="The record as it stood then; undated turns are left out.")
]
AskedAt = Annotated[
    str | None,
    typer.Option("--asked-at", metavar="TIME", help="When the question is asked; tells the answerer the time."),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="N|none", help="Tokens of evidence shown at most. Default: BACKREAD_BUDGET, 1000."
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=N",
        envvar="BACKREAD_LIMITS",
        help="What one user and all together may ask for, such as asks_per_user=2; may be repeated. The page on the"
        " server lists all limits with their defaults.",
    ),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        metavar="NAME",
        help="How memory is made. Default: BACKREAD_STRATEGY, naive_rag.",
        autocompletion=strategy_names,
    ),
]
Question = Annotated[list[str], typer.Argument(metavar="QUESTION", help="The question; words need no quotes.")]
