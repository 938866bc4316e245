"""What a model is asked to write of a session. pydantic takes a while to import: this is imported when a model is."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pydantic

from backread.construction.schema_limits import asked_for

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


_Lines = Annotated[list[int], pydantic.BeforeValidator(_numbers), asked_for(maxItems=6)]
_Plain = Annotated[str, pydantic.BeforeValidator(_text)]
_Text = Annotated[_Plain, asked_for(maxLength=200)]
_Overview = Annotated[_Plain, asked_for(maxLength=500), pydantic.AfterValidator(_says)]
_Summary = Annotated[_Plain, asked_for(maxLength=1500), pydantic.AfterValidator(_says)]


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
    topics: Annotated[list[_Text], asked_for(maxItems=6)] = []
    entities: Annotated[list[EntityReply], asked_for(maxItems=8)] = []
    events: Annotated[list[EventReply], asked_for(maxItems=8)] = []
    facts: Annotated[list[FactReply], asked_for(maxItems=8)] = []
    temporal_cues: Annotated[list[_Text], asked_for(maxItems=4)] = []


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

    relations: Annotated[list[RelationReply], asked_for(maxItems=20)]
