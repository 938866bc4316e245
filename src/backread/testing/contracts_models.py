"""What every embedder, sparse encoder, reranker, compressor and chat model must do, as test classes to inherit.

    from backread.testing.contracts_models import EmbedderContract

    class TestMyEmbedder(EmbedderContract):
        @pytest.fixture
        def embedder(self) -> Embedder:
            return MyEmbedder()

The rules are the docstrings of `backread.models.base`. pytest must be installed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import InvalidInputError, ModelError
from backread.models.base import (
    ChatMessage,
    ChatModel,
    ChatReply,
    Compressor,
    Embedder,
    Reranker,
    SparseEncoder,
    SparseVector,
)

__all__ = [
    "CHAT_QUESTION",
    "ChatModelContract",
    "CompressorContract",
    "EmbedderContract",
    "RerankerContract",
    "SparseEncoderContract",
]

_T = TypeVar("_T")

ROUNDING = 1e-4
"""How far a vector may move, by its largest coordinate, with the company it is embedded in."""

TEXTS = (
    "The dentist moved my appointment to Thursday.",
    "Basil wants sun and a pot with holes.",
    "ok",
    "We drove from Lisbon to Porto in the rain, stopped twice, and still arrived before the shops had closed.",
    "The dentist moved my appointment to Thursday.",
    "¿Dónde está la biblioteca?",
)

ODD = (
    "",
    " \t\n\u00a0\u3000",
    "\x00",
    "a\x00b",
    "\ud800",
    "before \udfff after",
    "\ud83d",
    "👩‍👩‍👧‍👦🇵🇹",
    "e\u0301" * 50,
    "\u200b\u200e\ufeff\u00ad",
    "東京は大きい。",
    "مرحبا بالعالم",
    "[CLS] [SEP] [PAD] [MASK] [UNK]",
    "x" * 5_000,
    "\U0010ffff\ufffe",
    "<|im_start|>system",
)

CHAT_QUESTION = "Reply with one word: ready"
"""What `ChatModelContract` asks; a scripted model must have a reply to it."""


class EmbedderContract:
    """Tests of the `Embedder` protocol; override the fixture `embedder`."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        """The embedder under test."""
        raise NotImplementedError("override the fixture `embedder`")

    def test_describes_itself(self, embedder: Embedder) -> None:
        """Name and fingerprint are there, the dimension is part of the fingerprint, and nothing changes by use."""
        before = (embedder.name, embedder.fingerprint, embedder.dimension, embedder.max_tokens)
        embedder.embed(["one use"])
        assert (embedder.name, embedder.fingerprint, embedder.dimension, embedder.max_tokens) == before
        assert isinstance(embedder, Embedder)
        assert embedder.name
        assert str(embedder.dimension) in embedder.fingerprint
        assert embedder.dimension > 0
        assert embedder.max_tokens > 0

    def test_shape_and_dtype(self, embedder: Embedder) -> None:
        """float32, one row a text, as many columns as the dimension."""
        vectors = embedder.embed(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32

    def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        """An empty list gives shape (0, dimension)."""
        vectors = embedder.embed([])
        assert vectors.shape == (0, embedder.dimension)
        assert vectors.dtype == np.float32

    def test_unit_length(self, embedder: Embedder) -> None:
        """Every vector has length 1 within 1e-4."""
        np.testing.assert_allclose(np.linalg.norm(embedder.embed(TEXTS), axis=1), 1.0, atol=1e-4)

    def test_row_i_is_text_i(self, embedder: Embedder) -> None:
        """Rows follow the texts, whatever their lengths; the same text gives the same row, another text another."""
        vectors = embedder.embed(TEXTS)
        _close(vectors[::-1], embedder.embed(TEXTS[::-1]))
        _close(vectors[0], vectors[4])
        for other in (1, 2, 3, 5):
            assert float(vectors[0] @ vectors[other]) < 0.99

    def test_company_does_not_matter(self, embedder: Embedder) -> None:
        """A text alone, among short ones and among long ones has one vector."""
        alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
        _close(alone, embedder.embed(TEXTS))
        crowd = [f"{text} {'and so on ' * 40}" for text in TEXTS] * 3
        _close(alone, embedder.embed([*crowd, *TEXTS])[-len(TEXTS) :])

    @pytest.mark.parametrize("text", ODD, ids=[f"odd{number}" for number in range(len(ODD))])
    def test_odd_text_has_a_vector(self, embedder: Embedder, text: str) -> None:
        """Any str has a finite unit vector and a token count: empty, lone surrogates, NUL, marks, other scripts."""
        vectors = embedder.embed([text, "plain"])
        assert np.isfinite(vectors).all()
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-4)
        assert embedder.count_tokens(text) >= 0

    def test_long_text_is_cut_not_refused(self, embedder: Embedder) -> None:
        """A text far above `max_tokens` has a vector; words beyond the limit don't change it."""
        words = "river " * (2 * embedder.max_tokens)
        vectors = embedder.embed([words, words + "telescope " * 50])
        assert np.isfinite(vectors).all()
        _close(vectors[0], vectors[1])

    def test_tokens_are_counted_beyond_the_limit(self, embedder: Embedder) -> None:
        """Counts grow with the text, are not cut at `max_tokens`, and leave special tokens out."""
        assert embedder.count_tokens("") == 0
        short = embedder.count_tokens("one two three")
        assert short >= 3
        assert embedder.count_tokens("one two three " * 1000) == 1000 * short

    def test_same_again(self, embedder: Embedder) -> None:
        """The same call gives the same vectors, for both kinds."""
        for kind in ("document", "query"):
            np.testing.assert_array_equal(embedder.embed(TEXTS, kind=kind), embedder.embed(TEXTS, kind=kind))

    def test_threads_at_once(self, embedder: Embedder) -> None:
        """Two threads, also at the very first call, get what one gets."""
        results = _at_once(lambda: embedder.embed(TEXTS))
        for result in results:
            _close(result, embedder.embed(TEXTS))


class SparseEncoderContract:
    """Tests of the `SparseEncoder` protocol; override the fixture `encoder`."""

    @pytest.fixture
    def encoder(self) -> SparseEncoder:
        """The encoder under test."""
        raise NotImplementedError("override the fixture `encoder`")

    def test_describes_itself(self, encoder: SparseEncoder) -> None:
        """Name and fingerprint are there, and nothing changes by use."""
        before = (encoder.name, encoder.fingerprint, encoder.max_tokens)
        encoder.encode(["one use"])
        assert (encoder.name, encoder.fingerprint, encoder.max_tokens) == before
        assert isinstance(encoder, SparseEncoder)
        assert encoder.name
        assert encoder.fingerprint
        assert encoder.max_tokens > 0

    def test_no_texts_give_no_vectors(self, encoder: SparseEncoder) -> None:
        """An empty list gives an empty list."""
        assert encoder.encode([]) == []

    def test_vector_i_is_text_i(self, encoder: SparseEncoder) -> None:
        """Vectors follow the texts, whatever their lengths; the same text gives the same vector."""
        for kind in ("document", "query"):
            vectors = encoder.encode(TEXTS, kind=kind)
            assert len(vectors) == len(TEXTS)
            for vector, again in zip(vectors[::-1], encoder.encode(TEXTS[::-1], kind=kind), strict=True):
                _same_terms(vector, again)
            _same_terms(vectors[0], vectors[4])

    @pytest.mark.parametrize("text", ODD, ids=[f"odd{number}" for number in range(len(ODD))])
    def test_odd_text_has_a_sound_vector(self, encoder: SparseEncoder, text: str) -> None:
        """Any str has terms in order with weights above 0, or none at all, and a token count."""
        for vector in encoder.encode([text, TEXTS[0]]):
            assert vector.terms.dtype == np.int64
            assert vector.weights.dtype == np.float32
            assert vector.terms.shape == vector.weights.shape
            assert (np.diff(vector.terms) > 0).all()
            assert np.isfinite(vector.weights).all()
            assert (vector.weights > 0).all()
        assert encoder.count_tokens(text) >= 0

    def test_long_text_is_cut_not_refused(self, encoder: SparseEncoder) -> None:
        """Words beyond `max_tokens` don't change the vector."""
        words = "river " * (2 * encoder.max_tokens)
        _same_terms(*encoder.encode([words, words + "telescope " * 50]))

    def test_threads_at_once(self, encoder: SparseEncoder) -> None:
        """Two threads, also at the very first call, get what one gets."""
        for vectors in _at_once(lambda: encoder.encode(TEXTS)):
            for vector, alone in zip(vectors, encoder.encode(TEXTS), strict=True):
                _same_terms(vector, alone)


class RerankerContract:
    """Tests of the `Reranker` protocol; override the fixture `reranker`."""

    @pytest.fixture
    def reranker(self) -> Reranker:
        """The reranker under test."""
        raise NotImplementedError("override the fixture `reranker`")

    def test_describes_itself(self, reranker: Reranker) -> None:
        """Name and fingerprint are there, and nothing changes by use."""
        before = (reranker.name, reranker.fingerprint)
        reranker.rerank(TEXTS[0], TEXTS)
        assert (reranker.name, reranker.fingerprint) == before
        assert isinstance(reranker, Reranker)
        assert all(before)

    def test_shape_and_dtype(self, reranker: Reranker) -> None:
        """float32, one score a text, never infinite."""
        scores = reranker.rerank(TEXTS[0], TEXTS)
        assert scores.shape == (len(TEXTS),)
        assert scores.dtype == np.float32
        assert not np.isinf(scores).any()

    def test_no_texts_give_no_scores(self, reranker: Reranker) -> None:
        """An empty list gives shape (0,)."""
        assert reranker.rerank("a question", []).shape == (0,)

    def test_score_i_is_of_text_i(self, reranker: Reranker) -> None:
        """Scores follow the texts in any order; equal texts have equal scores; the text that says it is best."""
        scores = reranker.rerank(TEXTS[3], TEXTS)
        np.testing.assert_array_equal(scores[::-1], reranker.rerank(TEXTS[3], TEXTS[::-1]))
        np.testing.assert_array_equal(scores[0], scores[4])
        assert np.nanargmax(scores) == 3

    @pytest.mark.parametrize("text", ODD, ids=[f"odd{number}" for number in range(len(ODD))])
    def test_odd_text_is_text(self, reranker: Reranker, text: str) -> None:
        """Any str may be asked and read."""
        assert reranker.rerank(text, [text, TEXTS[0]]).shape == (2,)

    def test_long_text_is_read_as_far_as_it_goes(self, reranker: Reranker) -> None:
        """A text and a question far above every window have a score."""
        words = "river and sea " * 4000
        assert reranker.rerank(words, [words, "sea"]).shape == (2,)

    def test_threads_at_once(self, reranker: Reranker) -> None:
        """Two threads, also at the very first call, get what one gets."""
        for scores in _at_once(lambda: reranker.rerank(TEXTS[0], TEXTS)):
            np.testing.assert_array_equal(scores, reranker.rerank(TEXTS[0], TEXTS))


class CompressorContract:
    """Tests of the `Compressor` protocol; override the fixture `compressor`."""

    @pytest.fixture
    def compressor(self) -> Compressor:
        """The compressor under test."""
        raise NotImplementedError("override the fixture `compressor`")

    def test_describes_itself(self, compressor: Compressor) -> None:
        """Name and fingerprint are there, and nothing changes by use."""
        before = (compressor.name, compressor.fingerprint)
        compressor.compress(TEXTS[3], 0.5)
        assert (compressor.name, compressor.fingerprint) == before
        assert isinstance(compressor, Compressor)
        assert all(before)

    @pytest.mark.parametrize("rate", [0.1, 0.4, 0.8, 1.0])
    def test_what_stays_stands_in_order(self, compressor: Compressor, rate: float) -> None:
        """No sign is added or changed, but for white space; the same call gives the same; at 1 all stays."""
        for text in TEXTS:
            short = compressor.compress(text, rate)
            left = iter(text)
            assert all(sign in left for sign in short if not sign.isspace())
            assert short == compressor.compress(text, rate)
            assert short.strip()
            assert rate < 1 or short == text

    @pytest.mark.parametrize("text", ODD, ids=[f"odd{number}" for number in range(len(ODD))])
    def test_odd_text_is_text(self, compressor: Compressor, text: str) -> None:
        """Any str may be shortened; a text that is not blank doesn't become blank."""
        assert bool(compressor.compress(text, 0.5).strip()) == bool(text.strip())

    @pytest.mark.parametrize("rate", [0.0, -1.0, 1.1, float("nan")])
    def test_a_rate_out_of_its_range_is_refused(self, compressor: Compressor, rate: float) -> None:
        """Above 0 and at most 1."""
        with pytest.raises(InvalidInputError):
            compressor.compress(TEXTS[0], rate)

    def test_threads_at_once(self, compressor: Compressor) -> None:
        """Two threads, also at the very first call, get what one gets."""
        assert set(_at_once(lambda: compressor.compress(TEXTS[3], 0.5))) == {compressor.compress(TEXTS[3], 0.5)}


class ChatModelContract:
    """Tests of the `ChatModel` protocol; override the fixture `chat` with a model that answers `CHAT_QUESTION`."""

    @pytest.fixture
    def chat(self) -> ChatModel:
        """The model under test."""
        raise NotImplementedError("override the fixture `chat`")

    def test_describes_itself(self, chat: ChatModel) -> None:
        """It follows the protocol and has a name that stays."""
        name = chat.name
        _ask(chat)
        assert isinstance(chat, ChatModel)
        assert name
        assert chat.name == name

    def test_answers_with_text(self, chat: ChatModel) -> None:
        """A reply has text and says why it ended."""
        reply = _ask(chat)
        assert reply.text.strip()
        assert reply.finish_reason

    def test_usage_names_purpose_and_model(self, chat: ChatModel) -> None:
        """Usage is of one call and keeps the purpose; numbers are None or not negative, parts fit in wholes."""
        usage = _ask(chat, purpose="judge").usage
        assert (usage.purpose, usage.model, usage.calls) == ("judge", chat.name, 1)
        numbers = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.reasoning_tokens, usage.cost)
        assert all(number is None or number >= 0 for number in numbers)
        if usage.input_tokens is not None and usage.cache_read_tokens is not None:
            assert usage.cache_read_tokens <= usage.input_tokens
        if usage.output_tokens is not None and usage.reasoning_tokens is not None:
            assert usage.reasoning_tokens <= usage.output_tokens

    def test_takes_a_conversation_and_a_schema(self, chat: ChatModel) -> None:
        """System, user and assistant messages, a temperature and a schema are accepted; a refusal is a ModelError."""
        messages = [
            ChatMessage("system", "You are brief."),
            ChatMessage("user", "Are you there?"),
            ChatMessage("assistant", "Yes."),
            ChatMessage("user", CHAT_QUESTION),
        ]
        schema = {
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
            "additionalProperties": False,
        }
        try:
            reply = chat.complete(messages, purpose="build", max_tokens=64, temperature=0.5, schema=schema)
        except ModelError:
            return
        assert reply.text.strip()

    def test_messages_are_not_changed(self, chat: ChatModel) -> None:
        """The caller's list stays as it was."""
        messages = [ChatMessage("user", CHAT_QUESTION)]
        chat.complete(messages, purpose="answer", max_tokens=64)
        assert messages == [ChatMessage("user", CHAT_QUESTION)]

    def test_threads_at_once(self, chat: ChatModel) -> None:
        """Two threads, also at the very first call, both get a reply."""
        assert all(reply.text.strip() for reply in _at_once(lambda: _ask(chat)))


def _ask(chat: ChatModel, purpose: str = "answer") -> ChatReply:
    return chat.complete([ChatMessage("user", CHAT_QUESTION)], purpose=purpose, max_tokens=64)


def _at_once(work: Callable[[], _T]) -> list[_T]:
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(work) for _ in range(4)]]


def _same_terms(left: SparseVector, right: SparseVector) -> None:
    np.testing.assert_array_equal(left.terms, right.terms)
    np.testing.assert_allclose(left.weights, right.weights, atol=ROUNDING)


def _close(left: NDArray[np.float32], right: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(left, right, atol=ROUNDING)
