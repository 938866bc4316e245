"""The shapes of requests. What isn't described here is refused; what it means, `Memory` decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, Strict, WithJsonSchema

from backread.memory import DEFAULT_MODE
from backread.messages import ROLES, TIME_KEYS
from backread.retrieval.registry import RETRIEVERS
from backread.strategies.registry import STRATEGIES

__all__ = [
    "MAX_PAGE",
    "MAX_TOP_K",
    "AddRequest",
    "AskRequest",
    "BuildRequest",
    "DeleteQuery",
    "DeleteUserQuery",
    "EntriesQuery",
    "PageQuery",
    "PathText",
    "SearchRequest",
    "Text",
    "TurnQuery",
    "TurnsQuery",
    "path_segment",
]

MAX_TOP_K: Final = 200
MAX_PAGE: Final = 500
_DEFAULT_PAGE: Final = 50


def _text(value: object) -> str:
    # Not pydantic's str: that can't hold a lone surrogate, and the record can.
    if not isinstance(value, str):
        raise ValueError("must be a string")
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def _decoded(value: object) -> str:
    """A segment of a path as it was sent, decoded: UTF-8, where lone surrogates pass."""
    segment = str(value)
    if re.search("%(?![0-9A-Fa-f]{2})", segment):
        raise ValueError('has a "%" that encodes nothing; write it as %25')
    try:
        return _text(unquote_to_bytes(segment).decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8, percent-encoded") from None


def _integral(value: object) -> object:
    """60.0 as 60: to JSON they are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def path_segment(text: str) -> str:
    """An id as a segment of a path. Dots are encoded too, or ".." would lead a client elsewhere."""
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="").replace(".", "%2E")


def _one_of(names: Collection[str]) -> tuple[Callable[[object], str], dict[str, Any]]:
    """(validator, JSON schema) of a name that must be one of `names`."""

    def check(value: object) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"must be one of {', '.join(sorted(names))}")
        return value

    return check, {"type": "string", "enum": sorted(names)}


# What `str.strip` leaves something of, in the notation of every regular expression there is: \S differs between them.
_NOT_BLANK: Final = {
    "type": "string",
    "pattern": r"[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]",
}
_is_role, _ROLE_SCHEMA = _one_of(ROLES)
_is_strategy, _STRATEGY_SCHEMA = _one_of(STRATEGIES)
_is_retriever, _RETRIEVER_SCHEMA = _one_of(RETRIEVERS)

Text = Annotated[str, PlainValidator(_text), WithJsonSchema(_NOT_BLANK)]
"""A text that isn't blank. Any Unicode, lone surrogates too."""

PathText = Annotated[str, Path(), PlainValidator(_decoded), WithJsonSchema(_NOT_BLANK)]
"""An id in a path: percent-encoded, "/" as %2F."""

StrategyName = Annotated[str, PlainValidator(_is_strategy), WithJsonSchema(_STRATEGY_SCHEMA)]
RetrieverName = Annotated[str, PlainValidator(_is_retriever), WithJsonSchema(_RETRIEVER_SCHEMA)]
Role = Annotated[str, PlainValidator(_is_role), WithJsonSchema(_ROLE_SCHEMA)]
From0 = Annotated[int, Strict(), Field(ge=0), BeforeValidator(_integral)]
From1 = Annotated[int, Strict(), Field(ge=1), BeforeValidator(_integral)]
Time = Annotated[str, Strict()] | Annotated[int, Strict()] | Annotated[float, Strict()]

_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "role": f"required: {', '.join(ROLES)}",
        "content": "a string, a list of parts, or null when there is something else to keep",
        "name": "who said it, where the role doesn't say",
        "id": "your own id: the same message again is known, not stored twice",
        TIME_KEYS[0]: "when it was said: ISO 8601, or seconds since 1970; without it the time of receipt is kept",
        "supersedes": "the id of the turn that this one replaces",
    }
)
_MESSAGE: Final = {
    "type": "object",
    "title": "Message",
    "description": "A message in the format of OpenAI's chat API. One that can't be kept is listed in the receipt's"
    " `rejected`, the others are stored; a key that isn't known makes it one.",
    "properties": {name: {"description": text} for name, text in _KEYS.items()},
    "examples": [{"role": "user", "content": "The key is under the pot.", "timestamp": "2025-03-27T16:10:00Z"}],
}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AddRequest(_Body):
    """Messages of one session."""

    messages: Annotated[list[Annotated[dict[str, Any], WithJsonSchema(_MESSAGE)]], Field(min_length=1)]
    session_id: Annotated[Text | None, Field(description="The sitting they belong to; a new one when left out.")] = None


Attachments = Literal["named", "full"]


class SearchRequest(_Body):
    """What to look for, and where."""

    query: Text
    top_k: Annotated[
        From1, Field(description=f"Hits at most; above {MAX_TOP_K} it is {MAX_TOP_K}, and that is said.")
    ] = 10
    mode: RetrieverName = DEFAULT_MODE
    roles: list[Role] | None = None
    speaker: Text | None = None
    session_id: Text | None = None
    after: Annotated[Time | None, Field(description="Only turns said then or later.")] = None
    before: Annotated[Time | None, Field(description="Only turns said earlier.")] = None
    as_of: Annotated[Time | None, Field(description="The record as it stood then.")] = None
    attachments: Annotated[
        Attachments, Field(description="Only the type, bytes and SHA-256 of each, or all of it where there is room.")
    ] = "named"


class AskRequest(_Body):
    """A question, and how its evidence is found."""

    question: Text
    budget: Annotated[
        From0 | Literal["none", "default"],
        Field(description='Tokens of evidence at most; "none" is the most the server gives, "default" its setting.'),
    ] = "default"
    strategy: Annotated[StrategyName | None, Field(description="How memory is made; the server's when left out.")] = (
        None
    )
    retriever: Annotated[RetrieverName | None, Field(description="What the strategy searches with.")] = None
    asked_at: Annotated[Time | None, Field(description="When it is asked; tells the answerer the time.")] = None
    as_of: Annotated[Time | None, Field(description="The record as it stood then.")] = None


class BuildRequest(_Body):
    """Which strategy's write-time work is done, and how much of it."""

    strategy: Annotated[StrategyName | None, Field(description="The server's when left out.")] = None
    flush: Annotated[bool, Strict(), Field(description="Also what is still open, such as the latest session.")] = False
    maintain: Annotated[bool, Strict(), Field(description="The design's offline passes after it.")] = False


class PageQuery(_Body):
    """Which page of a list."""

    cursor: Annotated[str | None, Field(description="`next_cursor` of the page before; the first when left out.")] = (
        None
    )
    limit: Annotated[int, Field(ge=1, description=f"Items at most; {MAX_PAGE} when more.")] = _DEFAULT_PAGE


class TurnsQuery(PageQuery):
    """Which page of turns, and how much of each."""

    attachments: Annotated[
        Attachments, Field(description="Only the type, bytes and SHA-256 of each, or all of it where there is room.")
    ] = "named"


class TurnQuery(_Body):
    """How much of a turn."""

    offset: Annotated[int, Field(ge=0, description="Where its text starts: `rest_at` of the answer before.")] = 0
    attachments: Annotated[
        Attachments, Field(description="All of each where there is room, or only its type, bytes and SHA-256.")
    ] = "full"


class EntriesQuery(PageQuery):
    """Whose entries, and which page of them."""

    strategy: StrategyName
    kind: Annotated[str | None, Field(description="Only entries of this kind.")] = None


class DeleteQuery(_Body):
    """How thoroughly."""

    scrub: Annotated[
        bool,
        Field(
            description="Write the file anew, so that no byte is left in it; a second for every 30 MB. Without it"
            " copies can stay behind until the next delete that scrubs."
        ),
    ] = True


class DeleteUserQuery(DeleteQuery):
    """Said on purpose: a path that lost its end must not erase a user."""

    confirm: Literal["everything"]
