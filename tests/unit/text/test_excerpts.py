"""Sentences, and the excerpt around what was asked for."""

from __future__ import annotations

import pytest

from backread.text.analysis import query_terms
from backread.text.excerpts import excerpt, sentences
from backread.text.tokens import EstimateCounter


def words(text: str) -> int:
    return len(text.split())


def wanted(query: str) -> list[str]:
    return [term.term for term in query_terms(query) if not term.stop]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith paid 3.5 million, e.g. in May. Done.", ["Dr. Smith paid 3.5 million, e.g. in May.", "Done."]),
        ("J. R. Tolkien wrote it. So I said.", ["J. R. Tolkien wrote it.", "So I said."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("今天下雨。我们走吧！好吗？好", ["今天下雨。", "我们走吧！", "好吗？", "好"]),
        ("「行こう。」と言った。", ["「行こう。」", "と言った。"]),
        ("line one\nline two\n\n\nline three", ["line one", "line two", "line three"]),
        ("see example.com for v3.11.7 now", ["see example.com for v3.11.7 now"]),
        ("Wait... what?! Yes…  no", ["Wait...", "what?!", "Yes…", "no"]),
        ("It was I. Then you.", ["It was I.", "Then you."]),
        ("", []),
        (" \n\t ", []),
        ("...", ["..."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[a:b] for a, b in sentences(text)] == expected


def test_a_text_that_fits_is_shown_whole_without_its_margins() -> None:
    assert excerpt("  all of it \n", ["all"], max_tokens=3, count=words) == (2, 11)


@pytest.mark.parametrize("text", ["", " \n "])
def test_blank_texts_have_none(text: str) -> None:
    assert excerpt(text, ["a"], max_tokens=10, count=words) == (0, 0)


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_no_budget_no_excerpt(max_tokens: int) -> None:
    assert excerpt("some words", ["some"], max_tokens=max_tokens, count=words) == (0, 0)


def test_the_start_when_nothing_matches() -> None:
    text = "alpha beta gamma delta epsilon"
    start, end = excerpt(text, ["omega"], max_tokens=2, count=words)
    assert text[start:end] == "alpha beta"
    assert excerpt(text, [], max_tokens=2, count=words) == (start, end)


def test_the_span_with_the_most_distinct_terms_wins() -> None:
    text = (
        "cat cat cat. " + "filler word here. " * 30 + "The grey cat named Pixel lives in Oslo. " + "more filler. " * 30
    )
    start, end = excerpt(text, wanted("grey cats in Oslo"), max_tokens=10, count=words)
    assert text[start:end] == "The grey cat named Pixel lives in Oslo. more filler."


def test_of_equal_spans_the_first_wins() -> None:
    text = "x one x. " + "filler word. " * 50 + "y one y."
    start, end = excerpt(text, ["one"], max_tokens=3, count=words)
    assert text[start:end] == "x one x."


def test_room_at_the_end_is_filled_backwards() -> None:
    text = "a b c d e f g h needle"
    start, end = excerpt(text, ["needl"], max_tokens=4, count=words)
    assert text[start:end] == "f g h needle"


def test_a_long_sentence_is_entered_near_the_match() -> None:
    text = "word " * 500 + "needle " + "tail " * 500
    start, end = excerpt(text, ["needl"], max_tokens=20, count=words)
    assert "needle" in text[start:end]
    assert words(text[start:end]) == 20
    assert not text[start - 1].strip()
    assert not text[end].strip()


def test_exact_identifiers_are_found() -> None:
    text = "INV 2041. " + "filler word. " * 50 + "ticket INV-2041 closed. " + "filler word. " * 50
    start, end = excerpt(text, wanted("INV-2041"), max_tokens=4, count=words)
    assert "INV-2041" in text[start:end]


def test_texts_without_spaces() -> None:
    text = "甲乙丙丁" * 200 + "旅行预算改成八千元" + "戊己庚辛" * 200
    start, end = excerpt(text, wanted("预算"), max_tokens=20, count=len)
    assert "预算" in text[start:end]
    assert end - start == 20


def test_clusters_stay_whole() -> None:
    family = "👨‍👩‍👧‍👦"
    text = family * 100
    start, end = excerpt(text, [], max_tokens=30, count=len)
    assert text[start:end] == family * 4  # 7 code points each
    flags = "🇩🇪🇫🇷" * 30
    start, end = excerpt(flags, [], max_tokens=7, count=len)
    assert flags[start:end] == "🇩🇪🇫🇷🇩🇪"
    accents = "e\u0301" * 50
    start, end = excerpt(accents, [], max_tokens=7, count=len)
    assert end - start == 6


def test_a_match_above_the_budget_is_cut() -> None:
    text = "zz " * 50 + "x" * 100
    start, end = excerpt(text, ["x" * 64], max_tokens=10, count=len)
    assert 0 < end - start <= 10
    assert set(text[start:end]) == {"x"}


def test_nothing_fits() -> None:
    assert excerpt("🚢 boat", ["boat"], max_tokens=1, count=lambda text: 5 * len(text)) == (0, 0)


def test_megabytes_take_few_calls() -> None:
    text = "lorem ipsum dolor sit amet. " * 20_000 + "the needle is here. " + "lorem ipsum. " * 20_000
    calls = 0
    estimate = EstimateCounter().count

    def count(part: str) -> int:
        nonlocal calls
        calls += 1
        return estimate(part)

    start, end = excerpt(text, wanted("needle"), max_tokens=50, count=count)
    assert "needle" in text[start:end]
    assert estimate(text[start:end]) <= 50
    assert calls < 60
