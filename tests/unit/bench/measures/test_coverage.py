"""Evidence coverage: words shown, sources claimed, words that are there."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.bench.measures.coverage import (
    claimed_coverage,
    claimed_session_coverage,
    verbatim_coverage,
    word_coverage,
)
from backread.bench.records import ShownLine
from backread.errors import InvalidInputError

SESSION_OF = {"a1": "A", "a2": "A", "a3": "A", "b1": "B", "b2": "B", "c1": "C"}
SIZES = {"A": 3, "B": 2, "C": 1}

Kind = Literal["verbatim", "rewrite", "summary"]


def line(kind: Kind, *sources: str | tuple[str, int, int | None]) -> ShownLine:
    spans = tuple((item, 0, None) if isinstance(item, str) else item for item in sources)
    return ShownLine(kind=kind, rank=0, sources=spans)


def claimed(gold: list[str], *lines: ShownLine) -> float | None:
    return claimed_coverage(lines, gold, SESSION_OF, SIZES)


@pytest.mark.parametrize(
    ("spans", "share"),
    [
        ([(0, None)], 1.0),
        ([(0, 10)], 1.0),
        ([(4, None)], 0.6),
        ([(0, 4), (2, 5)], 0.5),  # 0-5
        ([(7, 9), (0, 2)], 0.4),
        ([(0, 8), (2, 4)], 0.8),  # one inside the other
        ([(2, 4), (2, 4)], 0.2),
        ([(3, 3)], 0.0),
        ([], 0.0),
    ],
)
def test_the_share_of_a_turn_that_is_shown(spans: list[tuple[int, int | None]], share: float) -> None:
    lines = [line("verbatim", ("a1", start, end)) for start, end in spans]
    assert verbatim_coverage(lines, {"a1": "0123456789"}) == pytest.approx(share)
    # Every gold turn has the same weight, however long it is.
    assert verbatim_coverage(lines, {"a1": "0123456789", "b1": "x" * 1000}) == pytest.approx(share / 2)


def test_only_verbatim_lines_show_a_turns_words() -> None:
    gold = {"a1": "0123456789"}
    assert verbatim_coverage([line("rewrite", "a1"), line("summary", "a1")], gold) == 0.0
    assert verbatim_coverage([line("verbatim", "b1")], gold) == 0.0


def test_code_points_are_counted() -> None:
    assert verbatim_coverage([line("verbatim", ("a1", 0, 2))], {"a1": "🚢京\ud800e"}) == 0.5


def test_a_turn_without_text_is_shown_by_any_line() -> None:
    assert verbatim_coverage([line("verbatim", "a1")], {"a1": ""}) == 1.0
    assert verbatim_coverage([], {"a1": ""}) == 0.0


@pytest.mark.parametrize("span", [(0, 11), (-1, 4), (6, 5), (11, None)])
def test_a_span_outside_the_turn_is_refused(span: tuple[int, int | None]) -> None:
    with pytest.raises(InvalidInputError, match="'a1', which has 10 code points"):
        verbatim_coverage([line("verbatim", ("a1", *span))], {"a1": "0123456789"})


def test_sources_of_any_kind_claim_their_turns() -> None:
    assert claimed(["a1", "b1"], line("verbatim", ("a1", 0, 1))) == 0.5
    assert claimed(["a1", "b1"], line("rewrite", "a1", "b1")) == 1.0
    assert claimed(["a1", "b1"], line("summary", "a2")) == 0.0
    assert claimed(["a1", "a1"], line("summary", "a1")) == 1.0
    assert claimed(["a1"]) == 0.0


def test_a_source_that_is_a_whole_session_claims_no_turn() -> None:
    whole = line("summary", "a1", "a2", "a3")
    assert claimed(["a1"], whole) == 0.0
    assert claimed_session_coverage([whole], ["A"], SESSION_OF) == 1.0
    # Verbatim, it is shown in full; a turn less, and the line is about turns; a session of one turn is its turn.
    assert claimed(["a1"], line("verbatim", "a1", "a2", "a3")) == 1.0
    assert claimed(["a1"], line("summary", "a1", "a2")) == 1.0
    assert claimed(["c1"], line("summary", "c1")) == 1.0
    # Line by line: what is vague in one line may be precise in another, and in one line about another session.
    assert claimed(["a1", "a2"], whole, line("rewrite", "a2")) == 0.5
    assert claimed(["a1", "b1"], line("summary", "a1", "a2", "a3", "b1")) == 0.5
    # Two excerpts of one turn don't make a session of two turns.
    assert claimed(["b1"], line("rewrite", ("b1", 0, 2), ("b1", 4, 6))) == 1.0


def test_sessions_are_claimed_by_any_of_their_turns() -> None:
    lines = [line("verbatim", "a1"), line("summary", "c1")]
    assert claimed_session_coverage(lines, ["A", "B", "C", "A"], SESSION_OF) == pytest.approx(2 / 3)
    assert claimed_session_coverage([], ["A"], SESSION_OF) == 0.0


def test_a_source_in_no_session_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'z9' has no session"):
        claimed(["a1"], line("rewrite", "z9"))
    with pytest.raises(InvalidInputError, match="'z9' has no session"):
        claimed_session_coverage([line("rewrite", "z9")], ["A"], SESSION_OF)


def test_words_are_looked_for_by_their_stems() -> None:
    # Content words of a1: adopt, grey, cat; of b1: cat, sleep.
    gold = {"a1": "I adopted a grey cat", "b1": "The cat sleeps and sleeps"}
    assert word_coverage("[1] Mina adopts cats", gold) == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert word_coverage("", gold) == 0.0
    assert word_coverage("grey sleeping cat adopted", gold) == 1.0


def test_turns_without_content_words_are_left_out() -> None:
    assert word_coverage("grey", {"a1": "It was so!", "a2": "grey"}) == 1.0
    assert word_coverage("grey", {"a1": "It was so!"}) is None


# EVL-05
def test_without_gold_every_coverage_is_undefined() -> None:
    shown = [line("verbatim", "a1")]
    assert verbatim_coverage(shown, {}) is None
    assert claimed([], *shown) is None
    assert claimed_session_coverage(shown, [], SESSION_OF) is None
    assert word_coverage("grey", {}) is None


TEXT = "Mina adopted a grey cat in Oslo"


@given(st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, len(TEXT))), max_size=8))
def test_the_union_of_spans(pairs: list[tuple[int, int]]) -> None:
    spans = [(min(pair), max(pair)) for pair in pairs]
    lines = [line("verbatim", ("a1", start, end)) for start, end in spans]
    expected = len({place for start, end in spans for place in range(start, end)}) / len(TEXT)
    assert verbatim_coverage(lines, {"a1": TEXT}) == pytest.approx(expected)
    assert verbatim_coverage(lines[::-1], {"a1": TEXT}) == verbatim_coverage(lines, {"a1": TEXT})


sources = st.lists(st.sampled_from(sorted(SESSION_OF)), min_size=1, max_size=4)
kinds: st.SearchStrategy[Kind] = st.sampled_from(["verbatim", "rewrite", "summary"])
shown_lines = st.lists(st.builds(line, kinds), max_size=0) | st.lists(
    st.tuples(kinds, sources).map(lambda pair: line(pair[0], *pair[1])), max_size=5
)


@given(shown_lines, sources, st.randoms(use_true_random=False))
def test_more_lines_claim_no_less_in_any_order(lines: list[ShownLine], gold: list[str], random: object) -> None:
    value = claimed(gold, *lines)
    assert value is not None
    assert 0 <= value <= 1
    assert value >= (claimed(gold, *lines[1:]) or 0)
    shuffled = list(lines)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert claimed(gold, *shuffled) == value
    sessions = claimed_session_coverage(lines, {SESSION_OF[turn_id] for turn_id in gold}, SESSION_OF)
    assert (sessions or 0) > 0 or value == 0
