"""What a model is asked to write. pydantic takes a while to import: this is imported when a model is."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

import pydantic

__all__ = ["FactReply", "FactsReply", "UpdateReply"]

_NUMBER = re.compile(r"\d{1,9}")


def _number(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    """The number of a message as models write it: 3, "3", "[3]", [3]; -1, which names none, for anything else."""
    found = _NUMBER.findall(str(value))
    return int(found[0]) if found else -1


def _text(value: Any) -> Any:  # noqa: ANN401 -- whatever a model wrote
    return "" if value is None else value


class FactReply(pydantic.BaseModel):
    """A fact, and the number of the message that says it."""

    source: Annotated[int, pydantic.BeforeValidator(_number)]
    fact: Annotated[str, pydantic.BeforeValidator(_text)]

    @property
    def text(self) -> str:
        """The fact in one line; "" for none."""
        return " ".join(self.fact.split())


class FactsReply(pydantic.BaseModel):
    """The facts of a batch; there may be none."""

    facts: list[FactReply]


class UpdateReply(pydantic.BaseModel):
    """What becomes of an entry: only an update has a new text."""

    action: Literal["update", "delete", "ignore"]
    new_memory: Annotated[str, pydantic.BeforeValidator(_text)] = ""

    @pydantic.model_validator(mode="after")
    def _an_update_has_a_text(self) -> Self:
        if self.action == "update" and not self.new_memory.strip():
            raise ValueError('"update" needs a text in "new_memory"')
        return self
