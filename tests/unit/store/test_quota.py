"""What one user may store: refused when it is full, free again when something is erased."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backread import Memory
from backread.errors import QuotaError, TurnTooLargeError
from backread.settings import Settings

MIB = 1024 * 1024


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    settings = Settings(path=tmp_path / "m.db", embedder="none", turn_mb=1, user_mb=2)
    with Memory.open(settings=settings) as opened:
        yield opened


def add(memory: Memory, *sizes: int, user: str = "ann", held: int = 0) -> tuple[int, int]:
    """(stored, rejected) of messages of these sizes."""
    attachments = [{"type": "x", "x": "y" * held}] if held else None
    messages = [{"role": "user", "content": "-" * size, "attachments": attachments} for size in sizes]
    receipt = memory.add(messages, user_id=user, session_id="s")
    return receipt.stored, len(receipt.rejected)


def test_a_quota_is_full_and_free_again(memory: Memory) -> None:
    assert add(memory, MIB, MIB // 2) == (2, 0)
    assert add(memory, MIB, 9) == (1, 1)
    with pytest.raises(QuotaError, match="quota"):
        add(memory, MIB // 2)
    with pytest.raises(QuotaError):
        add(memory, 1, held=MIB // 2)
    assert add(memory, MIB, MIB, user="bo") == (2, 0)
    largest = max(memory.turns(user_id="ann"), key=lambda turn: len(turn.text))
    memory.delete(user_id="ann", turn_id=largest.turn_id)
    assert add(memory, MIB) == (1, 0)
    with Memory.open(settings=memory.settings) as other:  # counts what is in the file
        with pytest.raises(QuotaError):
            add(other, MIB)
        other.delete(user_id="ann")
    assert add(memory, MIB, MIB) == (2, 0)


def test_a_text_above_the_setting(memory: Memory) -> None:
    with pytest.raises(TurnTooLargeError, match="over the limit of 1,048,576 bytes"):
        add(memory, MIB + 1)
