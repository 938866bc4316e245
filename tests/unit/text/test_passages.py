"""Cutting texts into passages."""

from __future__ import annotations

import pytest

from backread.text.passages import split_passages
from backread.text.tokens import EstimateCounter


def words(text: str) -> int:
    return len(text.split())


def cut(text: str, max_tokens: int) -> list[str]:
    return [text[a:b] for a, b in split_passages(text, max_tokens=max_tokens, count=words)]


def refuse(text: str) -> int:
    raise AssertionError(f"counted {text!r}")


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_blank_texts_have_no_passages(text: str) -> None:
    assert split_passages(text, max_tokens=5, count=refuse) == ()


def test_short_texts_are_not_counted() -> None:
    assert split_passages(" hello ", max_tokens=5, count=refuse) == ((1, 6),)
    assert split_passages("é" * 4, max_tokens=8, count=refuse) == ((0, 4),)


def test_short_texts_of_many_bytes_are_counted() -> None:
    # Four characters, sixteen bytes: byte-level tokenizers may make sixteen tokens of them.
    text = "🚢🛳⛴🚤"
    spans = split_passages(text, max_tokens=4, count=lambda part: 2 * len(part))
    assert spans == ((0, 2), (2, 4))


def test_a_text_that_fits_costs_one_call() -> None:
    calls: list[str] = []

    def count(text: str) -> int:
        calls.append(text)
        return words(text)

    assert split_passages("one two. three four.", max_tokens=4, count=count) == ((0, 20),)
    assert len(calls) == 1


def test_sentences_are_kept_whole() -> None:
    assert cut("One two three. Four five. Six seven eight nine.", 5) == [
        "One two three. Four five.",
        "Six seven eight nine.",
    ]


def test_a_paragraph_in_the_second_half_is_where_to_cut() -> None:
    assert cut("a b c. d e f.\n\ng h. i j k l.", 8) == ["a b c. d e f.", "g h. i j k l."]


def test_a_paragraph_early_on_is_not() -> None:
    assert cut("a.\n\nb c d e. f g h. i j k.", 8) == ["a.\n\nb c d e. f g h.", "i j k."]


def test_long_sentences_are_cut_between_words() -> None:
    assert cut("one two three four five six seven", 3) == ["one two three", "four five six", "seven"]


def test_long_words_are_cut_by_characters() -> None:
    spans = split_passages("x" * 25, max_tokens=10, count=len)
    assert spans == ((0, 10), (10, 20), (20, 25)) or all(b - a <= 10 for a, b in spans)
    assert "".join("x" * (b - a) for a, b in spans) == "x" * 25


def test_clusters_stay_whole() -> None:
    family = "👨‍👩‍👧‍👦"
    text = family * 10
    for start, end in split_passages(text, max_tokens=16, count=len):
        assert (end - start) % len(family) == 0


def test_one_character_may_be_above_the_limit() -> None:
    assert split_passages("🚢🚢", max_tokens=1, count=lambda text: 3 * len(text)) == ((0, 1), (1, 2))


@pytest.mark.parametrize("max_tokens", [0, -3])
def test_the_limit_is_at_least_one(max_tokens: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        split_passages("a", max_tokens=max_tokens, count=words)


def test_counts_that_do_not_add_up_are_checked() -> None:
    # Five more tokens for every full stop that is not at the end: sentences are dearer together than apart.
    def count(text: str) -> int:
        return words(text) + 5 * text.strip()[:-1].count(".")

    text = "One two. Three four. Five six. Seven eight. Nine ten eleven twelve."
    spans = split_passages(text, max_tokens=6, count=count)
    assert all(count(text[a:b]) <= 6 for a, b in spans)
    assert len(spans) == 5


@pytest.mark.parametrize(
    "text",
    [
        "lorem ipsum dolor sit amet, consectetur. " * 8_000,
        "no end " * 45_000,
        "x" * 300_000,
        "汉" * 300_000,
        "a\n" * 90_000,
    ],
    ids=["sentences", "words", "letters", "han", "lines"],
)
def test_long_texts_take_a_near_linear_number_of_calls(text: str) -> None:
    seen = 0
    estimate = EstimateCounter().count

    def count(part: str) -> int:
        nonlocal seen
        seen += len(part)
        return estimate(part)

    spans = split_passages(text, max_tokens=256, count=count)
    assert seen < 12 * len(text)
    assert all(estimate(text[a:b]) <= 256 for a, b in spans)
    assert sum(estimate(text[a:b]) for a, b in spans) > 0.75 * 256 * (len(spans) - 1)
