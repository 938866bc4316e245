"""JSON in the replies of chatty models: found whole, never corrupted, never a part of something else."""

from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.models.json_reply import candidates, starts_complete


def first(reply: str) -> object:
    return next((candidate.value for candidate in candidates(reply)), None)


TWINS = {"facts": ["Ivo has twins"]}


# LLM-02
@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('Here you go:\n```json\n{"facts": ["Ivo has twins"]}\n```\nAnything else?', TWINS),
        ('{"facts": ["run ```pip install x``` first"]}', {"facts": ["run ```pip install x``` first"]}),
        ("[]\n\nNo stable facts were found.", []),
        ('{"facts": ["Ivo has twins"],}', TWINS),
        ("```json\n```", None),
        ('My `draft` is below: {"facts": ["Ivo has twins"]}', TWINS),
        ('"just a string"', None),
        ('```\n{"facts": ["a ```b``` c"]}\n```', {"facts": ["a ```b``` c"]}),
        ('~~~\n{"facts": ["Ivo has twins"]}\n~~~', TWINS),
        ('<analysis>{"facts": ["W"]}</analysis>\n```json\n{"facts": ["Ivo has twins"]}\n```', TWINS),
        ('{"facts": ["Ivo has twins"]}\nSee [1] and {"facts": []}', TWINS),
        ('{"facts": ["two\nlines"]}', {"facts": ["two\nlines"]}),
        ('maybe {broken and {"facts": ["Ivo has twins"]}', TWINS),
        ("", None),
        ("12", None),
    ],
)
def test_the_likeliest_value(reply: str, value: object) -> None:
    assert first(reply) == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"facts": ["a"]', {"facts": ["a"]}),
        ("{'facts': ['a']}", {"facts": ["a"]}),
        ('Sure: {"facts": ["a",]}.', {"facts": ["a"]}),
        ('{"facts": ["a"] // none more\n}', {"facts": ["a"]}),
        ('```json\n{"facts": ["a",]}\n```', {"facts": ["a"]}),
    ],
)
def test_broken_values_are_mended_and_marked(reply: str, value: object) -> None:
    found = list(candidates(reply))
    assert [(candidate.value, candidate.repaired) for candidate in found] == [(value, True)]


@pytest.mark.parametrize("reply", ['{"facts": ["Ivo has tw', 'So: {"facts": ["a", "b', '{"facts": [{"a": 1}, {"a": "'])
def test_what_ends_inside_a_string_is_not_made_up(reply: str) -> None:
    assert list(candidates(reply)) == []


def test_a_value_inside_an_unclosed_one_is_no_candidate() -> None:
    found = list(candidates('{"rejected": ["a"], "facts": [{"rejected": [], "facts": ["b"]}'))
    assert [candidate.value["facts"] for candidate in found if isinstance(candidate.value, dict)] != [["b"]]


@pytest.mark.parametrize(
    ("reply", "complete"),
    [
        ('{"a": 1}\n\n\n', True),
        ("[1] and", True),
        ('{"a": 1', False),
        ('x {"a": 1}', False),
        ("12", False),
        ("", False),
    ],
)
def test_a_cut_behind_the_value_takes_nothing_of_it(reply: str, complete: bool) -> None:
    assert starts_complete(reply) is complete


@pytest.mark.parametrize(
    "reply", ["[" * 20_000, "{" * 20_000, '{"a":' * 5_000, "[1," * 5_000 + "]" * 5_000, "1" * 9_999]
)
def test_hostile_replies_end_soon(reply: str) -> None:
    started = time.perf_counter()
    list(candidates(reply))
    assert time.perf_counter() - started < 10


def test_numbers_beyond_json_are_not_read_as_numbers() -> None:
    for value in (first('{"a": NaN}'), first('{"a": Infinity}')):
        assert not (isinstance(value, dict) and isinstance(value["a"], float) and not math.isfinite(value["a"]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(min_size=1), VALUES, min_size=1, max_size=3)
PROSE = st.text(st.characters(exclude_characters='{}[]"`\\', exclude_categories=["Cs"]), max_size=20)


@given(OBJECTS, PROSE, PROSE, st.booleans(), st.booleans())
def test_any_object_is_found_in_prose_and_fences(
    value: dict[str, object], before: str, after: str, fenced: bool, ascii_only: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    body = f"```json\n{text}\n```" if fenced else text
    found = list(candidates(f"{before}\n{body}\n{after}"))
    assert [(candidate.value, candidate.repaired) for candidate in found] == [(value, False)]


@given(st.text(st.sampled_from('{}[]",:`\\ \na1'), max_size=40))
def test_no_reply_is_too_odd(reply: str) -> None:
    for candidate in candidates(reply):
        assert isinstance(candidate.value, dict | list)
