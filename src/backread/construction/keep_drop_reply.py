"""The reply that keeps or drops the messages of a window, as a model must give it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal, Self

import pydantic

from backread.construction.keep_drop import EXAMPLE

__all__ = ["MessageDecision", "WindowReply", "reply_type"]


class MessageDecision(pydantic.BaseModel):
    """What is said of one message: a kept one has a compression, a dropped one has none."""

    model_config = pydantic.ConfigDict(strict=True)

    index: int
    action: Literal["KEEP", "DROP"]
    compressed: str | None = ""

    @property
    def text(self) -> str | None:
        """The compression of a message that is kept, else None."""
        return (self.compressed or "").strip() or None

    @pydantic.model_validator(mode="after")
    def _words_belong_to_what_is_kept(self) -> Self:
        if (self.text is not None) != (self.action == "KEEP"):
            raise ValueError('KEEP needs a text in `compressed`, DROP needs ""')
        if self.text == EXAMPLE:
            raise ValueError("`compressed` must be words of the message, not of the instructions")
        return self


class WindowReply(pydantic.BaseModel):
    """One decision a message; `reply_type` gives the one for a window of a certain size."""

    model_config = pydantic.ConfigDict(strict=True)

    decisions: Sequence[MessageDecision]


@cache
def reply_type(size: int) -> type[WindowReply]:
    """`WindowReply` for a window of `size` messages: each number from 1 to `size` is decided on once."""

    class Numbered(MessageDecision):
        index: Annotated[int, pydantic.Field(ge=1, le=size)]

    class KeepDropReply(WindowReply):
        decisions: Annotated[list[Numbered], pydantic.Field(min_length=size, max_length=size)]

        @pydantic.model_validator(mode="after")
        def _each_message_once(self) -> Self:
            given = sorted(item.index for item in self.decisions)
            if given != list(range(1, size + 1)):
                missing = sorted(set(range(1, size + 1)).difference(given))
                raise ValueError(f"decide on each of the messages 1 to {size} once; without a decision: {missing}")
            return self

    return KeepDropReply
