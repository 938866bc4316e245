"""LLMLingua-2: which words stay, chunks and pieces, attention between texts, and what is said where it isn't there."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import InvalidInputError, MissingExtraError, ModelNotAvailableError, ModelOutputError
from backread.models import llmlingua
from backread.models.base import Attending, Compressor
from backread.models.llmlingua import LlmLingua2, Word, installed_compressor, kept, open_llmlingua, text_attention


class Encoder:
    """Words with the probability that a function gives them, a chunk for each line."""

    def __init__(self, probability: Callable[[str], float]) -> None:
        self.probability = probability

    def words(self, text: str) -> list[list[Word]]:
        chunks = []
        for line in re.finditer(r"[^\n]+", text):
            found = re.finditer(r"\w+|[^\w\s]", line.group())
            at = line.start()
            chunks.append([Word(at + m.start(), at + m.end(), self.probability(m.group())) for m in found])
        return chunks

    def attention(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return np.full((2, 2), np.nan if "odd" in texts else 0.5, np.float32), np.array([0, 1])


def compressor(probability: Callable[[str], float]) -> LlmLingua2:
    return LlmLingua2(lambda: Encoder(probability), identity=lambda: "tiny")


def words(*probabilities: float) -> list[Word]:
    return [Word(place, place + 1, probability) for place, probability in enumerate(probabilities)]


@pytest.mark.parametrize(
    ("rate", "left"),
    [
        # ten words of one token, .0 to .9: percentile p is p / 100 x .9, and words must be above it
        (0.8, [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),  # int(100 x .2 + 1) is 20 in floats: .18
        (0.6, [0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),  # 41: .369
        (0.4, [0.6, 0.7, 0.8, 0.9]),  # 61: .549
        (0.1, [0.9]),  # 91: .819
    ],
)
def test_words_above_the_percentile_stay(rate: float, left: list[float]) -> None:
    given = words(*(n / 10 for n in range(10)))
    assert [word.probability for word in kept(given, rate, [1] * 10)] == left


def test_a_word_counts_once_for_each_of_its_tokens() -> None:
    # Of .1 nine times, .5 and .9 the 41st percentile is .1; of .1, .5 and .9 nine times it is .9.
    assert [word.probability for word in kept(words(0.1, 0.5, 0.9), 0.6, [9, 1, 1])] == [0.5, 0.9]
    assert [word.probability for word in kept(words(0.1, 0.5, 0.9), 0.6, [1, 1, 9])] == []
    assert kept([], 0.5, []) == []


def test_certain_words_stay_when_all_are_certain() -> None:
    assert len(kept(words(1.0, 1.0), 0.5, [1, 1])) == 2
    assert kept(words(0.5, 0.5), 0.5, [1, 1]) == []  # strictly above


def test_words_stay_as_they_were() -> None:
    likely = {"plumber": 0.9, "kettle": 0.9, "Leeds": 0.9, ".": 0.9}
    made = compressor(lambda word: likely.get(word, 0.1))
    # signs are words of their own, and keep their place; between words stays one space, or the line end
    assert made.compress("The plumber,\t he has  kettle.\nAll is fine in Leeds.", 0.6) == "plumber kettle.\nLeeds."
    assert made.compress("Kettles,plumber", 0.6) == "plumber"


def test_each_chunk_has_a_percentile_of_its_own() -> None:
    low = {"a": 0.1, "b": 0.2, "c": 0.3, "x": 0.7, "y": 0.8, "z": 0.9}
    assert compressor(low.__getitem__).compress("a b c\nx y z", 0.4) == "c\nz"


def test_nothing_left_keeps_the_text() -> None:
    made = compressor(lambda word: 0.5)
    assert made.compress("a kettle", 0.5) == "a kettle"
    assert made.compress("  ", 0.5) == "  "
    assert made.compress("a kettle", 1) == "a kettle"


def test_it_is_a_compressor_that_tells_attention() -> None:
    made = compressor(lambda word: 0.5)
    assert isinstance(made, Compressor)
    assert isinstance(made, Attending)
    assert (made.name, made.fingerprint) == ("llmlingua-2", "llmlingua-2:tiny")
    assert made.attention(["one", "two"]).tolist() == [[0, 0], [1, 0]]


def test_what_a_model_should_not_give_is_an_error() -> None:
    with pytest.raises(ModelOutputError):
        compressor(lambda word: float("nan")).compress("a kettle", 0.5)
    with pytest.raises(ModelOutputError):
        compressor(lambda word: 0.5).attention(["odd", "two"])
    for rate in (0, 1.5, float("nan")):
        with pytest.raises(InvalidInputError):
            compressor(lambda word: 0.5).compress("a kettle", rate)


def test_attention_between_texts() -> None:
    # tokens of the texts 0, 0, 1, 2, and one of none
    owner = np.array([0, 0, 1, 2, -1])
    attention = np.array(
        [
            [0.9, 0.1, 0, 0, 0],
            [0.1, 0.9, 0, 0, 0],
            [0.2, 0.1, 0.7, 0, 0],
            [0.1, 0.1, 0.6, 0.1, 0.1],
            [0.2, 0.2, 0.2, 0.2, 0.2],
        ],
        np.float32,
    )
    # text 1 gives text 0 .3, which is all it gives before it; text 2 gives .2 to text 0 and .6 to text 1
    assert text_attention(attention, owner, 3) == pytest.approx(np.array([[0, 0, 0], [1, 0, 0], [0.25, 0.75, 0]]))
    assert text_attention(attention, owner, 4)[3].tolist() == [0, 0, 0, 0]  # beyond what was read


def test_chunks_end_at_a_full_stop() -> None:
    stop = {9}
    assert llmlingua._chunks([1, 2, 9, 3, 4, 5, 6], stop, 4) == [(0, 3), (3, 7)]
    assert llmlingua._chunks([1, 2, 3, 4, 5], stop, 2) == [(0, 2), (2, 4), (4, 5)]
    assert llmlingua._chunks([9, 9, 9], stop, 2) == [(0, 2), (2, 3)]
    assert llmlingua._chunks([], stop, 2) == []


def test_pieces_of_a_word_are_one() -> None:
    spans = [(0, 3), (3, 6), (7, 8), (0, 0)]
    assert llmlingua._words(spans, [0, 0, 1, None], [0.25, 0.75, 0.9, 0.5]) == [Word(0, 6, 0.5), Word(7, 8, 0.9)]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only when it is asked for; else words are left out by rule."""
    open_llmlingua.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'backread\[compress\]'"):
        open_llmlingua()
    assert installed_compressor() is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with pytest.raises(ModelNotAvailableError) as caught:
        open_llmlingua("/nowhere/at/all")
    assert "config.json" in (caught.value.hint or "")
    assert installed_compressor("/nowhere/at/all") is None
