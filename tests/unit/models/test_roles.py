"""Which model does what, from settings to a call."""

from __future__ import annotations

import threading

import pytest

from backread.errors import InvalidInputError, ModelNotAvailableError, ModelRequestError
from backread.models.base import ChatMessage
from backread.models.chats import open_roles
from backread.models.openai import OpenAIChat
from backread.models.pricing import Price
from backread.models.roles import ChatRoles
from backread.settings import resolve
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.types import Usage

ASKED = [ChatMessage("user", "Hello?")]


def names(roles: ChatRoles) -> list[str | None]:
    return [chat.name if chat else None for chat in (roles.build, roles.recall, roles.answer, roles.judge)]


def test_one_model_is_every_role_and_one_client() -> None:
    roles = open_roles(resolve({"BACKREAD_MODEL": "m", "OPENAI_BASE_URL": "http://server"}))
    assert names(roles) == ["m"] * 4
    assert roles.build is roles.judge
    assert isinstance(roles.build, OpenAIChat)
    assert roles.build.base_url == "http://server/v1"


def test_roles_name_models_separately() -> None:
    environment = {"BACKREAD_MODEL": "m", "BACKREAD_BUILD_MODEL": "small", "BACKREAD_JUDGE_MODEL": "large"}
    roles = open_roles(resolve({**environment, "OPENAI_API_KEY": "k"}))
    assert names(roles) == ["small", "m", "m", "large"]
    assert names(open_roles(resolve({"BACKREAD_JUDGE_MODEL": "large"}))) == [None, None, None, "large"]
    assert names(open_roles(resolve({}))) == [None] * 4


# CFG-01
def test_a_missing_endpoint_is_reported_by_the_first_call() -> None:
    roles = open_roles(resolve({"BACKREAD_MODEL": "m"}))
    assert roles.answer is not None
    with pytest.raises(ModelNotAvailableError, match="chat model 'm' has no endpoint"):
        roles.answer.complete(ASKED, purpose="answer", max_tokens=5)


def test_a_role_is_found_by_name() -> None:
    roles = ChatRoles(judge=FunctionChat(lambda request: "yes", name="j"))
    assert roles.get("judge") is roles.judge
    assert roles.get("build") is None
    with pytest.raises(InvalidInputError, match="'grader'"):
        roles.get("grader")


def test_watched_roles_meter_and_try_again() -> None:
    left = [ModelRequestError("HTTP 503", status=503, retryable=True)]

    def answer(request: ChatRequest) -> str:
        if left:
            raise left.pop()
        return "Hello."

    meter: list[Usage] = []
    watched = ChatRoles.of(FunctionChat(answer)).watched(
        meter, prices={"function": Price(1, 1)}, sleep=lambda seconds: None
    )
    assert watched.recall is not None
    assert watched.recall.complete(ASKED, purpose="recall", max_tokens=5).usage.cost is not None
    assert [usage.purpose for usage in meter] == ["recall", "recall"]
    assert ChatRoles().watched(meter) == ChatRoles()


def test_cancelled_work_is_not_tried_again() -> None:
    cancel = threading.Event()
    cancel.set()

    def fail(request: ChatRequest) -> str:
        raise ModelRequestError("HTTP 503", status=503, retryable=True)

    chat = FunctionChat(fail)
    watched = ChatRoles.of(chat).watched([], cancel=cancel)
    assert watched.build is not None
    with pytest.raises(ModelRequestError):
        watched.build.complete(ASKED, purpose="build", max_tokens=5)
    assert len(chat.requests) == 1


def test_every_model_is_closed_once() -> None:
    closed: list[str] = []

    class Closing(FunctionChat):
        def close(self) -> None:
            closed.append(self.name)

    one, two = Closing(lambda request: "x", name="one"), Closing(lambda request: "x", name="two")
    ChatRoles(one, two, one, FunctionChat(lambda request: "x")).close()
    assert closed == ["one", "two"]
