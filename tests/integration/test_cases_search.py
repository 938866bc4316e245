"""Failures other memory systems had when searching, as tests of `Memory` from end to end. Ids are those of the list."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from backread import InvalidInputError, Memory
from backread.testing.fakes import HashEmbedder
from backread.text.tokens import EstimateCounter

SEARCH_MODES: tuple[str, ...] = ("hybrid", "interpolation", "rrf", "bm25", "dense")
WORDS: tuple[str, ...] = ("bm25", "hybrid")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.db", embedder=HashEmbedder(256)) as opened:
        yield opened


def keep(memory: Memory, texts: Sequence[str], *, user_id: str = "ann") -> None:
    memory.add([{"role": "user", "content": text} for text in texts], user_id=user_id, session_id="s")


def found(memory: Memory, query: str, mode: str, top_k: int = 3, *, user_id: str = "ann") -> list[str]:
    """Texts of the hits; every score must mean something."""
    hits = memory.search(query, user_id=user_id, mode=mode, top_k=top_k)
    assert all(math.isfinite(hit.score) and hit.score > 0 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    return [hit.turn.text for hit in hits]


# FTS-01
@pytest.mark.parametrize("mode", WORDS)
@pytest.mark.parametrize(
    ("query", "first"),
    [("INV-2041", 0), ("multi-vendor", 0), ("std::chrono", 1), ("speaker: Oslo", 2), ("content: Pixel", 2)],
)
def test_hyphens_and_colons_are_no_syntax(memory: Memory, mode: str, query: str, first: int) -> None:
    texts = [
        "Ticket INV-2041 was closed by the multi-vendor team",
        "We use std::chrono for the timers",
        "Mina adopted a grey cat named Pixel in Oslo",
    ]
    keep(memory, texts)
    assert found(memory, query, mode)[0] == texts[first]


GUILD = [
    "Baker's and Miller's Guild meets on Mondays",
    "Vendors AND resellers signed the NDA",
    "I would rather NOT fly near Christmas",
]


# FTS-02
@pytest.mark.parametrize("mode", WORDS)
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Baker's and Miller's Guild", 0),
        ("vendors AND resellers", 1),
        ("NOT fly", 2),
        ("when does the baker's guild meet or not", 0),
    ],
)
def test_operators_are_words(memory: Memory, mode: str, query: str, first: int) -> None:
    keep(memory, GUILD)
    assert found(memory, query, mode)[0] == GUILD[first]


# FTS-02
@pytest.mark.parametrize("mode", SEARCH_MODES)
@pytest.mark.parametrize("query", ["AND", "OR", "NOT", "NEAR(x y", "*", "**", '"', '("', "a AND", "^x", "{y}"])
def test_no_query_is_malformed(memory: Memory, mode: str, query: str) -> None:
    keep(memory, GUILD)
    assert set(found(memory, query, mode)) <= set(GUILD)


# FTS-04
@pytest.mark.parametrize("mode", WORDS)
@pytest.mark.parametrize(
    "query",
    [
        "cat Pixel",
        "What is the name of the cat that Mina adopted?",
        "Could you please remind me what the name of that cat was, the one Mina adopted a while ago?",
    ],
)
def test_a_longer_question_finds_no_less(memory: Memory, mode: str, query: str) -> None:
    cat = "Mina adopted a grey cat named Pixel in Oslo"
    keep(memory, [cat, "Pixel art was popular in the nineties", "Oslo has many trams"])
    assert found(memory, query, mode)[0] == cat
    assert len(found(memory, "Pixel", "bm25")) == 2


TERMLESS = ["🎉🎉", "???", "the of and", "see you at the pier 🚢"]
TERMLESS_QUERIES = ["🎉🎉", "🚢", "???", "the of and", "。、"]


# FTS-05
@pytest.mark.parametrize("mode", SEARCH_MODES)
@pytest.mark.parametrize("texts", [[], TERMLESS, ["???"]], ids=["nothing", "termless", "only ???"])
def test_texts_and_queries_without_words(memory: Memory, mode: str, texts: list[str]) -> None:
    if texts:
        keep(memory, texts)
    for query in TERMLESS_QUERIES:
        assert set(found(memory, query, mode)) <= set(texts)
    assert found(memory, "???", "bm25") == []
    assert found(memory, "。、", "bm25") == []
    for blank in ("", "   "):
        with pytest.raises(InvalidInputError, match="blank"):
            memory.search(blank, user_id="ann", mode=mode)


# FTS-05
def test_an_emoji_can_be_found(memory: Memory) -> None:
    keep(memory, TERMLESS)
    assert any(found(memory, "🚢", mode)[:1] == [TERMLESS[3]] for mode in SEARCH_MODES)


# TOK-01
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("预算", 0),
        ("旅行预算", 0),
        ("node42", 1),
        ("서울", 2),
        ("京都", 3),
        ("火曜日", 3),
        ("db", 4),
        ("预算改成多少了", 0),
    ],
)
def test_words_without_spaces_between(tmp_path: Path, query: str, first: int) -> None:
    texts = [
        "昨天我们把旅行预算改成八千元",
        "今天重启node42之后恢复正常",
        "어제 서울에서 회의를 했어요",
        "来週の火曜日に京都へ行きます",
        "db migration finished",
    ]
    with Memory.open(tmp_path / "m.db", embedder="none") as memory:
        keep(memory, texts)
        hits = memory.search(query, user_id="ann", mode="bm25", top_k=3)
        assert hits[0].turn.text == texts[first]
        assert all(hit.score < hits[0].score for hit in hits[1:])
    with Memory.open(tmp_path / "m.db", embedder="none") as memory:
        assert memory.search(query, user_id="ann", mode="bm25", top_k=3) == hits


# TOK-03
@pytest.mark.parametrize(("stored", "asked"), [("NFD", "NFC"), ("NFC", "NFD"), ("NFC", "NFC"), ("NFD", "NFD")])
def test_every_form_of_a_word_is_the_word(memory: Memory, stored: Any, asked: Any) -> None:
    texts = [unicodedata.normalize(stored, text) for text in ("Zoë booked a café table", "Η οδός είναι κλειστή σήμερα")]
    texts.append("ＡＢＣ１２ is the locker")
    keep(memory, texts)
    for query, first in {"café": 0, "Zoë": 0, "ΟΔΟΣ": 1, "ABC12": 2}.items():
        for mode in WORDS:
            assert found(memory, unicodedata.normalize(asked, query), mode)[0] == texts[first]
    assert [turn.text for turn in memory.turns(user_id="ann")] == texts


# TOK-03
def test_ids_are_compared_exactly_as_given(memory: Memory) -> None:
    composed, decomposed = (unicodedata.normalize(form, "zoë") for form in ("NFC", "NFD"))
    keep(memory, ["mine"], user_id=composed)
    keep(memory, ["yours"], user_id=decomposed)
    assert sorted(memory.users()) == sorted([composed, decomposed])
    assert [turn.text for turn in memory.turns(user_id=composed)] == ["mine"]


# TOK-04
@pytest.mark.parametrize(
    ("texts", "query", "expected"),
    [
        (["blue kettle", "green lamp"], "kettle", ["blue kettle"]),
        (["blue kettle"], "kettle", ["blue kettle"]),
        (
            ["kettle one", "kettle two", "kettle three red"],
            "kettle red",
            ["kettle three red", "kettle one", "kettle two"],
        ),
    ],
)
def test_a_word_of_most_turns_still_counts(memory: Memory, texts: list[str], query: str, expected: list[str]) -> None:
    keep(memory, texts)
    assert found(memory, query, "bm25", top_k=5) == expected


# RET-04
@pytest.mark.parametrize("mode", SEARCH_MODES)
def test_the_match_is_found_in_every_mode(memory: Memory, mode: str) -> None:
    key = "The spare key hangs behind the blue door"
    keep(memory, [key, *(f"note {number} about nothing special" for number in range(30))])
    assert memory.search("spare key blue door", user_id="ann", mode=mode)[0].turn.text == key


# RET-04
@pytest.mark.parametrize("mode", SEARCH_MODES)
def test_ties_have_one_order(tmp_path: Path, mode: str) -> None:
    lunches = [
        {"role": "user", "content": f"Lunch was {how}", "timestamp": f"2024-05-0{day}T12:00:00Z"}
        for day, how in enumerate(("fine", "okay", "good"), 1)
    ]
    seen = set()
    for name, messages in (("a", lunches), ("b", lunches[::-1]), ("c", [lunches[1], lunches[2], lunches[0]])):
        with Memory.open(tmp_path / f"{name}.db", embedder=HashEmbedder(256)) as memory:
            for message in messages:
                memory.add(message, user_id="ann", session_id="s")
            for _ in range(7):
                hits = memory.search("lunch", user_id="ann", mode=mode)
                seen.add(tuple((hit.turn.text, hit.score) for hit in hits))
    assert len(seen) == 1
    if mode == "bm25":
        assert [text for text, _ in seen.pop()] == ["Lunch was fine", "Lunch was okay", "Lunch was good"]


VENUE = "Short: the venue moved to floor three."


# RET-05
@pytest.mark.parametrize("budget", [120, 60, 40, 5, 1, 0])
def test_the_block_fits_the_budget(memory: Memory, budget: int) -> None:
    keep(memory, ["会" * 599 + "，地点改到三楼。", VENUE, "🙂" * 400])
    recall = memory.recall("venue floor 地点", user_id="ann", budget=budget)
    assert recall.tokens == EstimateCounter().count(recall.rendered) <= budget
    recall.rendered.encode("utf-8")  # no half of a character
    if budget == 120:
        assert VENUE in recall.rendered
        best = memory.search("venue floor 地点", user_id="ann")[0].turn
        shown = [line for line in recall.evidence if line.sources[0].turn_id == best.turn_id]
        assert shown
        assert "venue" in shown[0].text or "地点" in shown[0].text
    for line in recall.evidence:
        assert line.cut == (line.text != memory.get(line.sources[0].turn_id, user_id="ann").text)
        if line.cut:
            assert f"cut from turn {line.sources[0].turn_id}" in recall.rendered
    if budget in (0, 1, 5):
        assert (recall.rendered, recall.evidence) == ("", ())
        assert recall.overflow == (budget > 0)
