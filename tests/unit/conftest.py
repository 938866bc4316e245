from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_samples import TALK, keep_old, opened

from backread import Memory
from backread.testing.fakes import HashEmbedder


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path, HashEmbedder(2048)) as made:
        yield made


@pytest.fixture
def talked(memory: Memory) -> Memory:
    memory.add(TALK[:3], user_id="ann", session_id="s1")
    keep_old(memory, TALK[3:], "s2")
    return memory
