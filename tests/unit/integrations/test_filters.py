"""Filters over labels and JSON values."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.errors import InvalidInputError
from backread.integrations.filters import fits, matches

VALUE = {"kind": "note", "score": 4.5, "tags": ["a", "b"], "by": {"name": "Ann", "age": 30}, "none": None}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, True),
        ({"kind": "note"}, True),
        ({"kind": "page"}, False),
        ({"kind": "note", "score": 4.5}, True),
        ({"kind": "note", "score": 4}, False),
        ({"tags": ["a", "b"]}, True),
        ({"tags": ["b", "a"]}, False),
        ({"by": {"name": "Ann"}}, True),
        ({"by": {"name": "Ann", "age": 31}}, False),
        ({"kind": {"name": "Ann"}}, False),
        ({"none": None}, True),
        ({"missing": None}, True),
        ({"missing": 1}, False),
        ({"score": {"$gt": 4.4}}, True),
        ({"score": {"$gt": 4.5}}, False),
        ({"score": {"$gte": 4.5, "$lt": 5}}, True),
        ({"score": {"$gte": 4.5, "$lt": 4.5}}, False),
        ({"score": {"$lte": 4.5}}, True),
        ({"score": {"$eq": 4.5}}, True),
        ({"kind": {"$ne": "page"}}, True),
        ({"kind": {"$ne": "note"}}, False),
        ({"by": {"age": {"$gt": 29}}}, True),
        ({"by": {"$eq": {"name": "Ann", "age": 30}}}, True),
        ({"kind": {"$gt": "n"}}, True),
        ({"kind": {"$gt": 3}}, False),  # a text and a number have no order
        ({"kind": {"$lte": 3}}, False),
        ({"missing": {"$lt": 3}}, False),
        ({"missing": {"$ne": 3}}, True),
    ],
)
def test_a_value_as_a_filter_wants_it(wanted: dict[str, Any], expected: bool) -> None:
    assert matches(VALUE, wanted) is expected


@given(JSON)
def test_every_value_is_as_itself(value: Any) -> None:
    assert matches(value, value)
    assert matches({"v": value}, {"v": value})


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"\$regex") as caught:
        matches(VALUE, {"kind": {"$regex": "n.*"}})
    assert caught.value.hint == "operators: $eq, $ne, $gt, $gte, $lt, $lte"


@pytest.mark.parametrize(
    ("labels", "side", "path", "expected"),
    [
        (("a", "b", "c"), "prefix", ("a", "b"), True),
        (("a", "b", "c"), "prefix", ("b",), False),
        (("a", "b", "c"), "prefix", ("*", "b"), True),
        (("a", "b", "c"), "prefix", ("a", "*", "c", "*"), False),
        (("a", "b", "c"), "suffix", ("b", "c"), True),
        (("a", "b", "c"), "suffix", ("a",), False),
        (("a", "b", "c"), "suffix", ("*", "c"), True),
        (("a",), "suffix", ("a", "a"), False),
        (("a", "b"), "suffix", (), True),
        ((), "prefix", (), True),
    ],
)
def test_labels_that_begin_or_end_with_a_path(
    labels: tuple[str, ...], side: Literal["prefix", "suffix"], path: tuple[str, ...], expected: bool
) -> None:
    assert fits(labels, side, path) is expected
