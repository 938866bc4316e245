"""Waiting and trying again, metering, caching: each around any chat model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from chat_wires import Wire, completion

from backread.errors import ContextWindowError, ModelError, ModelNotAvailableError, ModelOutputError, ModelRequestError
from backread.models.base import ChatMessage, ChatModel, ChatReply
from backread.models.pricing import Price
from backread.models.wrappers import CachedChat, MemoryReplyCache, MeteredChat, RetryingChat, reply_key
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.types import Usage

MESSAGES = [ChatMessage("user", "What bites?")]
BUSY = ModelRequestError("HTTP 503", status=503, retryable=True)


class Clock:
    """A clock that only moves when someone sleeps, or when a call takes time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def failing(*errors: ModelError, then: str = "Zuzu bites.") -> FunctionChat:
    left = list(errors)

    def answer(request: ChatRequest) -> str:
        if left:
            raise left.pop(0)
        return then

    return FunctionChat(answer)


def ask(chat: ChatModel, **options: Any) -> ChatReply:
    arguments: dict[str, Any] = {"messages": MESSAGES, "purpose": "build", "max_tokens": 50} | options
    return chat.complete(**arguments)


def retrying(chat: ChatModel, clock: Clock, **options: Any) -> RetryingChat:
    return RetryingChat(chat, **{"sleep": clock.sleep, "clock": clock, "chance": lambda: 1.0, **options})


# --- retrying


def test_waits_double_and_the_reply_comes() -> None:
    clock, chat = Clock(), failing(BUSY, BUSY, BUSY)
    assert ask(retrying(chat, clock), temperature=0.5, schema={"type": "object"}).text == "Zuzu bites."
    assert clock.waits == [0.5, 1.0, 2.0]
    assert len(set(map(repr, chat.requests))) == 1  # the same request every time


def test_half_of_a_wait_is_chance() -> None:
    clock = Clock()
    ask(retrying(failing(BUSY, BUSY), clock, chance=lambda: 0.0))
    assert clock.waits == [0.25, 0.5]


def test_a_wait_has_a_longest() -> None:
    clock = Clock()
    ask(retrying(failing(*[BUSY] * 9), clock, attempts=10, longest_wait=4.0))
    assert clock.waits == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]


# LLM-07
def test_the_last_error_is_raised_with_the_count() -> None:
    clock, chat = Clock(), failing(*[BUSY] * 9)
    for _ in range(2):
        with pytest.raises(ModelRequestError, match=r"^HTTP 503 \(tried 4 times\)$") as caught:
            ask(retrying(chat, clock))
        assert (caught.value.status, caught.value.retryable, caught.value.__cause__) == (503, True, BUSY)
    assert str(BUSY) == "HTTP 503"


# LLM-07
@pytest.mark.parametrize(
    "error",
    [
        ModelRequestError("HTTP 401", status=401),
        ContextWindowError("too long", status=400),
        ModelNotAvailableError("refused"),
        ModelOutputError("no text"),
    ],
)
def test_what_can_not_pass_is_not_tried_again(error: ModelError) -> None:
    clock, chat = Clock(), failing(error)
    with pytest.raises(type(error)) as caught:
        ask(retrying(chat, clock))
    assert caught.value is error
    assert (clock.waits, len(chat.requests)) == ([], 1)


# LLM-07
@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"Retry-After": "2"}, [2.0]),
        ({"Retry-After": "Mon, 01 Jun 2026 10:00:30 GMT", "Date": "Mon, 01 Jun 2026 10:00:00 GMT"}, [30.0]),
        ({"Retry-After": "0"}, [0.0]),
        ({}, [0.5]),
    ],
)
def test_retry_after_is_honoured(headers: dict[str, str], waits: list[float]) -> None:
    answers = [httpx2.Response(429, json={}, headers=headers), httpx2.Response(200, json=completion())]
    wire = Wire(lambda request: answers.pop(0))
    clock = Clock()
    assert ask(retrying(wire.chat, clock)).text == "Here."
    assert clock.waits == waits


def test_a_wait_that_is_too_long_is_not_begun() -> None:
    clock, chat = Clock(), failing(ModelRequestError("quota", status=429, retry_after=3600, retryable=True))
    with pytest.raises(ModelRequestError, match="quota") as caught:
        ask(retrying(chat, clock))
    assert (clock.waits, caught.value.retry_after) == ([], 3600)


def test_nothing_is_tried_again_after_the_deadline() -> None:
    clock, chat = Clock(), failing(*[BUSY] * 9)
    with pytest.raises(ModelRequestError, match="tried 2 times"):
        ask(retrying(chat, clock, attempts=9, deadline=101.4))
    assert clock.waits == [0.5]  # the next would end at 101.5


def test_cancelling_ends_the_attempts() -> None:
    cancel = threading.Event()
    cancel.set()
    chat = failing(*[BUSY] * 9)
    with pytest.raises(ModelRequestError):
        ask(RetryingChat(chat, sleep=cancel.wait))
    assert len(chat.requests) == 1


# LLM-07
@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        (lambda: httpx2.Response(429, json={}, headers={"Retry-After": "2"}), 4),
        (lambda: httpx2.Response(503, json={}), 4),
        (lambda: httpx2.Response(200, json={"choices": None, "error": {"code": 429, "message": "daily limit"}}), 4),
        (lambda: httpx2.Response(200, json={"choices": []}), 1),
        (lambda: httpx2.Response(401, json={}), 1),
    ],
)
def test_failures_that_last_for_ever_end_in_an_error(answer: Callable[[], httpx2.Response], requests: int) -> None:
    wire, clock = Wire(lambda request: answer()), Clock()
    with pytest.raises(ModelError):
        ask(retrying(wire.chat, clock))
    assert len(wire.requests) == requests
    assert sum(clock.waits) <= 60


# --- metering


def test_every_call_is_metered_by_purpose_and_priced() -> None:
    meter: list[Usage] = []
    chat = MeteredChat(failing(), meter, prices={"function": Price(input=1.0, output=2.0)})
    replies = [ask(chat, purpose=purpose) for purpose in ("build", "judge")]
    assert meter == [reply.usage for reply in replies]
    assert [usage.purpose for usage in meter] == ["build", "judge"]
    assert meter[0].input_tokens == 3
    assert meter[0].cost == pytest.approx((3 * 1.0 + 3 * 2.0) / 1e6)


def test_without_a_price_the_cost_is_unknown() -> None:
    meter: list[Usage] = []
    assert ask(MeteredChat(failing(), meter)).usage.cost is None
    assert meter[0].cost is None


PAID = Usage("build", "function", input_tokens=9, output_tokens=5)


@pytest.mark.parametrize(
    ("error", "tokens"),
    [
        (ModelOutputError("no text", usage=PAID), (9, 5)),
        (ModelRequestError("HTTP 429", status=429, retryable=True), (0, 0)),
        (ModelNotAvailableError("nothing there"), (0, 0)),
        (ModelRequestError("HTTP 502", status=502, retryable=True), (None, None)),
        (ModelRequestError("no answer within 5 seconds", retryable=True), (None, None)),
        (ModelOutputError("not JSON"), (None, None)),
    ],
)
def test_failed_calls_are_metered_as_far_as_known(error: ModelError, tokens: tuple[int | None, int | None]) -> None:
    meter: list[Usage] = []
    with pytest.raises(type(error)):
        ask(MeteredChat(failing(error), meter, prices={"function": Price(1.0, 1.0)}))
    (usage,) = meter
    assert (usage.purpose, usage.model, usage.calls) == ("build", "function", 1)
    assert (usage.input_tokens, usage.output_tokens) == tokens
    assert (usage.cost is None) is (None in tokens)
    assert error.usage == usage


def test_metering_inside_retrying_counts_every_attempt() -> None:
    meter: list[Usage] = []
    ask(RetryingChat(MeteredChat(failing(BUSY, BUSY), meter), sleep=lambda seconds: None))
    assert [usage.output_tokens for usage in meter] == [None, None, 3]


# --- caching


def test_the_same_request_is_asked_once() -> None:
    chat, cache = failing(), MemoryReplyCache()
    cached = CachedChat(chat, cache, user_id="ann")
    first, second = ask(cached), ask(cached)
    assert (first.cached, second.cached) == (False, True)
    assert (second.text, second.usage) == (first.text, first.usage)
    assert len(chat.requests) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"messages": [ChatMessage("system", "What bites?")]},
        {"messages": [ChatMessage("user", "What bites??")]},
        {"messages": [*MESSAGES, ChatMessage("user", "")]},
        {"purpose": "judge"},
        {"max_tokens": 51},
        {"schema": {"type": "object"}},
    ],
)
def test_another_request_is_another_entry(other: dict[str, Any]) -> None:
    chat = failing()
    cached = CachedChat(chat, MemoryReplyCache(), user_id="ann")
    ask(cached)
    assert not ask(cached, **other).cached
    assert len(chat.requests) == 2


def test_users_models_and_endpoints_share_nothing() -> None:
    cache = MemoryReplyCache()
    named = FunctionChat(lambda request: "x", name="other")
    ask(CachedChat(failing(), cache, user_id="ann"))
    assert not ask(CachedChat(failing(), cache, user_id="bob")).cached
    assert not ask(CachedChat(named, cache, user_id="ann")).cached
    assert not ask(CachedChat(failing(), cache, user_id="ann", endpoint="http://b/v1")).cached
    assert ask(CachedChat(failing(), cache, user_id="ann")).cached


def test_samples_and_errors_are_not_kept() -> None:
    chat = failing(BUSY)
    cached = CachedChat(chat, MemoryReplyCache(), user_id="ann")
    with pytest.raises(ModelRequestError):
        ask(cached)
    assert [ask(cached, temperature=0.7).cached for _ in range(2)] == [False, False]
    assert [ask(cached).cached for _ in range(2)] == [False, True]


def test_a_deleted_turn_takes_the_replies_with_it() -> None:
    cache, usage = MemoryReplyCache(), Usage("build", "m")
    for key, user, turns in [("a", "ann", ["t1"]), ("b", "ann", ["t2"]), ("c", "ann", None), ("d", "bob", ["t1"])]:
        cache.put(key, ChatReply(key, "stop", usage), user_id=user, turn_ids=turns)
    assert cache.drop("ann", ["t1", "t9"]) == 2
    assert [cache.get(key) is not None for key in "abcd"] == [False, True, False, True]
    assert cache.drop("ann") == 1
    assert [cache.get(key) is not None for key in "abcd"] == [False, False, False, True]


def test_a_key_is_the_same_on_every_machine() -> None:
    key = reply_key("m", [ChatMessage("user", "\ud800 é")], user_id="ann", purpose="build", schema={"b": 1, "a": 2})
    assert key == reply_key(
        "m", [ChatMessage("user", "\ud800 é")], user_id="ann", schema={"a": 2, "b": 1}, purpose="build"
    )
    assert key.startswith("sha256:")
    assert len(key) == 7 + 64
