"""Completion in the shell: its script, and what the user may mean by the first letters of a name.

Whatever goes wrong while a name is completed, nothing is offered and nothing is said.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backread.errors import BackreadError, InvalidInputError

if TYPE_CHECKING:
    from backread.memory import Memory

__all__ = ["SHELLS", "model_names", "script", "session_ids", "strategy_names", "user_ids"]

SHELLS: Final = ("bash", "zsh", "fish", "powershell", "pwsh")


def script(ctx: Any, *, install: bool, shell: str | None) -> None:  # noqa: ANN401 -- typer's context
    """Print or install the script for a shell, and exit; None is the shell that is running.

    Raises:
        InvalidInputError: there is none for this shell, or which shell it is can't be told.
    """
    from typer.completion import install_callback, show_callback

    option = "--install-completion" if install else "--show-completion"
    shell = shell or _running_shell()
    if shell not in SHELLS:
        said = f"there is no completion for the shell {shell!r}" if shell else "which shell this is can't be told"
        raise InvalidInputError(said, hint=f"name one: backread {option} {'|'.join(SHELLS[:3])}")
    callback: Callable[[Any, Any, str], object] = install_callback if install else show_callback
    callback(ctx, None, shell)


def _running_shell() -> str | None:
    try:
        import shellingham  # type: ignore[import-untyped]
    except ImportError:
        return Path(os.environ.get("SHELL", "")).name or None
    try:
        return str(shellingham.detect_shell()[0])
    except (shellingham.ShellDetectionFailure, OSError):
        return Path(os.environ.get("SHELL", "")).name or None


def user_ids(ctx: Any, incomplete: str) -> list[str]:  # noqa: ANN401
    """Users of the command's store that start so."""
    return _found(ctx, incomplete, lambda memory: memory.users())


def session_ids(ctx: Any, incomplete: str) -> list[str]:  # noqa: ANN401
    """Sessions of the command's user, as far as one was named."""
    user = ctx.params.get("user")
    return _found(
        ctx,
        incomplete,
        lambda memory: [session.session_id for session in memory.sessions(user_id=user)] if user else [],
    )


def strategy_names(incomplete: str) -> list[str]:
    """Designs and their presets."""
    from backread.strategies.registry import STRATEGIES

    return _starting(STRATEGIES, incomplete)


def model_names(incomplete: str) -> list[str]:
    """Models that can be fetched by name."""
    from backread.models.fetch import MODELS

    return _starting(MODELS, incomplete)


def _found(ctx: Any, incomplete: str, names: Callable[[Memory], Iterable[str]]) -> list[str]:  # noqa: ANN401
    from backread.cli.opening import open_memory

    path = ctx.params.get("path")
    try:
        with open_memory(None if path is None else Path(path)) as memory:
            return _starting(names(memory), incomplete)
    except (BackreadError, OSError):
        return []


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and name.isprintable()]
