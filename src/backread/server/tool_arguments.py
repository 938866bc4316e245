"""The arguments of the tools a model calls, checked before anything is done; what isn't described is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    Strict,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)

from backread.errors import InvalidInputError
from backread.memory import DEFAULT_MODE
from backread.messages import ROLES
from backread.retrieval.registry import RETRIEVERS

__all__ = [
    "MAX_CHARACTERS",
    "MAX_LISTED",
    "MAX_TOP_K",
    "AddArguments",
    "Arguments",
    "AskArguments",
    "DeleteArguments",
    "GetArguments",
    "ListArguments",
    "RecallArguments",
    "SearchArguments",
    "checked",
    "flat_schema",
    "of_any_user",
]

MAX_TOP_K: Final = 50
MAX_LISTED: Final = 100
MAX_CHARACTERS: Final = 200_000
_MOST_PLACES: Final = 5


def _any_text(value: object) -> str:
    # Not pydantic's str: that can't hold a lone surrogate, and the record can.
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


def _text(value: object) -> str:
    if not _any_text(value).strip():
        raise ValueError("must not be blank")
    return _any_text(value)


def _role(value: str) -> str:
    if value not in ROLES:
        raise ValueError(f"must be one of {', '.join(ROLES)}")
    return value


def _retriever(value: str) -> str:
    if value not in RETRIEVERS:
        raise ValueError(f"must be one of {', '.join(RETRIEVERS)}")
    return value


def _integral(value: object) -> object:
    """60.0 as 60: to JSON they are the same number; "60" as well, since some clients send every number as text."""
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,18}\s*", value):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


AnyText = Annotated[str, PlainValidator(_any_text), WithJsonSchema({"type": "string"})]
Text = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string"})]
Role = Annotated[str, AfterValidator(_role), WithJsonSchema({"type": "string", "enum": list(ROLES)})]
RetrieverName = Annotated[str, AfterValidator(_retriever), WithJsonSchema({"type": "string", "enum": list(RETRIEVERS)})]
From0 = Annotated[int, Strict(), Field(ge=0), BeforeValidator(_integral)]
From1 = Annotated[int, Strict(), Field(ge=1), BeforeValidator(_integral)]

_UserId = Annotated[Text, Field(description="Whose history.")]
_SessionId = Annotated[Text | None, Field(description="Only this session.")]
_AsOf = Annotated[Text | None, Field(description="The record as it stood then, ISO 8601; undated turns are left out.")]
_Cursor = Annotated[Text | None, Field(description="`next_cursor` of the page before; leave it out for the first.")]
_Listed = Annotated[From1, Field(description=f"How many at most; {MAX_LISTED} when more.")]


class Arguments(BaseModel):
    """Arguments of a tool, in any shape that clients are known to send.

    What may be left out is left out when it is null or an empty text. A list may be the text of a JSON list, a number
    the text of a number. A name that isn't known is refused.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _as_meant(cls, given: Any) -> Any:  # noqa: ANN401 -- whatever was sent
        if not isinstance(given, Mapping):
            return given
        fields = cls.model_fields
        meant = {}
        for name, value in given.items():
            field = fields.get(name)
            if field is not None and not field.is_required() and value in (None, ""):
                continue
            is_list = field is not None and any(get_origin(kind) is list for kind in _kinds(field.annotation))
            meant[name] = _listed(value) if is_list else value
        return meant


def _kinds(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 -- a type, or a choice of types
    return (annotation, *get_args(annotation))


def _listed(value: object) -> object:
    """The list that a text is the JSON of; anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


class Message(Arguments):
    """One message, as it was said."""

    role: Annotated[Role, Field(description="Who said it; participant for people talking to each other.")]
    content: Annotated[AnyText, Field(description="The words, verbatim.")]
    name: Annotated[Text | None, Field(description="The speaker's name, when there is one.")] = None
    timestamp: Annotated[
        Text | None, Field(description="When it was said, ISO 8601. Left out, the time of receipt is kept.")
    ] = None
    id: Annotated[Text | None, Field(description="Your own id: sent again, it is not stored twice.")] = None


class AddArguments(Arguments):
    """What is kept."""

    messages: Annotated[list[Message], Field(min_length=1, description="In the order they were said.")]
    session_id: Annotated[Text | None, Field(description="The sitting they belong to; a new one if left out.")] = None


class SearchArguments(Arguments):
    """What is looked for, and where."""

    query: Annotated[Text, Field(description="Words to look for; nothing in it is syntax.")]
    top_k: Annotated[From1, Field(description=f"Turns at most; {MAX_TOP_K} when more, and that is said.")] = 10
    mode: Annotated[RetrieverName, Field(description="How to rank; bm25 is by words only.")] = DEFAULT_MODE
    roles: Annotated[list[Role] | None, Field(description="Only turns of these roles.")] = None
    speaker: Annotated[Text | None, Field(description="Only turns of exactly this name.")] = None
    session_id: _SessionId = None
    after: Annotated[Text | None, Field(description="Only turns said then or later, ISO 8601.")] = None
    before: Annotated[Text | None, Field(description="Only turns said earlier, ISO 8601.")] = None
    as_of: _AsOf = None


class RecallArguments(Arguments):
    """A question, and how much evidence is wanted."""

    question: Annotated[Text, Field(description="The question, in full words.")]
    budget: Annotated[From0 | None, Field(description="Tokens of evidence at most; the setting if left out.")] = None
    asked_at: Annotated[Text | None, Field(description="When it is asked, ISO 8601; filters nothing.")] = None
    as_of: _AsOf = None


class AskArguments(RecallArguments):
    """A question to be answered."""


class GetArguments(Arguments):
    """Which turns: those of `turn_ids`, or of a session, or all of them page by page."""

    turn_ids: Annotated[
        list[Text] | None, Field(min_length=1, max_length=MAX_LISTED, description="These turns, in this order.")
    ] = None
    session_id: _SessionId = None
    limit: _Listed = 20
    cursor: _Cursor = None
    max_characters: Annotated[
        From1, Field(description=f"Of all texts together; {MAX_CHARACTERS} when more. What doesn't fit is said.")
    ] = 40_000
    offset: Annotated[
        From0, Field(description="Where the first turn's text starts: `rest_at` of a turn that was cut.")
    ] = 0


class ListArguments(Arguments):
    """Which page."""

    limit: _Listed = 50
    cursor: _Cursor = None


class DeleteArguments(Arguments):
    """What is erased: one turn or one session."""

    turn_id: Annotated[Text | None, Field(description="Erase this turn.")] = None
    session_id: Annotated[Text | None, Field(description="Erase this session with all its turns.")] = None


@cache
def of_any_user(arguments: type[Arguments]) -> type[Arguments]:
    """The same arguments with a `user_id`, for a server that is not bound to one user."""
    return create_model(arguments.__name__, __base__=arguments, __doc__=arguments.__doc__, user_id=(_UserId, ...))


def checked(kind: type[Arguments], given: Mapping[str, Any]) -> Arguments:
    """The arguments of a call.

    Raises:
        InvalidInputError: they are not those of the tool; each place is named.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        places = [
            f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {str(item['msg']).removeprefix('Value error, ')}"
            for item in error.errors(include_url=False, include_input=False)[:_MOST_PLACES]
        ]
        known = ", ".join(kind.model_fields)
        raise InvalidInputError("; ".join(places), hint=f"arguments: {known}") from None


def flat_schema(schema: Mapping[str, Any], *, nulls: bool) -> dict[str, Any]:
    """A JSON schema without references and titles: what is referred to stands in its place.

    Args:
        schema: as pydantic makes it; nothing in it refers to itself.
        nulls: False describes what may be left out by its type alone, since a choice between a type and null is more
            than some clients can read.
    """
    flat = _flat(schema, schema.get("$defs", {}), nulls)
    assert isinstance(flat, dict)
    return flat


_DROPPED: Final = frozenset({"$defs", "title"})
_NULL: Final[Mapping[str, Any]] = {"type": "null"}


def _flat(part: Any, defs: Mapping[str, Any], nulls: bool) -> Any:  # noqa: ANN401 -- any value of JSON
    if isinstance(part, list):
        return [_flat(item, defs, nulls) for item in part]
    if not isinstance(part, Mapping):
        return part
    if "$ref" in part:
        named = defs[str(part["$ref"]).rpartition("/")[2]]
        part = {**named, **{key: value for key, value in part.items() if key != "$ref"}}
    kinds = [kind for kind in part.get("anyOf", ()) if kind != _NULL]
    if len(kinds) == 1 and not nulls:
        part = {**kinds[0], **{key: value for key, value in part.items() if key not in {"anyOf", "default"}}}
    flat = {}
    for key, value in part.items():
        if key == "properties":  # names, which may be any word
            flat[key] = {name: _flat(item, defs, nulls) for name, item in value.items()}
        elif key not in _DROPPED:
            flat[key] = _flat(value, defs, nulls)
    return flat
