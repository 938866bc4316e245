"""F1 and exact match: the words they compare, LoCoMo's rules by category, gold answers of every shape."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.bench.measures import answer_words
from backread.bench.measures.answer_words import locomo_words, overlap_f1, plain_words
from backread.bench.measures.exact_match import exact_match
from backread.bench.measures.f1 import locomo_f1, locomo_gold, locomo_refusal, token_f1
from backread.errors import InvalidInputError
from backread.importers.base import answer_text
from backread.importers.locomo import CATEGORIES


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cats and a DOG, running!", ("cat", "dog", "run")),
        ("Caroline's self-care", ("carolin", "selfcar")),  # punctuation falls without a gap
        ("1,000 dollars", ("1000", "dollar")),
        ("It is as an id", ("it", "is", "as", "id")),  # two letters keep their form
        ("An and the, a", ()),
        ("don’t", ("don’t",)),  # only ASCII punctuation falls
        ("", ()),
    ],
)
def test_words_of_locomo(text: str, words: tuple[str, ...]) -> None:
    assert locomo_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cats and a DOG, running!", ("cats", "and", "dog", "running")),
        ("“Don’t”", ("dont",)),
        ("$5,000 or €5.000", ("5000", "or", "5000")),
        ("ＡＢＣ Straße", ("abc", "strasse")),
        ("在北京 2024年", ("在", "北", "京", "2024", "年")),
        ("¿Qué? ¡No!", ("qué", "no")),
        ("🎉 the", ("🎉",)),
        (" the … ", ()),
    ],
)
def test_plain_words(text: str, words: tuple[str, ...]) -> None:
    assert plain_words(text) == words


def test_words_in_common_count_as_often_as_in_both() -> None:
    # "red red cat" and "red dog red red": red twice in common, of 3 and 4 words: P 2/3, R 2/4, F1 = 2 * 2 / 7.
    assert overlap_f1(["red", "red", "cat"], ["red", "dog", "red", "red"]) == pytest.approx(4 / 7)
    assert overlap_f1(["cat"], ["dog"]) == overlap_f1([], []) == overlap_f1(["a"], []) == 0.0


@pytest.mark.parametrize(
    ("question_type", "hypothesis", "gold", "expected"),
    [
        ("single-hop", "She was painting", "paintings", 0.5),  # stems she wa paint and paint: 2 * 1 / 4
        ("temporal", "on 8 May", "8 May, 2023", 2 / 3),  # 2 of 3 and 3
        ("open-domain", "Likely no", "Likely no; she said she hates it", 1.0),
        ("open-domain", "she hates it", "Likely no; she said she hates it", 0.0),
        ("single-hop", "Likely no", "Likely no; she said she hates it", 4 / 9),  # 2 * 2 / (2 + 7)
        # Parts "Riga", "Turku" against "Riga", "Oslo": 1 and 0.
        ("multi-hop", "Riga, Oslo", "Riga, Turku", 0.5),
        # One part with both: F1 with each is 2 * 1 / (2 + 1).
        ("multi-hop", "Riga and Turku", "Riga, Turku", 2 / 3),
        # The order of parts is free, a part may serve twice, surplus parts cost nothing.
        ("multi-hop", "Bonn, Turku, Riga", "Riga, Turku, Riga", 1.0),
        # A trailing comma makes an empty part of gold, which nothing can match: 1 of 2.
        ("multi-hop", "Riga", "Riga,", 0.5),
        ("multi-hop", "", "Riga", 0.0),
        ("single-hop", "the", "an", 0.0),
    ],
)
def test_locomo_by_category(question_type: str, hypothesis: str, gold: str, expected: float) -> None:
    assert locomo_f1(hypothesis, gold, question_type) == pytest.approx(expected)


def test_adversarial_answers_are_scored_by_two_phrases_alone() -> None:
    for text, expected in (
        ("Not mentioned.", 1.0),
        ("There is NO INFORMATION AVAILABLE on it", 1.0),
        ("I do not know", 0.0),
        ("Not mentioned, but red", 1.0),
        ("", 0.0),
    ):
        assert locomo_f1(text, None, "adversarial") == locomo_f1(text, "red", "adversarial") == expected
        assert locomo_refusal(text) == expected
    assert locomo_refusal(None) is locomo_f1(None, None, "adversarial") is None


def test_what_is_undefined_is_none() -> None:
    for question_type in CATEGORIES.values():
        if question_type != "adversarial":
            assert locomo_f1("red", None, question_type) is None
            assert locomo_f1(None, "red", question_type) is None
    assert locomo_f1("red", "red", "unknown") is None
    assert token_f1("red", None) is token_f1(None, "red") is None
    assert exact_match("red", None) is exact_match(None, "red") is None


def test_a_category_of_another_name_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no category 'multi_hop'") as caught:
        locomo_f1("a", "b", "multi_hop")
    assert caught.value.hint == "categories: multi-hop, temporal, open-domain, single-hop, adversarial"


def test_gold_is_cut_in_one_category_only() -> None:
    assert locomo_gold("yes ; as it was", "open-domain") == "yes"
    assert locomo_gold("yes; as it was", "temporal") == "yes; as it was"
    assert locomo_gold(None, "open-domain") is None


@pytest.mark.parametrize(
    ("hypothesis", "gold", "f1", "match"),
    [
        ("The year 2022", "2022", 2 / 3, 0.0),
        ("riga.", "Riga", 1.0, 1.0),
        ("Turku Riga", "Riga Turku", 1.0, 0.0),
        ("北京", "在北京", 0.8, 0.0),  # 2 characters in common of 2 and 3
        ("", "Riga", 0.0, 0.0),
        ("Riga", "?", 0.0, 0.0),
        ("", "?", 1.0, 1.0),
    ],
)
def test_f1_and_exact_match_elsewhere(hypothesis: str, gold: str, f1: float, match: float) -> None:
    assert token_f1(hypothesis, gold) == pytest.approx(f1)
    assert exact_match(hypothesis, gold) == match


# EVL-04
@pytest.mark.parametrize(
    ("answer", "hypothesis", "match", "f1"),
    [
        (3, "three kayaks", 0.0, 0.0),
        (2022, "2022", 1.0, 1.0),
        (0.5, "0.5", 1.0, 1.0),
        (True, "yes", 1.0, 1.0),
        (None, "", None, None),
        # "and" is a word to one and none to the other: 2 * 2 / (3 + 2), and 1.
        (["Riga", "Turku"], "Riga and Turku", 0.0, 0.8),
    ],
)
def test_gold_answers_that_are_no_strings(
    answer: object, hypothesis: str, match: float | None, f1: float | None
) -> None:
    gold = answer_text(answer)
    assert exact_match(hypothesis, gold) == match
    assert token_f1(hypothesis, gold) == f1
    assert locomo_f1(hypothesis, gold, "single-hop") == (1.0 if gold == "Riga, Turku" else f1)


def test_stemming_from_many_threads_is_the_same() -> None:
    words = [f"{a}{b}ing" for a in "bcdfghjklm" for b in ("aker", "unner", "oll", "ist")]
    expected = [locomo_words(word) for word in words]
    answer_words._stem.cache_clear()
    wrong: list[str] = []

    def work() -> None:
        wrong.extend(word for word, stems in zip(words, expected, strict=True) if locomo_words(word) != stems)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from([*CATEGORIES.values(), "unknown"]))
def test_any_texts_have_a_score_between_0_and_1(hypothesis: str, gold: str, question_type: str) -> None:
    values = [locomo_f1(hypothesis, gold, question_type), token_f1(hypothesis, gold), exact_match(hypothesis, gold)]
    assert all(value is None or 0 <= value <= 1 for value in values)
    assert token_f1(hypothesis, gold) == pytest.approx(token_f1(gold, hypothesis))
    if exact_match(hypothesis, gold) == 1:
        assert token_f1(hypothesis, gold) == 1


@given(st.lists(st.sampled_from(["red", "cat", "runs", "riga"]), min_size=1, max_size=6))
def test_an_answer_that_is_the_gold_answer_is_worth_1(words: list[str]) -> None:
    text = " ".join(words)
    assert token_f1(text, text) == exact_match(text, text) == 1
    for question_type in ("multi-hop", "temporal", "open-domain", "single-hop"):
        assert locomo_f1(text, text, question_type) == 1
