"""What a model is asked to write of a session. pydantic takes a while to import: this is imported when a model is."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pydantic

__all__ = ["EntityReply", "EpisodeReply", "EventReply", "FactReply", "GraphReply", "RelationReply", "SummaryReply"]

_NUMBER = re.compile(r"\d{1,9}")


def _numbers(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """Numbers of lines as models write them: [1, "2", "[3]"], "1, 2", 4."""
    given = value if isinstance(value, list) else [value]
    return [int(number) for item in given for number in _NUMBER.findall(str(item))]


def _text(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """Text, also where a model wrote null, a number, or a list of texts."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if value is None or isinstance(value, int | float):
        return "" if value is None else str(value)
    return value


def _says(value: str) -> str:
    if not any(sign.isalnum() for sign in value):
        raise ValueError("it says nothing")
    return value


def _at_most(size: int) -> Any:  # noqa: ANN401 -- pydantic has no name for it
    """A length the schema asks for, so that a small model can't go round in circles; a longer text is fine too."""
    return pydantic.Field(json_schema_extra={"maxLength": size})


def _first(size: int) -> Any:  # noqa: ANN401 -- pydantic has no name for it
    """A number of items the schema asks for; more are fine too."""
    return pydantic.Field(json_schema_extra={"maxItems": size})


_Lines = Annotated[list[int], pydantic.BeforeValidator(_numbers), _first(6)]
_Plain = Annotated[str, pydantic.BeforeValidator(_text)]
_Text = Annotated[_Plain, _at_most(200)]
_Overview = Annotated[_Plain, _at_most(500), pydantic.AfterValidator(_says)]
_Summary = Annotated[_Plain, _at_most(1500), pydantic.AfterValidator(_says)]


class EntityReply(pydantic.BaseModel):
    """A person, place, thing or organisation of the session."""

    name: _Text
    kind: _Text = ""
    note: _Text = ""


class EventReply(pydantic.BaseModel):
    """Something that happened or is planned; `turns` are numbers of the lines that say so."""

    who: _Text = ""
    what: _Text
    when_absolute: _Text = ""
    when_said: _Text = ""
    turns: _Lines = []


class FactReply(pydantic.BaseModel):
    """Something that holds for longer."""

    subject: _Text = ""
    fact: _Text
    turns: _Lines = []


class EpisodeReply(pydantic.BaseModel):
    """A wiki-style page of one session."""

    title: _Text = ""
    overview: _Overview
    topics: Annotated[list[_Text], _first(6)] = []
    entities: Annotated[list[EntityReply], _first(8)] = []
    events: Annotated[list[EventReply], _first(8)] = []
    facts: Annotated[list[FactReply], _first(8)] = []
    temporal_cues: Annotated[list[_Text], _first(4)] = []


class SummaryReply(pydantic.BaseModel):
    """A concise summary of one session."""

    summary: _Summary


class RelationReply(pydantic.BaseModel):
    """A typed relation between two entities or events."""

    subject: _Text
    relation: _Text
    object: _Text
    when: _Text = ""
    turns: _Lines = []


class GraphReply(pydantic.BaseModel):
    """The relations of one session."""

    relations: Annotated[list[RelationReply], _first(20)]
