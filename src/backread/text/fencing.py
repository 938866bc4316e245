"""Stored text is data: making it safe for the wire, and fencing it so that it can't pass for anything else.

The rule has three parts. `safe` removes what could act below the level of words: controls, lone surrogates, direction
overrides, and every line end but the newline. `quote` indents each line after the first, so that only the renderer
starts lines at the margin and a stored line can't forge a numbered item or a header. `fence` puts an id into the
opening and the closing tag that does not occur in what it encloses, so that stored text can't close its fence. None of
this stops a model from believing what it reads; it only makes sure the model can tell what was quoted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

__all__ = ["fence", "quote", "safe"]

_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# C0 without tab and newline, delete, C1 without NEL, lone surrogates, and the explicit bidirectional controls:
# embeddings and overrides (202A-202E), isolates (2066-2069). The marks LRM and RLM stay: they can't reorder other text.
_UNSAFE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

_LABEL = re.compile(r"[a-z][a-z0-9_-]*")


def safe(text: str) -> str:
    """`text` as it may be sent to a model, a terminal or a client; encodes as UTF-8 and keeps its visible words.

    Every kind of line end (CR, CRLF, VT, FF, NEL, U+2028, U+2029) becomes a newline. NUL and the other controls
    except tab, lone surrogates and the bidirectional embedding, override and isolate controls become U+FFFD, one for
    one. The record itself is never changed; offsets of a citation refer to the record, not to this form. Applying it
    twice changes nothing more.
    """
    return _UNSAFE.sub("\ufffd", _LINE_END.sub("\n", text))


def quote(text: str, *, indent: str = "    ") -> str:
    """`safe(text)` with every line after the first indented.

    The caller writes the first line behind its own number or name; because all further lines start with `indent`, no
    stored line can start at the margin where numbers and headers are read. Blank lines are indented too.
    """
    return safe(text).replace("\n", "\n" + indent)


def fence(lines: Sequence[str], *, label: str = "evidence") -> str:
    """`lines` made safe between `<label id="…">` and `</label id="…">`, joined by newlines; just the tags for no lines.

    The id is taken from a hash of the content, so the same lines give the same block (and a cached prompt), and it is
    drawn again until it does not occur in the content in any case. Text that wants to close the fence would have to
    contain its own hash.

    Raises:
        ValueError: when `label` is not a lower-case word of ASCII letters, digits, "-" and "_".
    """
    if not _LABEL.fullmatch(label):
        raise ValueError(f"label must be a lower-case word, not {label!r}")
    content = [safe(line) for line in lines]
    body = "\n".join(content)
    identity = _free_id(body)
    return "\n".join([f'<{label} id="{identity}">', *content, f'</{label} id="{identity}">'])


def _free_id(body: str) -> str:
    """Six hexadecimal digits that don't occur in `body`; more digits once it holds very many of them."""
    lowered = body.lower()
    digest = hashlib.sha256(body.encode()).hexdigest()
    for attempt in range(1_000_000):
        length = 6 + attempt // 8
        candidate = digest[:length]
        if candidate not in lowered:
            return candidate
        digest = hashlib.sha256(digest.encode()).hexdigest()
    raise AssertionError("unreachable: an id of 64 digits would have to be in the text for every attempt")
