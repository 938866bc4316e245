"""What comes in live without a time has a time of receipt, marked as that; what is imported without one has none."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from memory_samples import keep_old, opened

from backread import Memory
from backread.errors import ConflictError, InvalidInputError
from backread.importers.jsonl import read_jsonl
from backread.integrations.mem0 import Memory as Mem0
from backread.messages import draft_from_message
from backread.types import TurnDraft

BOAT = {"role": "user", "content": "The boat is moored at Lindau.", "id": "b1"}
HOUR = timedelta(hours=1)


def found(memory: Memory, **scope: object) -> list[str]:
    return [hit.turn.text for hit in memory.search("boat Lindau", user_id="ann", **scope)]  # type: ignore[arg-type]


def test_filters_work_on_what_was_just_added(memory: Memory) -> None:
    before = datetime.now(UTC)
    memory.add(BOAT, user_id="ann")
    after = datetime.now(UTC)
    turn = memory.get("b1", user_id="ann")
    assert (turn.said_at, turn.time, turn.received) == (None, turn.received_at, True)
    assert turn.received_at is not None
    assert before <= turn.received_at <= after
    assert turn.received_at - turn.stored_at < HOUR
    boat = [BOAT["content"]]
    assert found(memory, as_of=after) == found(memory, after=before) == found(memory, before=after + HOUR) == boat
    assert found(memory, as_of=before) == found(memory, after=after + HOUR) == found(memory, before=before) == []
    assert found(memory, as_of="2930-01-01") == boat
    assert memory.search("boat", user_id="ann", as_of=after).degraded == ()
    recall = memory.recall("Where is the boat?", user_id="ann", as_of=after)
    assert f"# received {turn.received_at:%Y-%m-%d %H:%M}\n" in recall.rendered
    assert [(line.time, line.received) for line in recall.evidence] == [(turn.received_at, True)]
    (session,) = memory.sessions(user_id="ann")
    assert session.started_at == session.ended_at == turn.received_at


def test_what_is_said_and_what_is_imported_have_none(memory: Memory) -> None:
    memory.add(BOAT | {"timestamp": "2024-05-01T09:00Z"}, user_id="ann")
    said = memory.get("b1", user_id="ann")
    assert (said.received_at, said.received, said.time) == (None, False, datetime(2024, 5, 1, 9, tzinfo=UTC))
    (old,) = keep_old(memory, [BOAT | {"id": "b2"}], "s2")
    turn = memory.get(old, user_id="ann")
    assert (turn.said_at, turn.received_at, turn.time, turn.received) == (None, None, None, False)
    assert memory.history("ann").undated() == 1
    assert "# unknown time\n" in memory.recall("boat", user_id="ann").rendered
    assert "received" not in memory.recall("boat", user_id="ann").rendered


def test_the_time_of_receipt_is_by_the_clock_of_the_zone(tmp_path: Path) -> None:
    with opened(tmp_path, zone="Asia/Tokyo") as memory:
        memory.add(BOAT, user_id="ann")
        at = memory.get("b1", user_id="ann").received_at
        assert at is not None
        assert at.utcoffset() == 9 * HOUR


def test_sent_again_it_is_known_and_keeps_its_time(memory: Memory) -> None:
    memory.add(BOAT, user_id="ann", session_id="s")
    first = memory.get("b1", user_id="ann")
    again = memory.add(BOAT, user_id="ann", session_id="s")
    assert (again.stored, again.known) == (0, 1)
    assert keep_old(memory, [BOAT], "s") == [first.turn_id]
    assert memory.get("b1", user_id="ann") == first
    with pytest.raises(ConflictError, match="said"):
        memory.add(BOAT | {"timestamp": "2024-05-01T09:00Z"}, user_id="ann", session_id="s")
    keep_old(memory, [BOAT | {"id": "b2"}], "s")
    assert memory.add(BOAT | {"id": "b2"}, user_id="ann", session_id="s").known == 1
    assert memory.get("b2", user_id="ann").time is None
    memory.add(BOAT | {"id": "b3", "timestamp": "2024-05-01T09:00Z"}, user_id="ann", session_id="s")
    with pytest.raises(ConflictError, match="said"):
        memory.add(BOAT | {"id": "b3"}, user_id="ann", session_id="s")
    assert memory.verify().faults == ()


def test_an_export_carries_it_to_another_user_and_back(memory: Memory, tmp_path: Path) -> None:
    memory.add([BOAT, BOAT | {"id": None, "content": "It leaks."}], user_id="ann", session_id="s")
    file = tmp_path / "x.jsonl"
    for giver, taker in (("ann", "bo"), ("bo", "eve"), ("eve", "ann")):
        lines = [{**message, "user_id": taker} for message in memory.export(user_id=giver)]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        for session in read_jsonl(file).sessions:
            assert not memory.add_turns(session.turns, user_id=taker).rejected
    times = [[turn.received_at for turn in memory.turns(user_id=user)] for user in ("ann", "bo", "eve")]
    assert times[0] == times[1] == times[2]
    assert len(times[0]) == 2
    assert None not in times[0]


def test_a_message_has_one_time_at_most() -> None:
    received = BOAT | {"received_at": "2024-05-01T09:00Z"}
    draft = draft_from_message(received, session_id="s", zone=ZoneInfo("Europe/Paris"))
    assert (draft.said_at, draft.received_at) == (None, datetime(2024, 5, 1, 9, tzinfo=UTC))
    with pytest.raises(InvalidInputError, match="two times"):
        draft_from_message(received | {"timestamp": "2024-05-01"}, session_id="s")


def test_it_keeps_the_order_of_arrival_in_a_session(memory: Memory) -> None:
    """A reply without a time follows what it came in after, though that names a time long past, or one ahead."""
    for number, at in enumerate(("2023-05-01T09:00Z", None, "2023-05-01T09:05Z", None, "2093-01-01", None)):
        time = {} if at is None else {"timestamp": at}
        memory.add({"role": "user", "content": f"line {number}", **time}, user_id="ann", session_id="s")
    assert [turn.text for turn in memory.turns(user_id="ann")] == [f"line {number}" for number in range(6)]
    memory.delete(user_id="ann", turn_id=next(memory.turns(user_id="ann")).turn_id)
    assert [turn.text for turn in memory.turns(user_id="ann")] == [f"line {number}" for number in range(1, 6)]
    assert memory.verify().faults == ()


def test_every_live_way_in(memory: Memory) -> None:
    Mem0(memory).add("The boat is moored at Lindau.", user_id="ann")
    memory.add_turns([TurnDraft("s", "user", "The boat", received_at=datetime(2024, 5, 1, tzinfo=UTC))], user_id="ann")
    assert all(turn.received for turn in memory.turns(user_id="ann"))
    assert memory.history("ann").undated() == 0
