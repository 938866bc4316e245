"""What a model is asked to write. pydantic takes a while to import: this is imported when a model is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Self

import pydantic

__all__ = ["FactsReply", "MessageReply", "Told", "UpdateReply", "reply_type"]

MOST_FACTS = 8
"""Facts of a message that the schema has room for."""

_NUMBER = re.compile(r"\d{1,9}")


def _number(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """The number of a message as models write it: 3, "3", "[3]", [3]; -1, which names none, for anything else."""
    found = _NUMBER.findall(str(value))
    return int(found[0]) if found else -1


def _text(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    return "" if value is None else value


def _texts(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """Facts as texts on one line each, also where a model wrote one text, or null; blank ones are left out."""
    given = value if isinstance(value, list) else [value]
    lines = [" ".join(item.split()) if isinstance(item, str) else item for item in given if item is not None]
    return [line for line in lines if line != ""]


class Told(NamedTuple):
    """A fact, and the number of the message that says it."""

    source: int
    fact: str


class MessageReply(pydantic.BaseModel):
    """The facts of one message; there may be none."""

    source: Annotated[int, pydantic.BeforeValidator(_number)]
    facts: Annotated[
        list[str], pydantic.BeforeValidator(_texts), pydantic.Field(json_schema_extra={"maxItems": MOST_FACTS})
    ]


class FactsReply(pydantic.BaseModel):
    """The facts of a batch, message by message; `reply_type` gives the one for a batch of a certain size."""

    messages: Sequence[MessageReply]

    @property
    def told(self) -> tuple[Told, ...]:
        """Each fact once for a message, in order."""
        found: dict[tuple[int, str], Told] = {}
        for item in self.messages:
            for fact in item.facts:
                found.setdefault((item.source, fact.casefold()), Told(item.source, fact))
        return tuple(found.values())


@cache
def reply_type(size: int) -> type[FactsReply]:
    """`FactsReply` for a batch of `size` messages.

    Its schema asks for one item a message and few facts in each, so that a small model comes to the end of them and
    can't go round in circles over one. Other numbers are fine too.
    """

    class BatchReply(FactsReply):
        messages: Annotated[list[MessageReply], pydantic.Field(json_schema_extra={"minItems": size, "maxItems": size})]

    return BatchReply


class UpdateReply(pydantic.BaseModel):
    """What becomes of an entry: only an update has a new text."""

    action: Literal["update", "delete", "ignore"]
    new_memory: Annotated[str, pydantic.BeforeValidator(_text)] = ""

    @pydantic.model_validator(mode="after")
    def _an_update_has_a_text(self) -> Self:
        if self.action == "update" and not self.new_memory.strip():
            raise ValueError('"update" needs a text in "new_memory"')
        return self
