"""`AsyncMemory` has what `Memory` has, and does what `Memory` does."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

from backread import AsyncMemory, InvalidInputError, Memory, NotFoundError
from backread.testing.fakes import HashEmbedder


def public(kind: type) -> dict[str, object]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", public(Memory))
def test_every_public_name_of_memory_is_there_with_the_same_arguments(name: str) -> None:
    ours, theirs = public(AsyncMemory)[name], public(Memory)[name]
    if isinstance(theirs, property):
        assert isinstance(ours, property)
        return
    assert callable(ours)
    assert callable(theirs)
    assert inspect.iscoroutinefunction(ours) or inspect.isasyncgenfunction(ours)
    assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters


def test_settings_are_those_of_the_memory(tmp_path: Path) -> None:
    async def run() -> None:
        async with await AsyncMemory.open(tmp_path / "m.db", embedder="none") as memory:
            assert memory.settings is memory.memory.settings
            assert memory.settings.path == tmp_path / "m.db"
            assert (memory.embedder, memory.chat) == (None, None)

    asyncio.run(run())


def test_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "m.db"

    async def write() -> None:
        async with await AsyncMemory.open(path, embedder=HashEmbedder(256)) as memory:
            messages = [{"role": "user", "content": f"parcel {number} arrived"} for number in range(1200)]
            receipt = await memory.add(messages, user_id="ann", session_id="s")
            assert receipt.stored == 1200
            turns = [turn async for turn in memory.turns(user_id="ann")]
            assert [turn.turn_id for turn in turns] == list(receipt.turn_ids)
            exported = [message async for message in memory.export(user_id="ann")]
            assert len(exported) == 1200
            assert await memory.index() == 0
            hits = await memory.search("parcel 77", user_id="ann", top_k=1)
            assert hits[0].turn.text == "parcel 77 arrived"
            recall = await memory.recall("Which parcel arrived?", user_id="ann")
            assert 0 < recall.tokens <= 1000
            answer = await memory.ask("Did parcel 77 arrive?", user_id="ann")
            assert answer.citations[0].quote == "parcel 77 arrived"
            assert (await memory.delete(user_id="ann", turn_id=turns[0].turn_id)).turns == 1

    asyncio.run(write())
    with Memory.open(path, embedder=HashEmbedder(256)) as memory:
        assert memory.stats(user_id="ann").turns == 1199


def test_calls_run_side_by_side(tmp_path: Path) -> None:
    async def run() -> None:
        async with await AsyncMemory.open(tmp_path / "m.db", embedder="none") as memory:
            adds = [memory.add({"role": "user", "content": f"note {number}"}, user_id="ann") for number in range(20)]
            receipts = await asyncio.gather(*adds)
            assert sum(receipt.stored for receipt in receipts) == 20
            assert len(await memory.sessions(user_id="ann")) == 20

    asyncio.run(run())


def test_errors_come_through(tmp_path: Path) -> None:
    async def run() -> None:
        async with await AsyncMemory.open(tmp_path / "m.db", embedder="none") as memory:
            with pytest.raises(InvalidInputError, match="blank"):
                await memory.search(" ", user_id="ann")
            with pytest.raises(NotFoundError):
                await memory.get("nothing", user_id="ann")
            with pytest.raises(NotFoundError):
                async for _ in memory.turns(user_id="ann", session_id="nothing"):
                    pass

    asyncio.run(run())
