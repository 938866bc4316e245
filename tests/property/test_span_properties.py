"""Every citation is a piece of its turn, whatever the model wrote."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from backread.answering.citations import check, find_quote
from backread.answering.extractive import quote_answer
from backread.types import Evidence, Recall, Source, Turn

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)

words = st.sampled_from(
    ["kettle", "Kettle", "lamp", "don’t", "don't", "会议", "\x00", "\ud800", "\n", "  ", "7:45", "…", "[1]"]
)
texts = st.lists(st.one_of(words, st.text(max_size=6)), max_size=10).map(" ".join)
marks = st.sampled_from(
    ["[1]", "[2]", "[1, 2]", "[3]", "[0]", "[1-3]", "[x]", "【2】", "[99]", "\nQUOTES\n", '[1] "', '"']
)
replies = st.lists(st.one_of(words, marks, st.text(max_size=6)), max_size=14).map(" ".join)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Evidence], dict[str, Turn]]:
    turns = [
        Turn(f"t{place}", "s", place, "user", draw(texts), NOON, caption=draw(st.one_of(st.none(), texts)))
        for place in range(draw(st.integers(0, 3)))
    ]
    lines = []
    for turn in turns:
        start = draw(st.integers(0, len(turn.text)))
        end = draw(st.integers(start, len(turn.text)))
        lines.append(Evidence(turn.text[start:end], "verbatim", (Source(turn.turn_id, start, end),), 0, "user", NOON))
    return lines, {turn.turn_id: turn for turn in turns}


@given(replies, histories())
def test_a_quote_is_its_span(reply: str, history: tuple[list[Evidence], dict[str, Turn]]) -> None:
    evidence, turns = history
    result = check(reply, evidence, turns)
    for citation in result.citations:
        assert 1 <= citation.number <= len(evidence)
        assert citation.turn_id == evidence[citation.number - 1].sources[0].turn_id
        assert citation.quote == turns[citation.turn_id].text[citation.start : citation.end]
    left = {int(digits) for digits in re.findall(r"\[(\d{1,3})\]", result.text)}
    assert {citation.number for citation in result.citations} <= left
    assert check(reply, evidence, turns) == result


@given(st.text(max_size=80), st.integers(0, 80), st.integers(1, 40))
def test_a_piece_of_a_text_is_found_in_it(text: str, start: int, size: int) -> None:
    piece = text[start : start + size]
    span = find_quote(text, piece)
    if span is not None:
        assert 0 <= span[0] < span[1] <= len(text)
    elif (bare := piece.strip(" \t\n….,;:!?")) and not re.search(r"\s|\.\.\.|…", piece):
        # Not found as whole words: a letter or digit stands right before or after it everywhere.
        assert any(
            re.search(rf"[A-Za-z0-9]{re.escape(bare)}|{re.escape(bare)}[A-Za-z0-9]", text[max(0, at - 1) :])
            for at in range(len(text))
        )


@given(texts, histories())
def test_quoted_answers_cite_what_they_quote(question: str, history: tuple[list[Evidence], dict[str, Turn]]) -> None:
    evidence, turns = history
    answer = quote_answer(Recall(question, "s", tuple(evidence), "", 0, "c"), turns)
    assert len(answer.citations) <= 3
    assert len({citation.number for citation in answer.citations}) == len(answer.citations)
    for citation in answer.citations:
        source = evidence[citation.number - 1].sources[0]
        assert source.start <= citation.start < citation.end <= (source.end or 0)
        assert citation.quote == turns[citation.turn_id].text[citation.start : citation.end]
        assert f"[{citation.number}]" in answer.text
    assert len(answer.text.split("\n")) == max(1, len(answer.citations))
    answer.text.encode()
