"""What a model must do to be used by backread: small protocols, the docstrings are the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from backread.arrays import NDArray, np
from backread.types import Usage

__all__ = ["ChatMessage", "ChatModel", "ChatReply", "Embedder", "Reranker", "SparseEncoder", "SparseVector", "Tagger"]


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


class SparseVector(NamedTuple):
    """A text as weighted terms of a model's vocabulary.

    Attributes:
        terms: int64 (m,), numbers of terms, ascending and distinct.
        weights: float32 (m,), finite and above 0; a term that is not there weighs nothing.
    """

    terms: NDArray[np.int64]
    weights: NDArray[np.float32]


@runtime_checkable
class SparseEncoder(Protocol):
    """Turns texts into weighted terms, words they don't hold included: learned sparse retrieval.

    Attributes:
        name: what users call it.
        fingerprint: identifies the weights and the arithmetic; vectors are compared only when these are equal.
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
    def max_tokens(self) -> int:
        """See the class."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` by the model's own tokenizer, special tokens not counted."""
        ...

    def encode(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> list[SparseVector]:
        """A vector for each text, in order; the score of a document is its dot product with the query.

        A text may have no term at all. `kind` matters to models that read a query in another way.

        Raises:
            ModelNotAvailableError: the weights are not there.
            ModelOutputError: the model gave another shape or values that are not finite.
        """
        ...


@runtime_checkable
class Reranker(Protocol):
    """Reads a question together with each text and says how well the text answers it.

    Attributes:
        name: what users call it ("ms-marco-minilm").
        fingerprint: identifies the model and the arithmetic, for records.
    """

    @property
    def name(self) -> str:
        """See the class."""
        ...

    @property
    def fingerprint(self) -> str:
        """See the class."""
        ...

    def rerank(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Scores, float32 (len(texts),), score i for texts[i]; higher is better, on a scale of the model's own.

        NaN is "could not be scored", never a low score; infinities don't occur. Equal texts have equal scores. An empty
        list gives an empty array without a call.

        Raises:
            ModelNotAvailableError: the weights or the endpoint are not there.
            ModelRequestError: an endpoint refused or timed out.
            ModelOutputError: the scores can't be tied to the texts, or a model's arithmetic gave none that is finite.
        """
        ...


@runtime_checkable
class Tagger(Protocol):
    """Names what a text is about: people, places, things, numbers, keywords.

    Attributes:
        name: what it is called in records, weights included.
    """

    @property
    def name(self) -> str:
        """See the class."""
        ...

    def tag(self, texts: Sequence[str], around: Sequence[str] = ()) -> tuple[str, ...]:
        """Tags of some texts together, as they are written there, in the order they appear first, each once.

        No two differ in case only. An empty tuple when nothing stands out. `around` has texts that keywords should tell
        these ones apart from; taggers that know names by other means ignore it.

        Raises:
            ModelNotAvailableError: the weights are not there.
            ModelOutputError: the model gave spans that are not in the text.
        """
        ...


@runtime_checkable
class Compressor(Protocol):
    """Leaves out words of a text, so that a model has less to read.

    Attributes:
        name: what users call it ("llmlingua-2").
        fingerprint: identifies the weights and the arithmetic, for records.
    """

    @property
    def name(self) -> str:
        """See the class."""
        ...

    @property
    def fingerprint(self) -> str:
        """See the class."""
        ...

    def compress(self, text: str, rate: float) -> str:
        """About `rate` of the tokens of `text`, in order, none of them changed; never blank unless `text` is.

        The result depends on nothing but the arguments. `rate` is above 0 and at most 1, where nothing is left out.

        Raises:
            InvalidInputError: the rate is out of its range.
            ModelNotAvailableError: the weights are not there.
            ModelOutputError: the model gave values that are not finite.
        """
        ...


@runtime_checkable
class Attending(Protocol):
    """What a compressor has in addition when its model tells how much texts attend to each other."""

    def attention(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """How much text i attends to text j before it, float32 (n, n); 0 for j >= i, the rest of a row sums to 1.

        A row is all 0 where the model says nothing: the first one, and texts beyond what it reads.

        Raises:
            ModelNotAvailableError: the weights are not there.
            ModelOutputError: the model gave values that are not finite.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat request."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A chat model's reply.

    Attributes:
        text: the answer, never empty; reasoning that came before it is not part of it.
        finish_reason: as the endpoint says; "length" when the output was cut at `max_tokens`, "incomplete" when a
            stream ended before its end, "unknown" when the endpoint gave none.
        usage: of this call, or of the call that was made when the reply is from a cache.
        reasoning: what the model thought before it answered, where the endpoint shows it. Never an answer.
        cached: True when no call was made.
    """

    text: str
    finish_reason: str
    usage: Usage
    reasoning: str | None = None
    cached: bool = False

    @property
    def cut(self) -> bool:
        """True when `text` is only the beginning of what the model had to say."""
        return self.finish_reason in ("length", "incomplete")


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
            schema: a JSON schema the reply must follow, where the endpoint can enforce it. The messages must ask for
                the format too; `structured.complete_as` does, and checks the reply.

        Raises:
            ModelNotAvailableError: nothing answers at the endpoint.
            ModelRequestError: it refused, timed out, or answered with an error; `retryable` says which may pass.
            ContextWindowError: the prompt does not fit, or was cut; it is never answered from a part of it.
            ModelOutputError: it answered without text; `cut` when reasoning took all the room.
        """
        ...
