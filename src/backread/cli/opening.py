"""Opening the store of a command, with only the models the command needs."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from backread.errors import NotFoundError
from backread.settings import Settings, resolve

if TYPE_CHECKING:
    from backread.memory import Memory

__all__ = ["open_memory", "store_settings", "typed"]


def store_settings(path: Path | None) -> Settings:
    """The settings of a command whose `--path` is `path`, with the folder of models filled in."""
    from backread.models.fetch import models_dir

    settings = resolve(path=path)
    return replace(settings, models_dir=models_dir(settings.models_dir))


def open_memory(path: Path | None, *, create: bool = False, embedder: bool = False, chat: bool = False) -> Memory:
    """The store of a command.

    Args:
        path: the command's `--path`; None is the settings' path.
        create: make the store when it is missing; else a misspelt path would become an empty store.
        embedder: the command searches or embeds; without it no weights are looked at.
        chat: the command asks the chat model; without it a chat model that can't work stops nothing.

    Raises:
        NotFoundError: there is no store and `create` is False.
    """
    from backread.memory import Memory

    settings = resolve(path=path)
    if not create and not settings.path.exists():
        raise NotFoundError(
            f"there is no store at {settings.path}",
            hint="`backread add` makes one; or name yours with --path or BACKREAD_PATH",
        )
    if not embedder:
        settings = replace(settings, embedder="none")
    if not chat:
        settings = replace(settings, model=None)
    return Memory.open(settings=settings)


def typed(command: str, path: Path | None) -> str:
    """A command to type next, in backquotes, on the store of this one.

    Args:
        command: "reindex", with its options.
        path: this command's `--path`; None is the settings' store, which the next command finds by itself.
    """
    return f"`backread {command}`" if path is None else f"`backread {command} --path {shlex.quote(str(path))}`"
