"""Stored text is data: making it safe for the wire, and fencing it so that it can't pass for anything else.

The rule has four parts. `safe` removes what could act below the level of words: controls, lone surrogates, direction
overrides, and every line end but the newline. `for_model` also breaks up what a chat template writes between messages
("<|im_end|>"), which a server may read as the end of our message wherever it stands. `quote` indents each line after
the first, so that only the renderer starts lines at the margin and a stored line can't forge a numbered item or a
header. `fence` puts an id into the opening and the closing tag that does not occur in what it encloses, so that stored
text can't close its fence. None of this stops a model from believing what it reads; it only makes sure the model can
tell what was quoted.

Whatever people or models wrote goes into a prompt through `quote` or `fence`, or, where it is a message of its own,
through `for_model`; people's terminals and pages need `safe` only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

__all__ = ["fence", "for_model", "quote", "safe"]

_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# C0 without tab and newline, delete, C1 without NEL, lone surrogates, and the explicit bidirectional controls:
# embeddings and overrides (202A-202E), isolates (2066-2069). The marks LRM and RLM stay: they can't reorder other text.
_UNSAFE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

# What chat templates put between messages, told by its form, so that a model that comes out tomorrow is covered too:
# a name between bars, in ASCII or full width (<|im_end|>, <｜User｜>, <|turn>, [|user|]); a tag whose name has an
# underscore, a colon or a hyphen (<start_of_turn>, <seed:bos>, [TOOL_CALLS]); and the short names, which have no
# form of their own. Every repetition is bounded and stops at a bracket: the time is linear, and no token hides inside
# another's brackets.
_SHORT_TAGS = (
    "s|bos|eos|pad|unk|mask|cls|sep|sop|eop|eot|eod|sys|inst|think|thinking|tools?|toolcall|function|img|image|audio|"
    r"video|unused-?\d{1,6}|0x[0-9a-f]{2}|\d{1,3}mass"
)
_SHORT_MARKS = (
    "inst|sys|[gs]?mask|cls|sep|pad|unk|@?[be]os@?|args|think|img|audio|prefix|middle|suffix|multimodal|"
    r"unused-?\d{1,6}"
)
_BARRED = r"[|｜][^][<>＜＞\n]{0,80}[|｜] | [|｜]/?[\w▁:/-]{1,80} | /?[\w▁:/-]{1,80}[|｜]"
_TAGGED = r"[a-z0-9]{1,40}(?:[_:-][a-z0-9]{1,40}){1,8}"
_CAPITALS = r"(?-i:[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,8})"
_CONTROL = re.compile(
    rf"""([<＜]) ({_BARRED} | /?(?:{_SHORT_TAGS}|{_TAGGED})) ([>＞])
      | (\[) (\|[^][<>＜＞\n]{{0,80}}\| | /?(?:{_SHORT_MARKS}|{_CAPITALS})) (\])""",
    re.IGNORECASE | re.VERBOSE,
)

_LABEL = re.compile(r"[a-z][a-z0-9_-]*")


def safe(text: str) -> str:
    """`text` as it may be sent to a model, a terminal or a client; encodes as UTF-8 and keeps its visible words.

    Every kind of line end (CR, CRLF, VT, FF, NEL, U+2028, U+2029) becomes a newline. NUL and the other controls
    except tab, lone surrogates and the bidirectional embedding, override and isolate controls become U+FFFD, one for
    one. The record itself is never changed; offsets of a citation refer to the record, not to this form. Applying it
    twice changes nothing more.
    """
    return _UNSAFE.sub("\ufffd", _LINE_END.sub("\n", text))


def for_model(text: str) -> str:
    """`safe(text)` without a control token of a chat template: "<|im_end|>" is shown as "< |im_end| >".

    Recognised by form, in any case: names between bars, tags and upper-case marks with an underscore, and short ones
    such as <s>, [INST] and <<SYS>>. A space behind the opening bracket and one before the closing one is all that is
    added, so the words can still be read and quoted. Applying it twice changes nothing more.
    """
    return _CONTROL.sub(_broken_up, safe(text))


def _broken_up(match: re.Match[str]) -> str:
    opening, inner, closing = (group for group in match.groups() if group is not None)
    return f"{opening} {inner} {closing}"


def quote(text: str, *, indent: str = "    ") -> str:
    """`for_model(text)` with every line after the first indented.

    The caller writes the first line behind its own number or name; because all further lines start with `indent`, no
    stored line can start at the margin where numbers and headers are read. Blank lines are indented too.
    """
    return for_model(text).replace("\n", "\n" + indent)


def fence(lines: Sequence[str], *, label: str = "evidence") -> str:
    """`lines`, as of `for_model`, between `<label id="…">` and `</label id="…">`, a line each; only the tags for none.

    The id is taken from a hash of the content, so the same lines give the same block (and a cached prompt), and it is
    drawn again until it does not occur in the content in any case. Text that wants to close the fence would have to
    contain its own hash.

    Raises:
        ValueError: when `label` is not a lower-case word of ASCII letters, digits, "-" and "_".
    """
    if not _LABEL.fullmatch(label):
        raise ValueError(f"label must be a lower-case word, not {label!r}")
    content = [for_model(line) for line in lines]
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
