"""Reasoning in front of an answer, told apart from words that look like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.models.thinking import VisibleText, split_thinking


# LLM-01
@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ('<think>maybe {"facts": ["W"]} or {broken</think>\n{"facts": []}', 'maybe {"facts": ["W"]} or {broken', None),
        ("<think>a</think><think>b</think>c", "a\nb", "c"),
        (" <THINKING>a</thinking> c", "a", "c"),
        ("<think></think>c", "", "c"),
        ("<think>cut off", "cut off", ""),
        ("<think>a</think>", "a", ""),
        ("a\nb\n</think>\n\nc", "a\nb", "c"),
        ("a </think> c", None, "a </think> c"),
        ("Say <think>x\n</think> here", None, "Say <think>x\n</think> here"),
        ('{"tag": "\n</think>"}', None, '{"tag": "\n</think>"}'),
        ("", None, ""),
    ],
)
def test_what_leads_is_reasoning(text: str, reasoning: str | None, answer: str | None) -> None:
    thoughts = split_thinking(text)
    assert thoughts.reasoning == reasoning
    assert thoughts.answer == ('{"facts": []}' if answer is None else answer)


PIECES = st.lists(st.sampled_from(["<", "<think>", "</think>", "<thinking>", "th", "a", " ", "\n", "{"]), max_size=12)


@given(PIECES)
def test_a_stream_shows_the_same_however_it_is_split(pieces: list[str]) -> None:
    text = "".join(pieces)

    def shown(parts: list[str]) -> str:
        visible = VisibleText()
        return "".join([*map(visible.feed, parts), visible.end()])

    assert shown(pieces) == shown([text]) == shown(list(text))
    if "\n</think" not in text and not text.lstrip().startswith("</think"):  # an opening that the stream can't know of
        assert shown(pieces) == split_thinking(text).answer
