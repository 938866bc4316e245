"""What is added to a chat model by wrapping it: waiting and trying again, metering, a cache.

From the inside out: `CachedChat(RetryingChat(MeteredChat(client, meter)), cache, user_id=…)`. Metering is innermost, so
that every attempt counts and a reply from the cache, which takes nothing, does not.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, MutableSequence, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from backread import forking
from backread.errors import CancelledError, ModelError, ModelNotAvailableError, ModelRequestError
from backread.models.base import ChatMessage, ChatModel, ChatReply
from backread.models.pricing import Price, priced
from backread.types import Usage

__all__ = [
    "AbandonableChat",
    "CachedChat",
    "MemoryReplyCache",
    "MeteredChat",
    "ReplyCache",
    "RetryingChat",
    "reply_key",
]

_log = logging.getLogger(__name__)


class RetryingChat:
    """A `ChatModel` that tries again when a request may succeed later: 429, 5xx, timeouts, broken connections.

    Waits double from `first_wait`, half of each by chance, up to `longest_wait`; an endpoint that says how long to wait
    is waited for exactly that long. When it asks for more than `longest_wait`, or the deadline would pass, the error is
    raised at once. The error that is raised in the end is the last one, with the number of attempts.

    Args:
        chat: what is asked.
        attempts: requests at most, the first included.
        first_wait: seconds before the second one.
        longest_wait: seconds of any wait.
        deadline: by `clock`, after which nothing is tried again.
        sleep: waits; a true result ends the attempts, so `Event.wait` of a cancelling event fits.
        clock: seconds that only grow.
        chance: a number from 0 to 1.
    """

    def __init__(
        self,
        chat: ChatModel,
        *,
        attempts: int = 4,
        first_wait: float = 0.5,
        longest_wait: float = 60.0,
        deadline: float | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._chat, self._attempts, self._deadline = chat, max(1, attempts), deadline
        self._first_wait, self._longest_wait = first_wait, longest_wait
        self._sleep, self._clock, self._chance = sleep, clock, chance

    @property
    def name(self) -> str:
        """That of the wrapped model."""
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
        """The first reply that comes; see `ChatModel.complete`."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._chat.complete(
                    messages, purpose=purpose, max_tokens=max_tokens, temperature=temperature, schema=schema
                )
            except ModelRequestError as error:
                wait = self._wait(attempt, error)
                if wait is None or self._sleep(wait):
                    if attempt == 1:
                        raise
                    raise _counted(error, attempt) from error
                _log.info("%s: attempt %d of %d failed, next one in %.1f s", self.name, attempt, self._attempts, wait)

    def _wait(self, attempt: int, error: ModelRequestError) -> float | None:
        """Seconds before the next attempt, None when there is none."""
        if not error.retryable or attempt >= self._attempts:
            return None
        wait = error.retry_after
        if wait is None:
            wait = min(self._longest_wait, self._first_wait * 2.0 ** (attempt - 1)) * (0.5 + 0.5 * self._chance())
        if wait > self._longest_wait:
            return None
        return None if self._deadline is not None and self._clock() + wait >= self._deadline else wait


def _counted(error: ModelRequestError, attempts: int) -> ModelRequestError:
    last = copy.copy(error)
    last.args = (f"{error} (tried {attempts} times)",)
    return last


class AbandonableChat:
    """A `ChatModel` that is not called once nobody waits for its reply, and whose reply is broken off then.

    A reply without a schema of a model that can stream is streamed, since only a stream can be closed on the way.

    Args:
        chat: what is asked.
        abandoned: set when nobody waits any longer.
    """

    def __init__(self, chat: ChatModel, abandoned: threading.Event) -> None:
        self._chat, self._abandoned = chat, abandoned

    @property
    def name(self) -> str:
        """That of the wrapped model."""
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
        """The reply; see `ChatModel.complete`.

        Raises:
            CancelledError: nobody waits for it.
        """
        self._check()
        stream = getattr(self._chat, "stream", None)
        if schema is not None or not callable(stream):
            return self._chat.complete(
                messages, purpose=purpose, max_tokens=max_tokens, temperature=temperature, schema=schema
            )
        reply: ChatReply = stream(
            messages, lambda text: self._check(), purpose=purpose, max_tokens=max_tokens, temperature=temperature
        )
        return reply

    def _check(self) -> None:
        if self._abandoned.is_set():
            raise CancelledError("nobody waits for this any longer")


class MeteredChat:
    """A `ChatModel` that writes down what every call took, failed ones included as far as known.

    A call that was refused, or that reached nothing, took no tokens; one that timed out took an unknown number.

    Args:
        chat: what is asked.
        meter: usage is appended here; threads may share it.
        prices: puts the cost into the usage, of the reply too; without a price it stays None.
    """

    def __init__(
        self,
        chat: ChatModel,
        meter: MutableSequence[Usage],
        *,
        prices: Mapping[str, Price] = MappingProxyType({}),
    ) -> None:
        self._chat, self._meter, self._prices = chat, meter, prices

    @property
    def name(self) -> str:
        """That of the wrapped model."""
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
        """The reply, its usage priced and metered; see `ChatModel.complete`."""
        try:
            reply = self._chat.complete(
                messages, purpose=purpose, max_tokens=max_tokens, temperature=temperature, schema=schema
            )
        except ModelError as error:
            error.usage = priced(_spent(error, purpose, self.name), self._prices)
            self._meter.append(error.usage)
            raise
        usage = priced(reply.usage, self._prices)
        self._meter.append(usage)
        return replace(reply, usage=usage)


def _spent(error: ModelError, purpose: str, model: str) -> Usage:
    if isinstance(error.usage, Usage):
        return error.usage
    refused = isinstance(error, ModelRequestError) and error.status is not None and 400 <= error.status < 500
    none = 0 if refused or isinstance(error, ModelNotAvailableError) else None
    return Usage(purpose, model, input_tokens=none, output_tokens=none)


class ReplyCache(Protocol):
    """Keeps replies by key. Threads may share one object.

    A reply may quote the turns in its prompt, so it goes when one of them does.
    """

    def get(self, key: str) -> ChatReply | None:
        """The reply kept under `key`, None when there is none."""
        ...

    def put(self, key: str, reply: ChatReply, *, user_id: str, turn_ids: Collection[str] | None) -> None:
        """Keep a reply; one that is there already is replaced.

        Args:
            key: from `reply_key`.
            reply: what to keep.
            user_id: whose history the prompt was made of.
            turn_ids: the turns in the prompt; None when they are not known, which stands for any turn of the user.
                When one of them is no longer in the record, nothing is kept.
        """
        ...

    def drop(self, user_id: str, turn_ids: Collection[str] | None = None) -> int:
        """Forget the replies that rest on one of these turns, or on any turn of the user for None; how many.

        Replies whose turns are not known rest on every one of them.
        """
        ...


class _Kept(NamedTuple):
    reply: ChatReply
    user_id: str
    turn_ids: frozenset[str] | None


class MemoryReplyCache:
    """A `ReplyCache` that ends with the process."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._lock = forking.Lock()

    def get(self, key: str) -> ChatReply | None:
        """See `ReplyCache`."""
        with self._lock:
            kept = self._kept.get(key)
        return kept.reply if kept else None

    def put(self, key: str, reply: ChatReply, *, user_id: str, turn_ids: Collection[str] | None) -> None:
        """See `ReplyCache`; it knows no record, so what is put after a turn was deleted stays."""
        with self._lock:
            self._kept[key] = _Kept(reply, user_id, None if turn_ids is None else frozenset(turn_ids))

    def drop(self, user_id: str, turn_ids: Collection[str] | None = None) -> int:
        """See `ReplyCache`."""
        with self._lock:
            gone = [
                key
                for key, kept in self._kept.items()
                if kept.user_id == user_id
                and (turn_ids is None or kept.turn_ids is None or not kept.turn_ids.isdisjoint(turn_ids))
            ]
            for key in gone:
                del self._kept[key]
        return len(gone)


class CachedChat:
    """A `ChatModel` that answers the same request of the same user once. For the bench: elsewhere it is off.

    A reply from the cache has `cached` set and the usage of the call that made it, so that an experiment reports what
    it takes however often it is repeated. Requests with a temperature above 0 ask for a new sample and go past the
    cache.

    Args:
        chat: what is asked when nothing is kept.
        cache: keeps the replies.
        user_id: whose history the prompts are made of.
        turn_ids: the turns the prompts are made of; None when not known.
        endpoint: what else makes replies differ: the address, settings of the server.
    """

    def __init__(
        self,
        chat: ChatModel,
        cache: ReplyCache,
        *,
        user_id: str,
        turn_ids: Collection[str] | None = None,
        endpoint: str = "",
    ) -> None:
        self._chat, self._cache, self._user_id = chat, cache, user_id
        self._turn_ids, self._endpoint = turn_ids, endpoint

    @property
    def name(self) -> str:
        """That of the wrapped model."""
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
        """The reply kept for exactly this request, else a new one; errors are never kept. See `ChatModel.complete`."""
        request: dict[str, Any] = {
            "purpose": purpose,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "schema": schema,
        }
        if temperature > 0:
            return self._chat.complete(messages, **request)
        key = reply_key(self.name, messages, user_id=self._user_id, endpoint=self._endpoint, **request)
        kept = self._cache.get(key)
        if kept is not None:
            return replace(kept, cached=True)
        reply = self._chat.complete(messages, **request)
        self._cache.put(key, reply, user_id=self._user_id, turn_ids=self._turn_ids)
        return reply


def reply_key(
    model: str, messages: Sequence[ChatMessage], *, user_id: str, endpoint: str = "", **request: object
) -> str:
    """A hash of everything that makes a reply: whose history, which model and endpoint, the whole request."""
    parts = [user_id, model, endpoint, [[message.role, message.content] for message in messages], request]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return f"sha256:{digest}"
