"""`backread add`: messages from words, stdin, a file, or a list of messages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from backread.cli.completing import session_ids
from backread.cli.opening import open_memory
from backread.cli.options import AsJson, StorePath, User
from backread.cli.output import counted, emit, note
from backread.cli.wording import joined
from backread.errors import InvalidInputError
from backread.types import AddReceipt

__all__ = ["add"]


def add(
    user: User,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS", help="The text; all words are kept. Or - for stdin.")
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", "-s", metavar="ID", help="The sitting. Default: a new one.", autocompletion=session_ids
        ),
    ] = None,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="user, assistant, system, tool or participant. Default: user.")
    ] = None,
    speaker: Annotated[str | None, typer.Option(metavar="NAME", help="Who said it.")] = None,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it was said, as 2025-03-27T16:10. Default: received now.")
    ] = None,
    external_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Your id of it: added again, it is stored once.")
    ] = None,
    caption: Annotated[str | None, typer.Option(metavar="TEXT", help="Describes an image shared with it.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="The text is what the file holds.")
    ] = None,
    messages: Annotated[
        str | None,
        typer.Option("--messages", "-m", metavar="FILE|-", help="OpenAI messages: a JSON array, or one a line."),
    ] = None,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Keep messages, word for word.

    Words need no quotes. With - or without words the text is read from stdin,
    exactly as it comes, line end included. No model is called.

      backread add --user ann The spare key is under the blue pot
      git log -1 | backread add --user ann --session work -
      backread add --user ann --messages chat.json --session 2025-03-27
    """
    described = {"role": role, "name": speaker, "timestamp": time, "id": external_id, "caption": caption}
    if sum((bool(words), file is not None, messages is not None)) > 1:
        raise typer.BadParameter("give words, --file or --messages, one of them")
    described = {key: value for key, value in described.items() if value is not None}
    if messages is not None and described:
        raise typer.BadParameter("--messages brings its own role, speaker, time, id and caption")
    text = {"role": "user", **described}
    given = [text | {"content": _text(words, file)}] if messages is None else read_messages(messages)
    with open_memory(path, create=True) as memory:
        receipt = memory.add(given, user_id=user, session_id=session)
    _print(receipt, as_json)


def _print(receipt: AddReceipt, as_json: bool) -> None:
    if as_json:
        emit(receipt)
        return
    sys.stdout.write("".join(f"{turn_id}\n" for turn_id in receipt.turn_ids))
    known = f", {receipt.known:,} known already" if receipt.known else ""
    rejected = f", {len(receipt.rejected):,} rejected" if receipt.rejected else ""
    note(f"stored {counted(receipt.stored, 'turn')} in session {receipt.session_id}{known}{rejected}", label="")
    for item in receipt.rejected:
        note(f"message {item.position + 1}: {item.reason}", label="rejected")


def _text(words: list[str] | None, file: Path | None) -> str:
    if file is not None:
        return _decoded(_read(file), str(file))
    if words and words != ["-"]:
        return joined(words)
    return _decoded(_stdin("the text"), "stdin")


def read_messages(source: str) -> list[dict[str, Any]]:
    """The messages of a file, or of stdin for "-": a JSON array, an object with `messages`, one message, or JSON lines.

    Raises:
        InvalidInputError: it is none of them, and where it stops being one.
    """
    name = "stdin" if source == "-" else source
    text = _decoded(_stdin("messages") if source == "-" else _read(Path(source)), name).removeprefix("\ufeff")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = [_json_line(line, number, name) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if isinstance(found, dict):
        found = found["messages"] if isinstance(found.get("messages"), list) else [found]
    if not isinstance(found, list) or not found:
        raise InvalidInputError(
            f"{name} holds no messages", hint='messages are [{"role": "user", "content": "…"}, …], or one such a line'
        )
    return found


def _json_line(line: str, number: int, name: str) -> Any:  # noqa: ANN401 -- checked by the one who takes it
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{name}, line {number}: not JSON: {error}", hint="give a JSON array of messages, or one message a line"
        ) from error


def _stdin(what: str) -> bytes:
    if sys.stdin.isatty():
        note(f"reading {what} from the terminal; end with Ctrl-D on a line of its own")
    return sys.stdin.buffer.read()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path} can't be read: {error.strerror}") from error


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{name} is not UTF-8: {error}", hint="convert it first, for example with iconv"
        ) from error
