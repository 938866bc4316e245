"""Analysis holds for any text at all."""

from __future__ import annotations

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from backread.text.analysis import MAX_TERM, STOP_WORDS, find_terms, index_terms, query_terms, tokens

ANY = st.text(st.characters(codec=None, categories=None), max_size=60)
"""Every code point, lone surrogates included."""
WRITTEN = st.text(
    st.sampled_from(
        "abcXYZéßŁıİ'’ʼ-_.:/@#+&=?%~,0123456789 \n京都へ서울ᄉ\u1161\u11a8น้ำแวันहिन्दीكتابאָנאό\u0301\u0308"
        "🚢👍🏽\u200d♀\ufe0f🇩🇪ﾊﾟ①½ﬁ\u00ad\u200c\ud800…™ـ٤\u3099か"
    ),
    max_size=80,
)
TEXTS = ANY | WRITTEN


@settings(max_examples=300)
@given(TEXTS)
def test_never_raises_and_terms_are_well_formed(text: str) -> None:
    counts, length = index_terms(text)
    assert all(frequency > 0 for frequency in counts.values())
    assert all(term.strip("=") and len(term.removeprefix("=")) <= MAX_TERM for term in counts)
    assert (length == 0) == (not counts)
    assert not any("\ud800" <= char <= "\udfff" or char.isspace() for term in counts for char in term)


@settings(max_examples=300)
@given(TEXTS)
def test_query_terms_are_index_terms(text: str) -> None:
    found = query_terms(text)
    names = [term.term for term in found]
    assert set(names) == set(index_terms(text)[0])
    assert len(names) == len(set(names))
    assert all(term.term.removeprefix("=") in STOP_WORDS for term in found if term.stop)


@settings(max_examples=300)
@given(TEXTS)
def test_composed_and_decomposed_texts_have_the_same_terms(text: str) -> None:
    assert index_terms(unicodedata.normalize("NFC", text)) == index_terms(unicodedata.normalize("NFD", text))


@settings(max_examples=300)
@given(TEXTS)
def test_token_spans_are_in_range_and_in_order(text: str) -> None:
    last = 0
    for token in tokens(text):
        assert 0 <= token.start < token.end <= len(text)
        assert token.start >= last
        last = token.start
        assert token.surface
        assert token.stem


@settings(max_examples=300)
@given(TEXTS)
def test_tokens_and_terms_agree(text: str) -> None:
    counts, _ = index_terms(text)
    seen: dict[str, int] = {}
    for token in tokens(text):
        seen[token.stem] = seen.get(token.stem, 0) + 1
        if token.surface != token.stem:
            seen["=" + token.surface] = seen.get("=" + token.surface, 0) + 1
    assert seen.items() <= counts.items() or all(counts[term] >= times for term, times in seen.items())


@settings(max_examples=300)
@given(TEXTS)
def test_every_term_is_found_in_place(text: str) -> None:
    counts, _ = index_terms(text)
    seen: dict[str, int] = {}
    for start, end, term in find_terms(text, counts):
        assert 0 <= start < end <= len(text)
        seen[term] = seen.get(term, 0) + 1
    assert seen == counts


@given(WRITTEN, WRITTEN)
def test_lines_are_analysed_on_their_own(one: str, other: str) -> None:
    counts, length = index_terms(one + "\n \n" + other)
    first, second = index_terms(one), index_terms(other)
    assert length == first[1] + second[1]
    assert counts == {t: first[0].get(t, 0) + second[0].get(t, 0) for t in first[0].keys() | second[0].keys()}
