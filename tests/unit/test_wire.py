"""Values as JSON: everything this package hands out, and any text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.types import Degradation, Hits, Source
from backread.wire import json_text, plain


class Colour(Enum):
    RED = "red"


def test_shapes() -> None:
    assert plain(Source("t1", 2)) == {"turn_id": "t1", "start": 2, "end": None}
    hits = Hits((), (Degradation("dense", "no weights"),), 3)  # a sequence, but first of all a dataclass
    degraded = [{"part": "dense", "reason": "no weights", "count": None}]
    assert plain(hits) == {"items": [], "degraded": degraded, "pending": 3}
    assert plain({1: (Path("a/b"), Colour.RED)}) == {"1": ["a/b", "red"]}
    assert plain(datetime(2024, 5, 1, 9, tzinfo=UTC)) == "2024-05-01T09:00:00+00:00"


def test_one_line_or_many() -> None:
    assert json_text({"a": [1, 2]}) == '{"a":[1,2]}'
    assert json_text({"a": 1}, indent=2) == '{\n  "a": 1\n}'


def test_what_json_cannot_carry_is_an_error() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_text({"score": float("nan")})


@given(st.text(st.characters()) | st.just("\ud800 \udfff"))
def test_any_text_comes_back(text: str) -> None:
    written = json_text({"text": text})
    assert written.isascii()
    assert "\n" not in written
    assert json.loads(written) == {"text": text}
