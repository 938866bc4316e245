from pathlib import Path

import pytest

from backread.store.base import TurnStore
from backread.store.sqlite import SqliteStore
from backread.testing.contracts_store import TurnStoreContract


class TestSqliteStore(TurnStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> TurnStore:
        return SqliteStore(tmp_path / "memory.db")
