"""What the controller writes at a step. pydantic takes a while to import: this is imported when a model is asked."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import pydantic

from backread.construction.schema_limits import asked_for

__all__ = ["Action", "Cached", "StepReply", "StepReplyWithoutRaw"]

_NAMES = {name.lower(): name for name in ("Answer", "SearchMeta", "ReadRaw")}
_CALL = re.compile(r"\W*(answer|searchmeta|readraw)\W*(?:entry_id|k)?\W*(\d{0,9})\W*", re.IGNORECASE)


def _name(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """A tool's name in any case: "readraw", "ReadRaw()"."""
    match = _CALL.fullmatch(value) if isinstance(value, str) else None
    return _NAMES[match[1].lower()] if match else value


def _action(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """An action as an object, also where a model wrote it as a call: "Answer", "ReadRaw(3)"."""
    match = _CALL.fullmatch(value) if isinstance(value, str) else None
    return {"name": match[1], "entry_id": match[2] or None} if match else value


def _number(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """The number of an entry: 3, "3", "[3]"; None for "", "none" and anything else without a number."""
    found = re.search(r"\d{1,9}", str(value))
    return int(found[0]) if found else None


def _labels(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """Labels of turns: ["2.1", "[2.3]"], "2.1, 2.3", 2.1."""
    given = value if isinstance(value, list) else [value]
    return [label for item in given for label in re.findall(r"\d{1,9}(?:\.\d{1,9})?", str(item))]


def _cached(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """Memory lines as a list of objects, also where a model wrote one text, or a list of texts."""
    given = [] if value is None else value if isinstance(value, list) else [value]
    return [{"text": item, "from": []} if isinstance(item, str) else item for item in given]


class Cached(pydantic.BaseModel):
    """A line of the memory cache, and the labels of the turns it rests on."""

    text: Annotated[str, asked_for(maxLength=300)]
    turns: Annotated[
        list[str],
        pydantic.BeforeValidator(_labels),
        pydantic.Field(alias="from", json_schema_extra={"maxItems": 8}),
    ] = []


class Action(pydantic.BaseModel):
    """The next action a_t; `entry_id` is the k of ReadRaw(k)."""

    name: Annotated[Literal["Answer", "SearchMeta", "ReadRaw"], pydantic.BeforeValidator(_name)]
    entry_id: Annotated[int | None, pydantic.BeforeValidator(_number)] = None


class _ActionWithoutRaw(Action):
    name: Annotated[Literal["Answer", "SearchMeta"], pydantic.BeforeValidator(_name)]


class StepReply(pydantic.BaseModel):
    """(r_t, m_t, a_t) of equation 8."""

    reasoning: Annotated[str, asked_for(maxLength=1500)] = ""
    memory_cache: Annotated[list[Cached], pydantic.BeforeValidator(_cached), asked_for(maxItems=12)] = []
    action: Annotated[Action, pydantic.BeforeValidator(_action)]


class StepReplyWithoutRaw(StepReply):
    """The same without ReadRaw."""

    action: Annotated[_ActionWithoutRaw, pydantic.BeforeValidator(_action)]
