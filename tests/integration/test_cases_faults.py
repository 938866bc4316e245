"""Failures other memory systems had when something broke, as tests of `Memory` from end to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backread import Memory, ModelError
from backread.errors import ModelRequestError, StoreCorruptError
from backread.settings import Settings
from backread.testing.fakes import FailingEmbedder, FunctionChat, HashEmbedder

pytestmark = pytest.mark.integration


def said(text: str, **more: object) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


_ADDING = """
import sys, time
from backread import Memory
memory = Memory.open(sys.argv[1], embedder="none")
for number in range(20):
    memory.add({"role": "user", "content": f"parcel number {number}"}, user_id="ann", session_id="s")
print("added", flush=True)
time.sleep(60)
"""


# CON-03
def test_what_was_added_before_a_stop_is_there_and_its_work_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with subprocess.Popen([sys.executable, "-c", _ADDING, str(path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "added\n"
        other.send_signal(signal.SIGTERM)
        other.wait(20)
    with Memory.open(path, embedder=HashEmbedder(64)) as memory:
        assert [turn.text for turn in memory.turns(user_id="ann")] == [f"parcel number {n}" for n in range(20)]
        assert memory.pending() == 20
        assert memory.index() == 0
        assert memory.verify().ok


# CON-03
@pytest.mark.parametrize("damage", ["half", "nothing left"])
def test_a_damaged_file_is_said_to_be_damaged_and_left_alone(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m.db"
    with Memory.open(path, embedder="none") as memory:
        for number in range(200):
            memory.add(said(f"letter {number} " + "word " * 50), user_id="ann", session_id="s")
    whole = path.read_bytes()
    for beside in tmp_path.glob("m.db-*"):
        beside.unlink()
    broken = whole[: len(whole) // 2] if damage == "half" else whole[:16] + bytes(len(whole) - 16)
    path.write_bytes(broken)
    try:
        with Memory.open(path, embedder="none") as memory:
            told = not memory.verify().ok
    except StoreCorruptError as error:
        told = error.hint is not None
    assert told
    assert path.read_bytes()[: len(broken)].count(b"letter") == broken.count(b"letter")  # nothing was overwritten


# CON-03
def test_a_thousand_quick_turns_are_all_there(tmp_path: Path) -> None:
    settings = Settings(path=tmp_path / "m.db", embedder="none", catch_up_seconds=0.0, vector_cache_mb=0)
    with Memory.open(settings=settings, embedder=HashEmbedder(16)) as memory:
        for first in range(0, 1000, 50):
            memory.add([said(f"note {n}") for n in range(first, first + 50)], user_id="ann", session_id="s")
            memory.search("note", user_id="ann")
        assert len(list(memory.turns(user_id="ann"))) == 1000
        assert memory.search("note 999", user_id="ann", mode="bm25")[0].turn.text == "note 999"


# LLM-07
def test_models_that_are_down_cost_no_turn(tmp_path: Path) -> None:
    def down(request: object) -> str:
        raise ModelRequestError("the endpoint is down")

    path = tmp_path / "m.db"
    with Memory.open(path, embedder=FailingEmbedder(HashEmbedder(64)), model=FunctionChat(down)) as memory:
        assert memory.add(said("The spare key is under the pot."), user_id="ann").stored == 1
        hits = memory.search("spare key", user_id="ann", mode="bm25")
        assert (hits[0].turn.text, hits.pending) == ("The spare key is under the pot.", 1)
        with pytest.raises(ModelError):
            memory.search("spare key", user_id="ann")
    with Memory.open(path, embedder=HashEmbedder(64), model=FunctionChat(down)) as memory:
        assert memory.index() == 0
        assert memory.search("spare key", user_id="ann")[0].turn.text == "The spare key is under the pot."
        with pytest.raises(ModelRequestError, match="down"):
            memory.ask("Where is the spare key?", user_id="ann")
