"""What a model is asked to write. pydantic takes a while to import: this is imported when a model is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Self

import pydantic

from backread.construction.schema_limits import asked_for
from backread.text.fencing import for_model

__all__ = ["FactsReply", "MessageReply", "Told", "UpdateReply", "reply_type"]

MOST_BEGUN = 40
"""Characters of a message's first words that the schema has room for."""

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
    """The facts of one message; there may be none. `begins` are its first words, by which a small model keeps count."""

    source: Annotated[int, pydantic.BeforeValidator(_number)]
    begins: Annotated[str, pydantic.BeforeValidator(_text), asked_for(maxLength=MOST_BEGUN)] = ""
    facts: Annotated[list[str], pydantic.BeforeValidator(_texts)]


class FactsReply(pydantic.BaseModel):
    """The facts of a batch, message by message; `reply_type` gives the one for a batch of a certain size."""

    messages: Sequence[MessageReply]

    def told(self, texts: Sequence[str]) -> tuple[Told, ...]:
        """Each fact once for a message, in order.

        Of which message facts are is told by its first words before its number: small models lose count, and part long
        messages in two. The number counts where the words are in none, or in several.

        Args:
            texts: what was read of each message, in order.
        """
        found: dict[tuple[int, str], Told] = {}
        shown = [_shown(text) for text in texts]
        for item in self.messages:
            source = _begun(item, shown)
            for fact in item.facts:
                found.setdefault((source, fact.casefold()), Told(source, fact))
        return tuple(found.values())

    def reached(self, texts: Sequence[str]) -> int:
        """The number of the last message that there is an item for, with facts or without; 0 when there is none."""
        shown = [_shown(text) for text in texts]
        numbers = (_begun(item, shown) for item in self.messages)
        return max((number for number in numbers if 1 <= number <= len(texts)), default=0)


def _begun(item: MessageReply, shown: Sequence[str]) -> int:
    begins = _shown(item.begins)
    held = [number for number, text in enumerate(shown, 1) if begins and begins in text]
    return held[0] if len(held) == 1 else item.source


def _shown(text: str) -> str:
    """A text as it is compared: as it stands in a prompt, on one line, without case."""
    return " ".join(for_model(text).split()).casefold()


@lru_cache(maxsize=64)
def reply_type(messages: int, facts: int) -> type[FactsReply]:
    """`FactsReply` for a batch of so many messages, with so many facts in each.

    Its schema has room for twice the messages and no more, so that a small model can't go round in circles. More are
    fine too.
    """

    class OneReply(MessageReply):
        facts: Annotated[list[str], pydantic.BeforeValidator(_texts), asked_for(maxItems=facts)]

    class BatchReply(FactsReply):
        messages: Annotated[list[OneReply], asked_for(maxItems=2 * messages)]

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
