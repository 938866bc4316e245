"""The standard streams, made safe before anything is read or printed: any of them may be closed."""

from __future__ import annotations

import io
import os
import sys
from typing import NoReturn

__all__ = ["open_streams"]


def open_streams() -> None:
    """Put something where a standard stream is closed, and let every text through the others.

    What reads a closed stdin finds its end; what prints on a closed stdout finds that nobody reads it; what goes to a
    closed stderr is dropped. The numbers 0, 1 and 2 are taken either way, so that no file of ours gets one of them.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, _Unread() if name == "stdout" else os.fdopen(number, "w" if number else "r"))
        elif isinstance(stream, io.TextIOWrapper) and name != "stdin":
            # A text the terminal's encoding can't show must not stop a command half-way.
            stream.reconfigure(errors="backslashreplace")


class _Unread(io.TextIOBase):
    """A stdout that nobody reads: writing to it fails as to a pipe whose other end is closed."""

    encoding = "utf-8"

    @property
    def buffer(self) -> _Unread:
        """As of any text stream."""
        return self

    def fileno(self) -> int:
        """The number of stdout."""
        return 1

    def write(self, text: object) -> NoReturn:
        """Fail.

        Raises:
            BrokenPipeError: always.
        """
        raise BrokenPipeError("stdout is closed")
