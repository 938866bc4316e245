"""Models for tests: deterministic, offline, with plausible usage. Part of the product; they follow its contracts."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from backread.errors import InvalidInputError, ModelError, ModelRequestError
from backread.models.base import ChatMessage, ChatReply, Embedder
from backread.text.analysis import ANALYZER, tokens
from backread.types import Usage

__all__ = ["ChatRequest", "FailingEmbedder", "FakeChat", "FunctionChat", "HashEmbedder", "request_key"]

BUCKETS = 4
_TOKEN = re.compile(r"\w+|[^\w\s]")


class HashEmbedder:
    """An `Embedder` without a model: texts that share stems are near each other, and nothing else is.

    A vector is the sum over the text's stems, stop words left out where others remain, each hashed (blake2b) to four
    signed places, at unit length. A text without words gives one fixed unit vector. The same on every machine.

    Args:
        dimension: columns; fewer means more chance neighbours.
        name: what it is called.
        max_tokens: words of a text that are read; the rest is ignored, as with a real model.
        seed: another seed gives another, unrelated embedder.

    Example:
        >>> embedder = HashEmbedder()
        >>> near, far = embedder.embed(["walking the dogs", "compound interest"]) @ embedder.embed(["dog walks"])[0]
        >>> bool(near > far)
        True
    """

    def __init__(self, dimension: int = 64, *, name: str = "hash", max_tokens: int = 254, seed: int = 0) -> None:
        if dimension < 1 or max_tokens < 1:
            raise InvalidInputError(f"dimension {dimension} and max_tokens {max_tokens} must be at least 1")
        self._dimension, self._name, self._max_tokens, self._seed = dimension, name, max_tokens, seed

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Names everything a vector depends on: name, dimension, words read, seed, and the rules that make stems."""
        return f"hash:{self._name}:{self._seed}:{self._max_tokens}:{ANALYZER}:{self._dimension}"

    @property
    def dimension(self) -> int:
        """As given."""
        return self._dimension

    @property
    def max_tokens(self) -> int:
        """As given."""
        return self._max_tokens

    def count_tokens(self, text: str) -> int:
        """Words of `text`, as search sees them."""
        return sum(1 for _ in tokens(text))

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """Unit vectors, float32, shape (len(texts), dimension), row i for texts[i]; `kind` makes no difference."""
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._vector(text)
        return vectors

    def _vector(self, text: str) -> NDArray[np.float64]:
        words = list(itertools.islice(tokens(text), self._max_tokens))
        stems = [word.stem for word in words if not word.stop] or [word.stem for word in words]
        total = sum((self._places(stem) for stem in stems), np.zeros(self._dimension))
        if not total.any():  # no words, or words that cancel out
            total = self._places("")
        unit: NDArray[np.float64] = total / np.linalg.norm(total)
        return unit

    def _places(self, stem: str) -> NDArray[np.float64]:
        """Four signed ones, or their sum where they meet; never all zero."""
        vector = np.zeros(self._dimension)
        data = stem.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(
            data, digest_size=4 * BUCKETS, salt=self._seed.to_bytes(16, "little", signed=True)
        ).digest()
        for start in range(0, len(digest), 4):
            number = int.from_bytes(digest[start : start + 4], "little")
            vector[(number >> 1) % self._dimension] += 1.0 if number & 1 else -1.0
        if not vector.any():
            vector[int.from_bytes(digest, "little") % self._dimension] = 1.0
        return vector


class FailingEmbedder:
    """An `Embedder` that can't embed: every `embed` raises, everything else is as in `like`.

    Args:
        like: whose name, fingerprint and counts it shows, so that it fits a store that `like` filled.
        error: what is raised; a ModelRequestError by default.
    """

    def __init__(self, like: Embedder | None = None, *, error: ModelError | None = None) -> None:
        self._like: Embedder = like if like is not None else HashEmbedder()
        self._error = error if error is not None else ModelRequestError("the embedder is down (FailingEmbedder)")

    @property
    def name(self) -> str:
        """That of `like`."""
        return self._like.name

    @property
    def fingerprint(self) -> str:
        """That of `like`."""
        return self._like.fingerprint

    @property
    def dimension(self) -> int:
        """That of `like`."""
        return self._like.dimension

    @property
    def max_tokens(self) -> int:
        """That of `like`."""
        return self._like.max_tokens

    def count_tokens(self, text: str) -> int:
        """That of `like`."""
        return self._like.count_tokens(text)

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """Raise the error, also for an empty list."""
        raise self._error


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a fake chat model was asked; the arguments of `ChatModel.complete`."""

    messages: tuple[ChatMessage, ...]
    purpose: str
    max_tokens: int
    temperature: float
    schema: Mapping[str, Any] | None

    @property
    def question(self) -> str:
        """The text of the last user message, "" when there is none."""
        return next((message.content for message in reversed(self.messages) if message.role == "user"), "")


def request_key(question: str) -> str:
    """The key of `FakeChat` for exactly this last user message: "blake2b:" and 16 hex digits."""
    digest = hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"blake2b:{digest}"


class FunctionChat:
    """A `ChatModel` that is a function of the request.

    Args:
        reply: gives the text, or a whole `ChatReply`; an error it raises is the model's error.
        name: what it is called.

    Attributes:
        requests: every request so far, in the order they came.
    """

    def __init__(self, reply: Callable[[ChatRequest], str | ChatReply], *, name: str = "function") -> None:
        self._function, self._name = reply, name
        self.requests: list[ChatRequest] = []

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """What the function says, cut at `max_tokens` words and signs with finish_reason "length", else "stop".

        Usage counts words and signs; nothing is cached, nothing is reasoning, cost and seconds are unknown.
        """
        request = ChatRequest(tuple(messages), purpose, max_tokens, temperature, schema)
        self.requests.append(request)
        reply = self._function(request)
        if isinstance(reply, ChatReply):
            return reply
        found = list(_TOKEN.finditer(reply))
        cut = len(found) > max_tokens
        text = reply[: found[max_tokens].start()].rstrip() if cut else reply
        usage = Usage(
            purpose=purpose,
            model=self._name,
            input_tokens=sum(len(_TOKEN.findall(message.content)) for message in request.messages),
            output_tokens=min(len(found), max_tokens),
            cache_read_tokens=0,
            reasoning_tokens=0,
        )
        return ChatReply(text, "length" if cut else "stop", usage)


class FakeChat(FunctionChat):
    """A `ChatModel` with replies keyed by request, so that tests don't depend on the order of calls.

    A key is text that occurs in the last user message, or `request_key` of the whole message, which goes first. A
    request that fits no key, or several, is a ModelRequestError that quotes it: there is no default reply.

    Args:
        replies: key to reply; a ModelError as reply is raised.
        name: what it is called.

    Example:
        >>> chat = FakeChat({"capital of France": "Paris"})
        >>> chat.complete([ChatMessage("user", "The capital of France?")], purpose="answer", max_tokens=5).text
        'Paris'
    """

    def __init__(self, replies: Mapping[str, str | ModelError], *, name: str = "fake") -> None:
        super().__init__(self._look_up, name=name)
        self._replies = dict(replies)

    def _look_up(self, request: ChatRequest) -> str:
        question = request.question
        exact = request_key(question)
        keys = [exact] if exact in self._replies else [key for key in self._replies if key in question]
        if len(keys) != 1:
            fits = "no key" if not keys else f"the keys {', '.join(map(repr, keys))}"
            shown = question if len(question) <= 400 else question[:400] + "…"
            raise ModelRequestError(f"{self.name}: {fits} fits the {request.purpose} request {shown!r} ({exact})")
        reply = self._replies[keys[0]]
        if isinstance(reply, ModelError):
            raise reply
        return reply
