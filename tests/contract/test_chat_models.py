"""The chat contract on every chat model of the package."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from backread.models.base import ChatModel
from backread.models.openai import OpenAIChat
from backread.models.wrappers import CachedChat, MemoryReplyCache, MeteredChat, RetryingChat
from backread.testing.contracts_models import CHAT_QUESTION, ChatModelContract
from backread.testing.fakes import FakeChat, FunctionChat


class TestFakeChat(ChatModelContract):
    @pytest.fixture
    def chat(self) -> ChatModel:
        return FakeChat({CHAT_QUESTION: "ready"})


class TestFunctionChat(ChatModelContract):
    @pytest.fixture
    def chat(self) -> ChatModel:
        return FunctionChat(lambda request: f"ready for {request.purpose}")


class TestOpenAIChat(ChatModelContract):
    @pytest.fixture
    def chat(self) -> Iterator[ChatModel]:
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "served-name",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ready"}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
        }
        transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json=answer))
        chat = OpenAIChat("m", base_url="http://server", http_client=httpx2.Client(transport=transport))
        yield chat
        chat.close()


@pytest.fixture
def ready() -> ChatModel:
    return FakeChat({CHAT_QUESTION: "ready"})


class TestRetryingChat(ChatModelContract):
    @pytest.fixture
    def chat(self, ready: ChatModel) -> ChatModel:
        return RetryingChat(ready)


class TestMeteredChat(ChatModelContract):
    @pytest.fixture
    def chat(self, ready: ChatModel) -> ChatModel:
        return MeteredChat(ready, [])


class TestCachedChat(ChatModelContract):
    @pytest.fixture
    def chat(self, ready: ChatModel) -> ChatModel:
        return CachedChat(ready, MemoryReplyCache(), user_id="ann")
