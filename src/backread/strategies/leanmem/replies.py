"""What models reply. pydantic takes a while to import: this is imported when a model is asked."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import pydantic

from backread.construction.schema_limits import asked_for

__all__ = [
    "AttributeReply",
    "ConsolidationReply",
    "EventReply",
    "GistReply",
    "PlanReply",
    "RoutingReply",
    "SummaryReply",
]

_NUMBER = re.compile(r"\d{1,9}")


def _word(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """A choice in any case, with signs around it: "Event", "[record]"."""
    return re.sub(r"\W", "", value).lower() if isinstance(value, str) else value


def _numbers(value: Any) -> Any:  # noqa: ANN401
    """Numbers of lines as models write them: [1, "2", "[3]"], "1, 2", 4, null."""
    given = value if isinstance(value, list) else [value]
    return [int(number) for item in given for number in _NUMBER.findall(str(item))]


def _text(value: Any) -> Any:  # noqa: ANN401
    """Text on one line, also where a model wrote null, a number, or a list of texts."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        value = ", ".join(map(str, value))
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return " ".join(str(value).split())
    return value


def _texts(value: Any) -> Any:  # noqa: ANN401
    """Texts, blank ones left out: ["a", "b"], "a", null."""
    given = value if isinstance(value, list) else [value]
    return [text for item in given if (text := _text(item)) or not isinstance(item, str | None)]


def _attributes(value: Any) -> Any:  # noqa: ANN401
    """Attributes as a list of objects, also where a model wrote one object of them, or null."""
    if isinstance(value, dict) and not {"attribute", "value"} <= value.keys():
        return [{"attribute": name, "value": held} for name, held in value.items()]
    return [] if value is None else value if isinstance(value, list) else [value]


def _label(value: Any) -> Any:  # noqa: ANN401
    """The label of an event: "E2", "[E2]", 2; None for anything without a number."""
    found = _NUMBER.search(str(value))
    return f"E{found[0]}" if found else None


_Text = Annotated[str, pydantic.BeforeValidator(_text)]
_Said = Annotated[_Text, pydantic.Field(min_length=1)]
_Texts = Annotated[list[str], pydantic.BeforeValidator(_texts)]
_Kind = Annotated[Literal["profile", "event", "record"], pydantic.BeforeValidator(_word)]


class AttributeReply(pydantic.BaseModel):
    """(a, v) of equation 4."""

    attribute: _Text
    value: _Text


class RoutingReply(pydantic.BaseModel):
    """r = <y, I, xi> of equation 4; `source_indices` are the numbers of lines."""

    # In the order of deciding: a small model that has to name the action first names the same one every time.
    source_indices: Annotated[list[int], pydantic.BeforeValidator(_numbers), asked_for(maxItems=20)] = []
    action: Annotated[Literal["ignore", "profile", "event", "record"], pydantic.BeforeValidator(_word)]
    attributes: Annotated[list[AttributeReply], pydantic.BeforeValidator(_attributes), asked_for(maxItems=6)] = []


class EventReply(pydantic.BaseModel):
    """<e, t, z> of equation 6."""

    topic: _Said
    temporal_anchor: _Text = ""
    state: _Said


class GistReply(pydantic.BaseModel):
    """g of equation 5."""

    gist: _Said


class SummaryReply(pydantic.BaseModel):
    """The summary that stands for all three where nothing is scheduled."""

    summary: _Said


class ConsolidationReply(pydantic.BaseModel):
    """What becomes of an incoming event; everything but `op` counts only when it isn't "none"."""

    op: Annotated[Literal["add", "revise", "extend", "none"], pydantic.BeforeValidator(_word)]
    target_id: Annotated[str | None, pydantic.BeforeValidator(_label)] = None
    topic: _Text = ""
    temporal_anchor: _Text = ""
    state: _Text = ""


class ConstraintsReply(pydantic.BaseModel):
    """C of equation 8."""

    entity: _Texts = []
    attribute: _Texts = []
    temporal: _Texts = []
    relational: _Texts = []


class WeightsReply(pydantic.BaseModel):
    """w of equation 8."""

    profile: float | None = None
    event: float | None = None
    record: float | None = None


class DepthsReply(pydantic.BaseModel):
    """k of equation 8."""

    profile: int | None = None
    event: int | None = None
    record: int | None = None


class PlanReply(pydantic.BaseModel):
    """pi = <C, d, M, w, k> of equation 8; `detail` is the part of d that code acts on."""

    constraints: ConstraintsReply = ConstraintsReply()
    evidence_demand: _Text = ""
    detail: bool = False
    memory_types: Annotated[list[_Kind], pydantic.Field(min_length=1)]
    weights: WeightsReply = WeightsReply()
    depths: DepthsReply = DepthsReply()
