"""How a command ends: exit codes, and errors as people and programs read them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum
from errno import EBADF, EIO, ENOSPC
from itertools import takewhile
from typing import Final, cast

import typer

from backread.errors import BackreadError, ModelError, NotFoundError, StoreError

__all__ = ["CODES", "ExitCode", "PipeClosedError", "exit_code", "guarded", "wants_debug", "wants_json"]


class ExitCode(IntEnum):
    """What the process says when it ends."""

    OK = 0
    BUG = 1
    INPUT = 2
    NOT_FOUND = 3
    STORE = 4
    MODEL = 5
    FAULTS = 6
    INTERRUPTED = 130
    PIPE = 141


CODES: Final[tuple[tuple[ExitCode, str], ...]] = (
    (ExitCode.OK, "done; a search that finds nothing is done too"),
    (ExitCode.BUG, "an error backread did not expect: a bug"),
    (ExitCode.INPUT, "usage, or input that can't be used; nothing was stored"),
    (ExitCode.NOT_FOUND, "no such store, user, session, turn or name"),
    (ExitCode.STORE, "the store could not be read or written"),
    (ExitCode.MODEL, "a model could not do its work"),
    (ExitCode.FAULTS, "verify or doctor found a fault, or rescue could not save everything"),
    (ExitCode.INTERRUPTED, "interrupted; what was stored stays"),
    (ExitCode.PIPE, "nobody reads the output any more, or it could not be written"),
)
"""Every exit code with its meaning, as the help shows it."""

# typer carried click along from some version on and depends on it before: this is the class in both.
_CLICK_ERROR: Final = cast(
    type[Exception], next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
)


class PipeClosedError(Exception):
    """Whoever read the output closed the pipe. Not an OSError, so that typer doesn't make it exit code 1."""


def exit_code(error: BaseException) -> ExitCode:
    """The exit code of an error."""
    if isinstance(error, NotFoundError):
        return ExitCode.NOT_FOUND
    if isinstance(error, StoreError):
        return ExitCode.STORE
    if isinstance(error, ModelError):
        return ExitCode.MODEL
    return ExitCode.INPUT if isinstance(error, BackreadError | _CLICK_ERROR) else ExitCode.BUG


def wants_json(args: Sequence[str]) -> bool:
    """True when a command line asks for JSON; words after "--" are no options."""
    return "--json" in takewhile(lambda arg: arg != "--", args)


def wants_debug(args: Sequence[str]) -> bool:
    """True when tracebacks are wanted: `--debug` before the command, or BACKREAD_DEBUG set."""
    return "--debug" in takewhile(lambda arg: arg.startswith("-"), args) or bool(os.environ.get("BACKREAD_DEBUG"))


def guarded(call: Callable[[], object], args: Sequence[str]) -> int:
    """Run a command and return its exit code; every error ends here, on stderr."""
    try:
        outcome = call()
        sys.stdout.flush()
    except (PipeClosedError, BrokenPipeError):
        _discard_output()
        return ExitCode.PIPE
    except SystemExit as exit_:
        # Nothing of ours exits. typer does after completion, and with 1, as rich, when nobody reads the help.
        if exit_.code in (None, 0):
            return ExitCode.OK
        return ExitCode.PIPE if exit_.code == 1 else ExitCode.BUG
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        return ExitCode.INTERRUPTED
    except typer.Exit as exit_:
        return exit_.exit_code
    except Exception as error:  # noqa: BLE001 -- the last place: reported as what it is, with a code of its own
        with contextlib.suppress(OSError):  # nobody reads stderr either
            _report(error, args)
        if _of_output(error):
            _discard_output()
            return ExitCode.PIPE
        return exit_code(error)
    if outcome == ExitCode.INTERRUPTED:  # typer's own word for Ctrl-C
        sys.stderr.write("interrupted\n")
    return outcome if isinstance(outcome, int) else ExitCode.OK


def _report(error: Exception, args: Sequence[str]) -> None:
    if wants_debug(args):
        traceback.print_exception(error)
    message, hint = _told(error)
    if wants_json(args):
        told = {"error": {"type": type(error).__name__, "message": message, "hint": hint}}
        sys.stderr.write(json.dumps(told) + "\n")
        return
    from backread.text.fencing import safe

    sys.stderr.write(safe(f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")))


def _told(error: Exception) -> tuple[str, str | None]:
    """The message and the hint of an error."""
    if isinstance(error, BackreadError):
        return str(error), error.hint
    if isinstance(error, _CLICK_ERROR):
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} --help" if context is not None else None
        return getattr(error, "format_message", lambda: str(error))(), hint
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", "check the path, its permissions and the free disk space"
    if _of_output(error):
        return f"the output can't be written: {error}", None
    return (
        f"unexpected {type(error).__name__}: {error}",
        "this is a bug: run again as `backread --debug …` and report it",
    )


def _of_output(error: Exception) -> bool:
    """Whether stdout could not be written. Errors of files name the file, those of the store are our own."""
    return isinstance(error, OSError) and error.filename is None and error.errno in (EBADF, EIO, ENOSPC)


def _discard_output() -> None:
    """Send what is still buffered nowhere, or Python would complain about the closed pipe at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return  # stdout is no file of the system (a test): nothing to flush at exit
