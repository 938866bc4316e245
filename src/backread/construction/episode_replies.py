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


_Text = Annotated[str, pydantic.BeforeValidator(_text)]
_Words = Annotated[_Text, pydantic.AfterValidator(_says)]
_Lines = Annotated[list[int], pydantic.BeforeValidator(_numbers)]


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
    overview: _Words
    topics: list[_Text] = []
    entities: list[EntityReply] = []
    events: list[EventReply] = []
    facts: list[FactReply] = []
    temporal_cues: list[_Text] = []


class SummaryReply(pydantic.BaseModel):
    """A concise summary of one session."""

    summary: _Words


class RelationReply(pydantic.BaseModel):
    """A typed relation between two entities or events."""

    subject: _Text
    relation: _Text
    object: _Text
    when: _Text = ""
    turns: _Lines = []


class GraphReply(pydantic.BaseModel):
    """The relations of one session."""

    relations: list[RelationReply]
