"""Pieces of turns where there is no model: spans of the record, shortened for search only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from lightmem_samples import NOON, context, entries, keep, lightmem, said

from backread.store.sqlite import SqliteStore
from backread.strategies.lightmem.pieces import pieces
from backread.strategies.lightmem.settings import Settings
from backread.text.support import content
from backread.types import Turn


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "s.db")
    yield opened
    opened.close()


def turn(text: str, caption: str | None = None) -> Turn:
    return Turn("t1", "s", 0, "user", text, NOON, caption=caption)


def cut(text: str, caption: str | None = None) -> list[str]:
    found = pieces(turn(text, caption), str.upper)
    for source, short in found:
        assert short.partition(" [image")[0] == text[source.start : source.end].upper()
    return [text[source.start : source.end] for source, _ in found]


def test_short_sentences_go_together() -> None:
    # content words: hi 1; lamp, costs, 45, euros: 5 in all; bought, red, shop, Leeds: 9 in all, and six end a piece
    first = "Hi. The lamp costs 45 euros. I bought it in the red shop in Leeds."
    second = "Bob waters the tomatoes on Mondays, Ann on Sundays."
    assert cut(f"{first} {second}") == [first, second]
    assert cut(f"{first} {second}\nThanks!") == [first, f"{second}\nThanks!"]  # a short rest goes with what is before


def test_a_turn_that_says_nothing_has_no_piece() -> None:
    assert cut("???") == []
    assert cut("It is so.") == []
    assert cut("") == []


def test_a_caption_stands_with_the_first_piece() -> None:
    (source, short), *_ = pieces(turn("Look! ", "a red lamp"), str.upper)
    assert short == "LOOK! [image: a red lamp]"
    assert (source.start, source.end) == (0, 5)
    assert [short for _, short in pieces(turn("", "a red lamp"), str.upper)] == [" [image: a red lamp]"]


@given(some.text(some.sampled_from("ab9. !\n我说。"), max_size=80))
def test_every_content_word_is_in_exactly_one_piece(text: str) -> None:
    found = [source for source, _ in pieces(turn(text), str)]
    assert all(0 <= source.start < (source.end or 0) <= len(text) for source in found)
    assert all((a.end or 0) <= b.start for a, b in pairwise(found))
    assert set[str]().union(*(content(text[s.start : s.end]) for s in found)) >= content(text) or not found
    assert bool(found) == bool(content(text))


def test_entries_hold_what_compression_leaves_and_the_record_stays_whole(store: SqliteStore) -> None:
    text = "The plumber who came on Monday recommended a copper kettle."
    history = keep(store, [said("s", 0, text, speaker="Ann")])
    strategy = lightmem(None, settings=Settings(rate=0.5))
    report = strategy.build(history, context(), flush=True)
    (entry,) = entries(strategy, history)
    assert report.usage == ()
    assert entry.data["form"] == "extractive"
    # 10 words, 5 stay: a name first, then by weight; all stems stand in the one turn, so the earlier of them
    assert entry.data["fact"] == "plumber came Monday recommended copper"
    assert entry.index_text == f"Ann: {entry.data['fact']}"
    assert [turn.text for turn in history.turns()] == [text]
    recall = strategy.recall(history, "copper", None, context())
    assert [(line.kind, line.text) for line in recall.evidence] == [("verbatim", text)]
    assert recall.config["form"] == "extractive"


def test_a_piece_is_shown_as_a_cut_turn(store: SqliteStore) -> None:
    first = "Copper kettles need vinegar, warm water and patience."
    history = keep(store, [said("s", 0, f"{first} Brass lamps in the red shop in Leeds cost 45 euros.")])
    strategy = lightmem(None)
    strategy.build(history, context(), flush=True)
    (line,) = strategy.recall(history, "vinegar", None, context()).evidence
    assert (line.text, line.cut, line.sources[0].start, line.sources[0].end) == (first, True, 0, len(first))
