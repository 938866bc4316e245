"""Prompts: files beside the code, in parts, and the hash that names them in records."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Prompt", "read_prompt"]


class Prompt(NamedTuple):
    """A prompt's parts.

    Attributes:
        rules: the part before the line "---", for the system message: the same for every request.
        form: the part behind it, for the end of the request, where small models still follow it; "" without one.
        hash: 16 hexadecimal digits of the file's SHA-256.
        example: what is asked in a worked example, before the form; "" without one.
        reply: what is replied in it.
    """

    rules: str
    form: str
    hash: str
    example: str = ""
    reply: str = ""


@cache
def read_prompt(package: str, name: str) -> Prompt:
    """The prompt `prompts/<name>.md` of a package."""
    text = files(package).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
    rules, form, example, reply, *_ = (*text.split("\n---\n"), "", "", "")
    return Prompt(
        rules.strip(), form.strip(), hashlib.sha256(text.encode()).hexdigest()[:16], example.strip(), reply.strip()
    )
