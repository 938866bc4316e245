"""What of a strategy's state goes with a session."""

from __future__ import annotations

import json

import pytest

from backread.store.states import without_sessions


def test_a_session_leaves_every_part_and_what_only_looks_like_it_stays() -> None:
    state = {
        "sessions": {"built": {"built": ["f", ["page:built"]], "3": ["g", []]}, "failed": {"3": ["E", 2]}},
        "event": {"built": {"3": ["h", []]}, "alone": {"event:3:ab": "m", "event:33:ab": "n"}},
        "fact": {"batches": {"3": {"topics": [["t1"]], "entries": ["fact:3:0"]}}, "batch_count": 4},
    }
    left = json.loads(without_sessions(json.dumps(state).encode(), ["3"]) or b"")
    assert left == {
        "sessions": {"built": {"built": ["f", ["page:built"]]}, "failed": {}},
        "event": {"built": {}, "alone": {"event:33:ab": "n"}},
        "fact": state["fact"],
    }
    assert json.loads(without_sessions(json.dumps(state).encode(), ["built", "sessions"]) or b"") == {
        **state,
        "sessions": {**state["sessions"], "built": {"3": ["g", []]}},
    }


@pytest.mark.parametrize("state", [None, b"", b"41", b"[1]", b"\xff\0 no JSON", b'{"a": 1, "b": [2]}', b'{ "x": {} }'])
def test_what_names_no_session_is_left_byte_for_byte(state: bytes | None) -> None:
    assert without_sessions(state, ["a", "x"]) == state
