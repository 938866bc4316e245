"""What a model must do to be used by backread: small protocols, the docstrings are the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from backread.types import Usage

__all__ = ["ChatMessage", "ChatModel", "ChatReply", "Embedder"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors.

    Attributes:
        name: what users call it ("minilm").
        fingerprint: identifies the weights and the arithmetic that makes vectors; two vectors are compared only when
            their fingerprints are equal. Includes the dimension.
        dimension: columns of a vector.
        max_tokens: tokens the model reads of one text; what is longer is cut by the model, so callers cut passages.
    """

    @property
    def name(self) -> str:
        """See the class."""
        ...

    @property
    def fingerprint(self) -> str:
        """See the class."""
        ...

    @property
    def dimension(self) -> int:
        """See the class."""
        ...

    @property
    def max_tokens(self) -> int:
        """See the class."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` by the model's own tokenizer, special tokens not counted."""
        ...

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """Unit-length vectors, float32, shape (len(texts), dimension), row i for texts[i].

        An empty list gives shape (0, dimension). The vector of a text does not depend on the others of the call
        beyond float rounding. `kind` matters to models with a query prefix and is ignored by the others.

        Raises:
            ModelNotAvailableError: the weights or the endpoint are not there.
            ModelRequestError: an endpoint refused or timed out.
            ModelOutputError: the model gave another count, another dimension, or values that are not finite.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat request."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A chat model's reply. `finish_reason` is "length" when the output was cut at `max_tokens`."""

    text: str
    finish_reason: str
    usage: Usage


@runtime_checkable
class ChatModel(Protocol):
    """Answers a list of messages."""

    @property
    def name(self) -> str:
        """The model's name, as recorded beside everything it wrote."""
        ...

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """The reply to `messages`.

        Args:
            messages: in order; stored text inside them is already fenced and safe for the wire.
            purpose: "build", "recall", "answer" or "judge"; kept in the usage.
            max_tokens: limit of the reply.
            temperature: 0 asks for the most likely reply.
            schema: a JSON schema the reply must follow, where the endpoint can enforce it.

        Raises:
            ModelNotAvailableError: nothing answers at the endpoint.
            ModelRequestError: it refused, timed out, or answered with an error.
            ModelOutputError: it answered without text.
        """
        ...
