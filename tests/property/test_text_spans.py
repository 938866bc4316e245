"""Passages and excerpts hold for any text and any reasonable counter."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from backread.text.analysis import query_terms
from backread.text.excerpts import excerpt, sentences
from backread.text.passages import split_passages
from backread.text.tokens import EstimateCounter

ANY = st.text(st.characters(codec=None, categories=None), max_size=120)
PROSE = st.lists(
    st.sampled_from(
        [
            "one",
            "two",
            "Dr.",
            "end.",
            "what?!",
            "\n",
            "\n\n",
            "  ",
            "京都。",
            "xxxxxxxxxxxxxxxxxxxxxxxx",
            "🚢",
            "e\u0301",
        ]
    ),
    max_size=60,
).map(" ".join)
TEXTS = ANY | PROSE
COUNTERS = st.sampled_from([len, lambda text: len(text.split()), EstimateCounter().count])


def covered(text: str, spans: tuple[tuple[int, int], ...] | list[tuple[int, int]]) -> bool:
    """Spans are in order, apart, in range, not blank, and leave out nothing but white space."""
    last = 0
    for start, end in spans:
        if not last <= start < end <= len(text) or text[last:start].strip() or not text[start:end].strip():
            return False
        last = end
    return not text[last:].strip()


@settings(max_examples=300)
@given(TEXTS)
def test_sentences_cover_the_text(text: str) -> None:
    spans = sentences(text)
    assert covered(text, spans)
    assert all(text[a:b] == text[a:b].strip() for a, b in spans)


@settings(max_examples=400)
@given(TEXTS, st.integers(4, 40), COUNTERS)
def test_passages_cover_the_text_within_the_limit(text: str, limit: int, count: Callable[[str], int]) -> None:
    spans = split_passages(text, max_tokens=limit, count=count)
    assert covered(text, spans)
    assert all(count(text[a:b]) <= limit for a, b in spans)


@settings(max_examples=400)
@given(TEXTS, st.integers(0, 40), COUNTERS, st.integers(0, 119), st.integers(1, 20))
def test_excerpts_are_within_the_limit(
    text: str, limit: int, count: Callable[[str], int], start: int, size: int
) -> None:
    terms = [term.term for term in query_terms(text[start : start + size])]
    a, b = excerpt(text, terms, max_tokens=limit, count=count)
    assert 0 <= a <= b <= len(text)
    assert count(text[a:b]) <= limit
    assert text[a:b] == text[a:b].strip()
    if limit >= 4 and text.strip():
        assert a < b
