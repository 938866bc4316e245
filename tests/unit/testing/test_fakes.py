from __future__ import annotations

import doctest

import numpy as np
import pytest

from backread.errors import InvalidInputError, ModelNotAvailableError, ModelRequestError
from backread.models.base import ChatMessage, ChatModel, ChatReply, Embedder
from backread.testing import fakes
from backread.testing.fakes import FailingEmbedder, FakeChat, FunctionChat, HashEmbedder, request_key
from backread.types import Usage


def _ask(chat: ChatModel, text: str, max_tokens: int = 100) -> ChatReply:
    messages = [ChatMessage("system", "rules"), ChatMessage("user", "first"), ChatMessage("user", text)]
    return chat.complete(messages, purpose="answer", max_tokens=max_tokens)


def test_examples_run() -> None:
    assert doctest.testmod(fakes).failed == 0


def test_texts_that_share_stems_are_near() -> None:
    near, far, stop, question = HashEmbedder(256).embed(
        ["We walked the dogs.", "Compound interest grows.", "the of and", "Who walks a dog?"]
    )
    assert float(near @ question) > 0.9
    assert abs(float(far @ question)) < 0.3
    assert abs(float(stop @ question)) < 0.3  # stop words alone still make a vector, but don't make texts near


def test_vectors_are_the_same_on_every_machine() -> None:
    vector = HashEmbedder(8).embed(["dog"])[0]
    np.testing.assert_array_equal(vector, HashEmbedder(8).embed(["Dogs"])[0])
    # blake2b("dog", digest_size=16, salt=16 zero bytes) as four little-endian numbers n: bucket (n >> 1) % 8, sign +
    # when n is odd. They are (2, +), (0, +), (0, +), (6, +), so the sum is (2, 0, 1, 0, 0, 0, 1, 0), of length sqrt(6).
    np.testing.assert_allclose(vector, np.array([2, 0, 1, 0, 0, 0, 1, 0]) / np.sqrt(6), atol=1e-7)


def test_text_without_words_has_one_fixed_vector() -> None:
    empty, blank, signs, word = HashEmbedder().embed(["", "  ", "?!", "word"])
    np.testing.assert_array_equal(empty, blank)
    np.testing.assert_array_equal(empty, signs)
    assert not np.array_equal(empty, word)


def test_words_beyond_max_tokens_are_not_read() -> None:
    embedder = HashEmbedder(max_tokens=2)
    two, three = embedder.embed(["red green", "red green blue"])
    np.testing.assert_array_equal(two, three)
    assert embedder.count_tokens("red green blue") == 3


def test_whatever_changes_vectors_changes_the_fingerprint() -> None:
    embedders = [
        HashEmbedder(),
        HashEmbedder(32),
        HashEmbedder(name="b"),
        HashEmbedder(seed=1),
        HashEmbedder(max_tokens=9),
    ]
    assert len({embedder.fingerprint for embedder in embedders}) == len(embedders)
    assert HashEmbedder().fingerprint == HashEmbedder().fingerprint
    assert not np.array_equal(embedders[0].embed(["dog"]), embedders[3].embed(["dog"]))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_every_dimension_gives_unit_vectors(dimension: int) -> None:
    texts = ["", *(f"word{number} and word{number + 1}" for number in range(200))]
    np.testing.assert_allclose(np.linalg.norm(HashEmbedder(dimension).embed(texts), axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize(("dimension", "max_tokens"), [(0, 10), (-1, 10), (8, 0)])
def test_sizes_below_one_are_refused(dimension: int, max_tokens: int) -> None:
    with pytest.raises(InvalidInputError):
        HashEmbedder(dimension, max_tokens=max_tokens)


def test_failing_embedder_looks_like_the_other_and_always_raises() -> None:
    like = HashEmbedder(12)
    failing = FailingEmbedder(like)
    assert isinstance(failing, Embedder)
    assert (failing.name, failing.fingerprint, failing.dimension) == (like.name, like.fingerprint, 12)
    assert (failing.max_tokens, failing.count_tokens("a b")) == (like.max_tokens, 2)
    for texts in ([], ["text"]):
        with pytest.raises(ModelRequestError):
            failing.embed(texts)
    with pytest.raises(ModelNotAvailableError, match="gone"):
        FailingEmbedder(error=ModelNotAvailableError("gone")).embed(["text"])


def test_replies_are_keyed_by_the_last_user_message() -> None:
    chat = FakeChat({"France": "Paris", "Peru": "Lima"})
    assert _ask(chat, "Capital of Peru?").text == "Lima"
    assert _ask(chat, "Capital of France?").text == "Paris"
    assert _ask(chat, "Capital of Peru?").text == "Lima"
    assert [request.question for request in chat.requests] == [
        "Capital of Peru?",
        "Capital of France?",
        "Capital of Peru?",
    ]
    assert chat.requests[0].messages[0] == ChatMessage("system", "rules")
    assert (chat.requests[0].purpose, chat.requests[0].max_tokens, chat.requests[0].schema) == ("answer", 100, None)


def test_a_request_without_a_key_is_an_error_that_quotes_it() -> None:
    chat = FakeChat({"France": "Paris"})
    with pytest.raises(ModelRequestError, match=r"no key fits the answer request 'Capital of Chad\?'") as caught:
        _ask(chat, "Capital of Chad?")
    assert request_key("Capital of Chad?") in str(caught.value)
    assert len(chat.requests) == 1
    with pytest.raises(ModelRequestError, match="no key"):
        chat.complete([ChatMessage("system", "France")], purpose="judge", max_tokens=5)


def test_a_request_with_two_keys_is_an_error_unless_one_is_the_whole() -> None:
    question = "From France to Peru"
    replies = {"France": "Paris", "Peru": "Lima"}
    with pytest.raises(ModelRequestError, match="'France', 'Peru'"):
        _ask(FakeChat(replies), question)
    assert _ask(FakeChat({**replies, request_key(question): "by ship"}), question).text == "by ship"


def test_an_error_as_reply_is_raised() -> None:
    with pytest.raises(ModelNotAvailableError, match="down"):
        _ask(FakeChat({"x": ModelNotAvailableError("down")}), "x")


def test_function_sees_the_request() -> None:
    schema = {"type": "object"}
    chat = FunctionChat(lambda request: f"{request.purpose} {request.temperature} {request.schema}", name="f")
    reply = chat.complete([ChatMessage("user", "a")], purpose="build", max_tokens=99, temperature=0.5, schema=schema)
    assert reply.text == "build 0.5 {'type': 'object'}"
    assert (chat.name, reply.usage.model, reply.usage.purpose) == ("f", "f", "build")


def test_function_may_give_a_whole_reply() -> None:
    whole = ChatReply("", "content_filter", Usage("answer", "x"))
    assert _ask(FunctionChat(lambda request: whole), "a") is whole


def test_usage_counts_words_and_signs() -> None:
    usage = _ask(FunctionChat(lambda request: "Yes, it is."), "Is it?").usage
    # rules + first + Is it ? = 5; Yes , it is . = 5
    assert (usage.input_tokens, usage.output_tokens) == (5, 5)
    assert (usage.cache_read_tokens, usage.reasoning_tokens, usage.cost, usage.seconds) == (0, 0, None, None)


@pytest.mark.parametrize(
    ("limit", "text", "finish"), [(3, "Yes, it", "length"), (5, "Yes, it is.", "stop"), (0, "", "length")]
)
def test_a_reply_above_max_tokens_is_cut_and_says_so(limit: int, text: str, finish: str) -> None:
    reply = _ask(FunctionChat(lambda request: "Yes, it is."), "Is it?", max_tokens=limit)
    assert (reply.text, reply.finish_reason, reply.usage.output_tokens) == (text, finish, min(limit, 5))
