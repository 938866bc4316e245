"""Sentences that support a line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backread.text.support import Support, content, support

TEXTS = ("I went to Leeds. The bike was stolen there.", "Nice! A red bike, was it?", "")


def spans(found: Support) -> list[str]:
    return [TEXTS[number][start:end] for number, start, end in found.spans]


def test_content_words_are_stems_without_function_words() -> None:
    assert content("She was riding the bikes in 2021, wasn't she?") == {"ride", "bike", "2021"}


def test_one_sentence_that_has_it_all_is_enough() -> None:
    found = support("The bike was stolen.", TEXTS)
    assert spans(found) == ["The bike was stolen there."]
    assert (found.shared, found.wanted) == (2, 2)


def test_a_second_sentence_is_taken_for_what_the_first_lacks() -> None:
    found = support("A red bike was stolen in Leeds.", TEXTS)
    # "The bike was stolen there." has two words; then "I went to Leeds." and "A red bike, was it?" one more each.
    assert spans(found) == ["I went to Leeds.", "The bike was stolen there.", "A red bike, was it?"]
    assert (found.shared, found.wanted) == (4, 4)
    assert spans(support("A red bike was stolen in Leeds.", TEXTS, most=1)) == ["The bike was stolen there."]


def test_of_equal_sentences_the_first_is_taken() -> None:
    assert support("cats", ["Cats. Cats.", "Cats."]).spans == ((0, 0, 5),)


def test_nothing_in_common_supports_nothing() -> None:
    assert support("Porto is hot", TEXTS) == Support((), 0, 2)
    assert support("of the", TEXTS) == Support((), 0, 0)
    assert support("bike", []) == Support((), 0, 1)


def test_known_words_count_only_where_there_are_no_others() -> None:
    assert support("Ann and the bike", TEXTS, known={"ann"}).wanted == 1
    assert support("Ann", ["Ann spoke."], known={"ann"}).shared == 1


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=4), st.integers(0, 3))
def test_spans_are_in_order_and_inside_their_texts(line: str, texts: list[str], most: int) -> None:
    found = support(line, texts, most=most)
    assert list(found.spans) == sorted(set(found.spans))
    assert len(found.spans) <= most
    assert all(0 <= start < end <= len(texts[number]) for number, start, end in found.spans)
    assert found.shared <= found.wanted
    assert bool(found.spans) == bool(found.shared)
