"""Which chat model does what: build, recall, answer and judge may each have their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, MutableSequence
from dataclasses import dataclass, fields
from types import MappingProxyType

from backread.errors import InvalidInputError
from backread.models.base import ChatModel
from backread.models.pricing import Price
from backread.models.wrappers import AbandonableChat, MeteredChat, RetryingChat
from backread.types import Usage

__all__ = ["ChatRoles"]


@dataclass(frozen=True, slots=True)
class ChatRoles:
    """The chat model of each role, None where there is none.

    Attributes:
        build: writes memory when turns arrive.
        recall: works when a question comes, before the answer.
        answer: answers.
        judge: grades answers, in the bench.
    """

    build: ChatModel | None = None
    recall: ChatModel | None = None
    answer: ChatModel | None = None
    judge: ChatModel | None = None

    @classmethod
    def of(cls, chat: ChatModel | None) -> ChatRoles:
        """One model in every role."""
        return cls(chat, chat, chat, chat)

    def get(self, role: str) -> ChatModel | None:
        """The model of a role.

        Raises:
            InvalidInputError: no such role.
        """
        names = [item.name for item in fields(self)]
        if role not in names:
            raise InvalidInputError(f"no role is called {role!r}; there is: {', '.join(names)}")
        model: ChatModel | None = getattr(self, role)
        return model

    def watched(
        self,
        meter: MutableSequence[Usage],
        *,
        prices: Mapping[str, Price] = MappingProxyType({}),
        deadline: float | None = None,
        cancel: threading.Event | None = None,
        abandoned: threading.Event | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> ChatRoles:
        """The same models for one call: every attempt metered and priced, what may pass tried again within the time.

        Args:
            meter: usage is appended here.
            prices: see `pricing`.
            deadline: `time.monotonic()` after which nothing is tried again.
            cancel: set to end the attempts; waits end with it.
            abandoned: set to end the calls themselves, see `AbandonableChat`.
            sleep: waits when there is nothing to cancel.
        """
        ends = cancel or abandoned
        wait = ends.wait if ends is not None else sleep

        def watch(chat: ChatModel | None) -> ChatModel | None:
            if chat is None:
                return None
            if abandoned is not None:
                chat = AbandonableChat(chat, abandoned)
            return RetryingChat(MeteredChat(chat, meter, prices=prices), deadline=deadline, sleep=wait)

        return ChatRoles(watch(self.build), watch(self.recall), watch(self.answer), watch(self.judge))

    def close(self) -> None:
        """Close the models that can be closed, each once."""
        seen: list[ChatModel] = []
        for chat in (self.build, self.recall, self.answer, self.judge):
            if chat is None or any(chat is other for other in seen):
                continue
            seen.append(chat)
            close = getattr(chat, "close", None)
            if callable(close):
                close()
