"""Asking a judge for a value, and keeping every word it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from backread.errors import ModelOutputError
from backread.models.base import ChatMessage, ChatModel, ChatReply
from backread.models.structured import complete_as
from backread.types import Usage

if TYPE_CHECKING:
    import pydantic

__all__ = ["Asked", "ask"]

_ModelT = TypeVar("_ModelT", bound="pydantic.BaseModel")


@dataclass(frozen=True, slots=True)
class Asked(Generic[_ModelT]):
    """What came of it.

    Attributes:
        value: validated; None when no reply could be used.
        raw: every reply that had text, in order, "" for one that had none.
        usage: of every reply, as far as the endpoint said.
        error: why there is no value.
        cut: True when that is because the last reply broke off: no words of it mean anything.
    """

    value: _ModelT | None
    raw: tuple[str, ...]
    usage: tuple[Usage, ...]
    error: str | None = None
    cut: bool = False


def ask(
    chat: ChatModel, messages: Sequence[ChatMessage], model_type: type[_ModelT], *, max_tokens: int
) -> Asked[_ModelT]:
    """A value at temperature 0, asked for once more when the reply can't be used, and with more room when it is cut.

    `messages` describe the format themselves, with the word JSON.

    Raises:
        ModelError: the endpoint could not do its work. A reply that can't be used is no such error.
    """
    heard = _Heard(chat)
    try:
        found = complete_as(
            heard, messages, model_type, purpose="judge", max_tokens=max_tokens, temperature=0.0, instruct=False
        )
    except ModelOutputError as error:
        return Asked(None, tuple(heard.texts), tuple(heard.usage), str(error), error.cut)
    return Asked(found.value, tuple(heard.texts), tuple(heard.usage))


class _Heard:
    """A `ChatModel` that keeps what the one inside replied."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat
        self.texts: list[str] = []
        self.usage: list[Usage] = []

    @property
    def name(self) -> str:
        return self._chat.name

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        try:
            reply = self._chat.complete(
                messages, purpose=purpose, max_tokens=max_tokens, temperature=temperature, schema=schema
            )
        except ModelOutputError as error:
            self.texts.append(error.raw or "")
            self.usage += [error.usage] if isinstance(error.usage, Usage) else []
            raise
        self.texts.append(reply.text)
        self.usage.append(reply.usage)
        return reply
