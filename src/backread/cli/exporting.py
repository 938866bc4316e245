"""`backread export`: a history as JSON lines, which `import` takes back."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from backread.cli.opening import open_memory
from backread.cli.options import AsJson, StorePath, User
from backread.cli.output import counted, emit, note, size
from backread.cli.progress import bar
from backread.errors import InvalidInputError

__all__ = ["export"]

_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def export(
    user: User,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, in one step. Default: stdout.")
    ] = None,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Write every turn of a user as JSON lines.

    One message a line, in history order; `backread import --format jsonl` takes
    them back unchanged. A file appears when it is complete, readable by you
    alone. With `--json`: one array on stdout, or what was written to FILE.

      backread export --user ann -o ann.jsonl
      backread export --user ann | gzip > ann.jsonl.gz
    """
    with open_memory(path) as memory:
        total = sum(session.turns for session in memory.sessions(user_id=user))
        if not total:
            note(f"user {user!r} has no turns in this store")
        messages = memory.export(user_id=user)
        if output is not None and str(output) != "-":
            with bar("exporting turns", total) as advance, _written(output) as file:
                for message in messages:
                    file.write(_line(message))
                    advance(1)
                file.flush()
                written = file.tell()
            if as_json:
                emit({"user_id": user, "turns": total, "output": output, "bytes": written})
            else:
                note(f"wrote {counted(total, 'turn')} to {output} ({size(written)})", label="")
        elif as_json:
            _array_to_stdout(messages)
        else:
            _to_stdout(messages)


def _array_to_stdout(messages: Iterable[dict[str, Any]]) -> None:
    """One JSON array, written message by message."""
    sys.stdout.write("[")
    for number, message in enumerate(messages):
        sys.stdout.write(("," if number else "") + "\n" + json.dumps(message))
    sys.stdout.write("\n]\n")


def _to_stdout(messages: Iterable[dict[str, Any]]) -> None:
    sys.stdout.flush()
    for message in messages:
        sys.stdout.buffer.write(_line(message))
    sys.stdout.buffer.flush()


def _line(message: dict[str, Any]) -> bytes:
    """A message as a line of JSON in UTF-8; what UTF-8 can't hold, and what some take for a line end, is escaped."""
    try:
        return json.dumps(message, ensure_ascii=False).translate(_LINE_ENDS).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(message).encode() + b"\n"


@contextmanager
def _written(output: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `output` when the block ends, and leaves no trace when it fails."""
    output = output.resolve()
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{output.name[:100]}.", dir=output.parent)
    except OSError as error:
        raise InvalidInputError(f"{output} can't be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, output)
    except OSError as error:
        raise InvalidInputError(f"{output} can't be written: {error.strerror}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
