"""Analysis: what becomes a term, on both sides of the index."""

from __future__ import annotations

import re
import threading
import time
import unicodedata
from typing import Literal

import numpy as np
import pytest

from backread.text import analysis
from backread.text._folding import stem_word
from backread.text.analysis import ANALYZER, STOP_WORDS, find_terms, index_terms, query_terms, tokens
from backread.text.bm25 import idf, term_scores


def terms(text: str) -> set[str]:
    return set(index_terms(text)[0])


def rank(turns: list[str], query: str) -> list[int]:
    """Positions of matching turns, best first: BM25 with surfaces at half weight, as a caller would do it."""
    weights = {"stem": 1.0, "surface": 0.5, "compound": 1.0}
    indexed = [index_terms(turn) for turn in turns]
    lengths = np.array([length for _, length in indexed], dtype=np.float64)
    scores = np.zeros(len(turns))
    for term in query_terms(query):
        tf = np.array([counts.get(term.term, 0) for counts, _ in indexed])
        weight = weights[term.kind] * (0.2 if term.stop else 1.0)
        scores += weight * idf(int((tf > 0).sum()), len(turns)) * term_scores(tf, lengths, float(lengths.mean()))
    assert np.isfinite(scores).all()
    return [int(i) for i in np.argsort(-scores, kind="stable") if scores[i] > 0]


def test_analyzer_has_a_version() -> None:
    assert ANALYZER == "backread-1"


def test_terms_are_stems_and_marked_surfaces_and_length_counts_stems() -> None:
    # running gives run and =running, cats gives cat and =cats; "the" stays as it is. Three tokens.
    assert index_terms("Running the cats") == ({"run": 1, "=running": 1, "the": 1, "cat": 1, "=cats": 1}, 3)


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Before CPython 3.11.5 such a repetition takes in the start of one that doesn't fit: "pot." kept its full stop."""
    for pattern in analysis._patterns():
        assert re.search(r"\)(?:[*+?]|\{[\d,]+\})\+", pattern.pattern) is None
    assert index_terms("The pot. A key, a gym-") == ({"the": 1, "pot": 1, "a": 2, "key": 1, "gym": 1}, 6)


def test_frequencies_add_up() -> None:
    assert index_terms("cat Cat CATS") == ({"cat": 3, "=cats": 1}, 3)


def test_tokens_point_into_the_text_as_given() -> None:
    text = "Zoe\u0308 pays ５００ at café—now"
    found = list(tokens(text))
    assert [text[t.start : t.end] for t in found] == ["Zoe\u0308", "pays", "５００", "at", "café", "now"]
    assert [t.surface for t in found] == ["zoe", "pays", "500", "at", "cafe", "now"]
    assert [t.stop for t in found] == [False, False, False, True, False, False]


def test_tokens_are_lazy() -> None:
    assert next(tokens("first " * 200_000)).surface == "first"


@pytest.mark.parametrize(
    ("text", "compounds"),
    [
        ("INV-2041", {"=inv-2041", "inv", "2041"}),
        ("std::chrono", {"=std::chrono", "std", "chrono"}),
        ("multi-vendor", {"=multi-vendor", "multi", "vendor"}),
        ("node_42", {"=node_42", "node", "42"}),
        ("user@example.com", {"=user@example.com", "user", "com"}),
        ("v3.11.7", {"=v3.11.7", "v3", "11", "7"}),
        ("C++", {"=c++", "c"}),
        ("C#", {"=c#", "c"}),
        ("/etc/hosts", {"=/etc/hosts", "=etc/hosts", "etc", "host"}),
        ("camelCase", {"=camelcase", "camel", "case", "camelcas"}),
        ("10:30", {"=10:30", "10", "30"}),
        ("10–12", {"=10-12", "10", "12"}),
        ("https://example.com/a?b=1", {"=https://example.com/a?b=1", "https", "a", "b", "1"}),
        ("O’Brien", {"=o'brien", "o", "brien"}),
        (".env", {"=.env", "env"}),
    ],
)
def test_compounds_are_terms_beside_their_parts(text: str, compounds: set[str]) -> None:
    # FTS-01
    assert compounds <= terms(text)
    assert compounds <= {term.term for term in query_terms(text)}


def test_compounds_add_nothing_to_the_length() -> None:
    assert index_terms("INV-2041")[1] == 2
    assert index_terms("YouTube")[1] == 2


def test_brand_names_match_in_any_case() -> None:
    for written in ("YouTube", "youtube", "YOUTUBE"):
        assert rank(["nothing here", f"I saw it on {written}"], "YouTube") == [1]
        assert rank(["nothing here", "I saw it on YouTube"], written) == [1]


def test_plural_acronyms_are_whole() -> None:
    assert [t.surface for t in tokens("PDFs and TVs")] == ["pdfs", "and", "tvs"]


def test_a_mark_of_the_index_cannot_be_typed() -> None:
    assert all(not token.surface.startswith("=") for token in tokens("=running = a=b ==x"))


FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")

FTS_01 = [
    "Ticket INV-2041 was closed by the multi-vendor team",
    "We use std::chrono for the timers",
    "Mina adopted a grey cat named Pixel in Oslo",
]


@pytest.mark.parametrize(
    ("query", "first"),
    [("INV-2041", 0), ("multi-vendor", 0), ("std::chrono", 1), ("speaker: Oslo", 2), ("content: Pixel", 2)],
)
def test_fts_01_hyphens_and_colons_are_no_syntax(query: str, first: int) -> None:
    assert rank(FTS_01, query)[0] == first


FTS_02 = [
    "Baker's and Miller's Guild meets on Mondays",
    "Vendors AND resellers signed the NDA",
    "I would rather NOT fly near Christmas",
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Baker's and Miller's Guild", 0),
        ("vendors AND resellers", 1),
        ("NOT fly", 2),
        ("when does the baker's guild meet or not", 0),
    ],
)
def test_fts_02_operator_words_are_words(query: str, first: int) -> None:
    assert rank(FTS_02, query)[0] == first


@pytest.mark.parametrize("query", ["AND", "OR", "NOT", "NEAR(x y", "*", "**", '"', '("', "a AND", "^x", "{y}"])
def test_fts_02_operator_characters_never_raise(query: str) -> None:
    rank(FTS_02, query)
    letters = {c for term in query_terms(query) for c in term.term}
    assert letters.isdisjoint('*"(){}^')


@pytest.mark.parametrize(
    "query",
    [
        "cat Pixel",
        "What is the name of the cat that Mina adopted?",
        "Could you please remind me what the name of that cat was, the one Mina adopted a while ago?",
    ],
)
def test_fts_04_filler_words_do_not_hide_the_turn(query: str) -> None:
    turns = [
        "Mina adopted a grey cat named Pixel in Oslo",
        "Pixel art was popular in the nineties",
        "Oslo has many trams",
    ]
    assert rank(turns, query)[0] == 0


@pytest.mark.parametrize("text", ["???", "   ", "", "。、", "...", "$ € £", "\ud800\udfff", "\u0301", "—", "ـ"])
def test_fts_05_nothing_to_index(text: str) -> None:
    assert index_terms(text) == ({}, 0)
    assert query_terms(text) == ()
    assert list(tokens(text)) == []


def test_fts_05_emoji_find_their_turn() -> None:
    turns = ["🎉🎉", "???", "the of and", "see you at the pier 🚢"]
    assert rank(turns, "🚢") == [3]
    assert rank(turns, "🎉🎉") == [0]
    assert rank(turns, "???") == []
    assert rank(turns, "the of and")[0] == 2
    assert all(term.stop for term in query_terms("the of and"))


@pytest.mark.parametrize(
    ("text", "stem", "surface"),
    [
        ("👍🏽", "👍", "👍🏽"),
        ("☎️", "☎", "☎"),
        ("🤷‍♀️", "🤷", "🤷‍♀"),
        ("👨‍👩‍👧", "👨‍👩‍👧", "👨‍👩‍👧"),
        ("🇩🇪", "🇩🇪", "🇩🇪"),
        ("🏽", "🏽", "🏽"),
    ],
)
def test_emoji_sequences_are_one_token(text: str, stem: str, surface: str) -> None:
    (token,) = tokens(text)
    assert (token.stem, token.surface, token.start, token.end) == (stem, surface, 0, len(text))


TOK_01 = [
    "昨天我们把旅行预算改成八千元",
    "今天重启node42之后恢复正常",
    "어제 서울에서 회의를 했어요",
    "来週の火曜日に京都へ行きます",
    "db migration finished",
]


@pytest.mark.parametrize(
    ("query", "turn"),
    [
        ("预算", 0),
        ("旅行预算", 0),
        ("node42", 1),
        ("서울", 2),
        ("京都", 3),
        ("火曜日", 3),
        ("db", 4),
        ("预算改成多少了", 0),
        ("元", 0),
    ],
)
def test_tok_01_scripts_without_spaces(query: str, turn: int) -> None:
    assert rank(TOK_01, query)[0] == turn


def test_spaceless_runs_give_pairs_and_singles_and_pairs_count() -> None:
    assert index_terms("京都へ") == ({"京": 1, "都": 1, "へ": 1, "京都": 1, "都へ": 1}, 2)
    assert [(q.term, q.kind) for q in query_terms("京都")] == [("京都", "stem"), ("京", "surface"), ("都", "surface")]
    assert [(q.term, q.kind) for q in query_terms("京")] == [("京", "stem")]


def test_half_width_kana_keep_their_offsets() -> None:
    text = "ﾊﾟﾝ"
    assert [(t.surface, text[t.start : t.end]) for t in tokens(text)] == [("パン", "ﾊﾟﾝ"), ("パ", "ﾊﾟ"), ("ン", "ﾝ")]


def test_thai_marks_stay_with_their_letters() -> None:
    assert {"น้ํ", "แข็", "ข็ง"} <= terms("น้ำแข็ง")


@pytest.mark.parametrize("stored", FORMS)
@pytest.mark.parametrize("asked", FORMS)
def test_tok_03_unicode_forms(stored: Literal["NFC", "NFD"], asked: Literal["NFC", "NFD"]) -> None:
    turns = [
        unicodedata.normalize(stored, "Zoë booked a café table"),
        unicodedata.normalize(stored, "Η οδός είναι κλειστή σήμερα"),
        "ＡＢＣ１２ is the locker",
        unicodedata.normalize(stored, "서울에서 만나요"),
    ]
    for query, turn in {"café": 0, "Zoë": 0, "ΟΔΟΣ": 1, "ABC12": 2, "서울": 3}.items():
        assert rank(turns, unicodedata.normalize(asked, query)) == [turn]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("café", "CAFE"),
        ("İstanbul", "istanbul"),
        ("straße", "STRASSE"),
        ("Łódź", "lodz"),
        ("smørrebrød", "smorrebrod"),
        ("ёлка", "елка"),
        ("за́мок", "замок"),
        ("مُحَمَّد", "محمد"),
        ("محـــمد", "محمد"),
        ("أحمد", "احمد"),
        ("مدرسة", "مدرسه"),
        ("على", "علي"),
        ("שָׁלוֹם", "שלום"),
        ("٤٢", "42"),
        ("5,000", "5000"),
        ("1,234,567", "1234567"),
        ("back\u00adread", "backread"),
        ("don’t", "don't"),
        ("Baker’s", "baker"),
        ("ﬁnance", "finance"),
    ],
)
def test_spellings_of_one_word_share_all_terms(one: str, other: str) -> None:
    assert terms(one) == terms(other)


@pytest.mark.parametrize(("one", "other"), [("किताब", "कताब"), ("มา", "ม"), ("й", "и"), ("ї", "і")])
def test_marks_that_are_letters_stay(one: str, other: str) -> None:
    assert terms(one) != terms(other)


def test_lists_of_numbers_are_not_grouped_digits() -> None:
    assert {"1", "2", "3"} <= terms("1,2,3")
    assert "15000" in terms("$15,000.50")


def test_stop_words_are_flagged_and_kept() -> None:
    assert [(q.term, q.stop) for q in query_terms("don't does what node")] == [
        ("don't", True),
        ("does", True),
        ("what", True),
        ("node", False),
    ]
    assert {"the", "what", "who", "don't", "i", "was"} <= STOP_WORDS
    assert all(word == word.lower() and "’" not in word for word in STOP_WORDS)


def test_query_terms_are_distinct_in_order() -> None:
    assert [q.term for q in query_terms("node cats node Cat")] == ["node", "cat", "=cats"]


@pytest.mark.parametrize(
    ("word", "stem"),
    [("adopted", "adopt"), ("книги", "книг"), ("βιβλία", "βιβλ"), ("الكتاب", "كتاب"), ("किताबें", "किताब")],
)
def test_stemmer_by_script(word: str, stem: str) -> None:
    (token,) = tokens(word)
    assert token.stem == stem


def test_trade_mark_is_no_letter() -> None:
    assert "backread" in terms("backread™")


def test_long_runs_are_cut_into_terms() -> None:
    counts, length = index_terms("x" * 1000)
    assert max(map(len, counts)) == analysis.MAX_TERM
    assert length == 16  # 15 * 64 + 40
    assert [(t.start, t.end) for t in tokens("x" * 130)] == [(0, 64), (64, 128), (128, 130)]


def test_find_terms_gives_spans_of_the_original() -> None:
    text = "Wir fanden INV‑2041 im Café, 京都で"
    wanted = {"=inv-2041", "cafe", "京都", "absent"}
    assert [(text[a:b], term) for a, b, term in find_terms(text, wanted)] == [
        ("INV‑2041", "=inv-2041"),
        ("Café", "cafe"),
        ("京都", "京都"),
    ]


def test_stemming_from_many_threads_is_the_same() -> None:
    words = [f"{a}{b}ing" for a in "bcdfghjklm" for b in ("aker", "unner", "oll", "ist")]
    expected = {word: [t.stem for t in tokens(word)] for word in words}
    stem_word.cache_clear()
    analysis._word_chunk.cache_clear()
    wrong: list[str] = []

    def work() -> None:
        wrong.extend(word for word in words * 5 if [t.stem for t in tokens(word)] != expected[word])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        "x" * 300_000,
        "预算" * 150_000,
        "lorem ipsum dolor sit amet " * 12_000,
        "a'" * 150_000,
        "-_.:/" * 60_000,
        "a\u0301" * 100_000,
        "🚢\u200d" * 100_000,
        "Ａ，" * 60_000,
    ],
    ids=["letters", "han", "words", "apostrophes", "joiners", "marks", "emoji", "full width"],
)
def test_long_texts_take_linear_time(text: str) -> None:
    start = time.process_time()
    index_terms(text)
    took = time.process_time() - start
    # Around 0.2 s on one slow core; quadratic behaviour would take minutes.
    assert took < 5
