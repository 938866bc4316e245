"""Nothing of a deleted turn is left by any strategy, though its model copies all it sees into all it writes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from leanmem_samples import kind_of
from lightmem_samples import messages_of, notes_of, reply_of

from backread import Memory
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder

SESSIONS, TURNS = 6, 4
THINGS = ("kettles made of copper", "lamps made of brass", "chairs made of oak", "doors made of glass")
BUILDING = (
    "leanmem",
    "leanmem:no_schedule",
    "lightmem",
    "lightmem:faithful",
    "t2mem",
    "t2mem:graph",
    "t2mem:summary",
    "trailmem",
)
_ID = re.compile(r"plover\d{3}")


def word(place: int) -> str:
    return f"plover{place:03}"


def session(number: int) -> str:
    return f"sitting-of-{number:03}-heron"


def messages(number: int) -> list[dict[str, str]]:
    return [
        {
            "role": "user",
            "content": f"Ann likes {THINGS[at]} and {word(number * TURNS + at)}",
            "timestamp": f"2024-03-{1 + number:02}T12:{at:02}:00Z",
        }
        for at in range(TURNS)
    ]


def copying(request: ChatRequest) -> str:
    """A reply to any prompt for entries, with every word that was seen in everything that is written."""
    question = request.question
    seen = " ".join(dict.fromkeys(_ID.findall(question)))
    if "<messages" in question:
        return reply_of(*((number, f"{text} {seen}") for number, _, text in messages_of(request)))
    if "<notes" in question:
        return json.dumps({"action": "update", "new_memory": f"{notes_of(request)[0]} {seen}"})
    if "<session" in question:
        turns = [1]
        event = {"who": "Ann", "what": f"likes {seen}", "turns": turns}
        relation = {"subject": "Ann", "relation": "likes", "object": seen, "turns": turns}
        return json.dumps({"overview": seen, "summary": seen, "events": [event], "relations": [relation]})
    if kind_of(request) == "schedule":
        action = ("event", "record", "profile")[len(question) % 3]
        return json.dumps(
            {"source_indices": [1], "action": action, "attributes": [{"attribute": "what Ann likes", "value": seen}]}
        )
    said = f"Ann likes things {seen}"
    return json.dumps(
        {"topic": "what Ann likes", "state": said, "gist": said, "summary": said, "op": "add", "target_id": "E1"}
    )


def opened(path: Path) -> Memory:
    return Memory.open(path, embedder=HashEmbedder(), model=FunctionChat(copying))


def build(memory: Memory, strategy: str) -> str:
    """Build, and say in which strategy's name the entries are."""
    report = memory.build(user_id="ann", strategy=strategy, flush=True, maintain=True)
    assert report.failed == ()
    return report.strategy


def content(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()))


@pytest.mark.parametrize("strategy", BUILDING)
def test_no_word_and_no_session_of_what_was_deleted_is_left(tmp_path: Path, strategy: str) -> None:  # DEL-01
    (source := tmp_path / "source").mkdir()
    ids: list[str] = []
    name = ""
    with opened(source / "memory.db") as memory:
        for number in range(SESSIONS):
            ids += memory.add(messages(number), user_id="ann", session_id=session(number)).turn_ids
            if number in (2, SESSIONS - 1):
                name = build(memory, strategy)
        entries = memory.entries(user_id="ann", strategy=name)
        assert entries
        words = [set(_ID.findall(entry.index_text + json.dumps(dict(entry.data)))) for entry in entries]
        cited = [{source.turn_id for source in entry.sources} for entry in entries]
        known = {turn_id: word(place) for place, turn_id in enumerate(ids)}
        for entry, has, named in zip(entries, words, cited, strict=True):
            assert has <= {known[turn_id] for turn_id in (*named, *entry.shown)}
    for place in (0, 5, 10, 23):
        shutil.copytree(source, tmp_path / f"turn-{place}")
        path = tmp_path / f"turn-{place}" / "memory.db"
        with opened(path) as memory:
            assert memory.delete(user_id="ann", turn_id=ids[place]).turns == 1
            assert word(place).encode() not in content(path)
            build(memory, strategy)
            assert word(place).encode() not in content(path)
            assert word(place + 1 if place < 23 else 22).encode() in content(path)
            assert memory.verify().ok
    with opened(source / "memory.db") as memory:
        memory.delete(user_id="ann", session_id=session(1))
        left = content(source / "memory.db")
        assert session(1).encode() not in left
        assert session(2).encode() in left
        assert [place for place in range(TURNS, 2 * TURNS) if word(place).encode() in left] == []
        build(memory, strategy)
        assert session(1).encode() not in content(source / "memory.db")
        assert memory.verify().ok
