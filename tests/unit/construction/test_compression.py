"""Leaving out words: exactly as many as the rate says, the ones that say least, and the rest as it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from backread.construction.compression import (
    LeaveOutWords,
    WholeText,
    history_weights,
    kept_words,
    leave_out,
    word_spans,
)
from backread.errors import InvalidInputError
from backread.models.base import Attending, Compressor
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.types import TurnDraft

PIECES = [*"ab AB9. ,!?\n\t-—'我说番。ไทย🫖", "kettle ", "Ann ", "the ", "\ud800", "e\u0301", "\u200d"]
TEXTS = some.lists(some.sampled_from(PIECES), max_size=60).map("".join)
RATES = some.floats(min_value=0.01, max_value=1)


def by_length(stems: Iterable[str]) -> Mapping[str, float]:
    return {stem: float(len(stem)) for stem in stems}


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


@pytest.mark.parametrize(
    ("count", "rate", "kept"),
    [(0, 0.5, 0), (1, 0.1, 1), (10, 0.8, 8), (5, 0.5, 3), (7, 0.4, 3), (7, 0.6, 4), (7, 1, 7)],
)
def test_so_many_words_stay(count: int, rate: float, kept: int) -> None:
    # 5 x 0.5 = 2.5 and halves go up; 7 x 0.4 = 2.8; 7 x 0.6 = 4.2
    assert kept_words(count, rate) == kept


@pytest.mark.parametrize("rate", [0, -0.1, 1.01, float("nan")])
def test_a_rate_out_of_its_range_is_refused(rate: float) -> None:
    with pytest.raises(InvalidInputError):
        leave_out("some words", rate, by_length)


@given(TEXTS, RATES)
def test_the_rate_is_exact_and_what_stays_is_as_it_was(text: str, rate: float) -> None:
    before, after = words(text), words(leave_out(text, rate, by_length))
    assert len(after) == kept_words(len(before), rate)
    left = iter(before)
    assert all(word in left for word in after)  # in order, none changed


@given(TEXTS, RATES)
def test_the_same_call_gives_the_same_and_nothing_is_made_blank(text: str, rate: float) -> None:
    short = leave_out(text, rate, by_length)
    assert short == leave_out(text, rate, by_length)
    assert bool(short.strip()) == bool(text.strip())
    assert leave_out(text, 1, by_length) == text


@pytest.mark.parametrize(
    ("rate", "left"),
    [
        # 12 words, 9 stay. The dash says nothing, then function words go, the later ones first: for, a.
        (0.75, "Yesterday the plumber recommended steel kettle Ann, 7:10 Leeds"),
        # 7 stay: also the, then the lightest by the length of its stem: steel and kettl have 5, the later one goes.
        (0.6, "Yesterday plumber recommended steel Ann, 7:10 Leeds"),
        # 3 stay: those with a digit or a capital inside the sentence.
        (0.25, "Ann, 7:10 Leeds"),
    ],
)
def test_what_says_least_goes_first(rate: float, left: str) -> None:
    text = "Yesterday the plumber recommended a steel kettle for Ann, 7:10 — Leeds"
    assert leave_out(text, rate, by_length) == left


def test_a_capital_that_only_opens_a_sentence_is_no_name() -> None:
    # Two of four words stay: "Rain" opens the text, "Bo" stands inside a sentence, the rest goes by length.
    assert leave_out("Rain drenched dear Bo", 0.5, by_length) == "drenched Bo"
    assert leave_out("NASA drenched dear bo", 0.25, by_length) == "NASA"


def test_lines_stay_lines_and_scripts_without_spaces_get_none() -> None:
    assert leave_out("red lamp,\n\n  new   lamps", 0.75, lambda stems: dict.fromkeys(stems, 1.0)) == "red lamp,\nnew"
    assert leave_out("番茄需要阳光。", 0.5, lambda stems: dict.fromkeys(stems, 1.0)) == "番茄需"
    # of 说 and the names around it, 说 goes: its neighbours must not become one word
    assert leave_out("Ann说Bo", 2 / 3, by_length) == "Ann Bo"


def test_the_weights_are_those_of_the_history(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    drafts = [TurnDraft("s", "user", f"kettle number {n}") for n in range(9)] + [TurnDraft("s", "user", "a lamp")]
    store.append("ann", drafts)
    history = History(store, "ann")
    weigh = history_weights(history)
    found = weigh(["kettl", "lamp", "zebra"])
    assert found["kettl"] < found["lamp"] < found["zebra"]
    # ln(1 + (10 - 1 + .5) / (1 + .5)) = ln 7.333
    assert found["lamp"] == pytest.approx(1.9924, abs=1e-4)
    compressor = LeaveOutWords(weigh)
    assert compressor.compress("kettle or lamp", 1 / 3) == "lamp"
    assert weigh(["kettl"])["kettl"] == found["kettl"]
    store.close()


@pytest.mark.parametrize("compressor", [LeaveOutWords(by_length), WholeText()])
def test_both_are_compressors(compressor: Compressor) -> None:
    assert isinstance(compressor, Compressor)
    assert not isinstance(compressor, Attending)
    assert compressor.name
    assert compressor.fingerprint
    assert compressor.compress("", 0.5) == ""
    assert compressor.compress("a kettle", 1) == "a kettle"


def test_whole_text_leaves_nothing_out() -> None:
    assert WholeText().compress("the kettle of the plumber", 0.1) == "the kettle of the plumber"
