"""The contract of reply caches on every one of the package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from backread.models.stored_replies import StoredReplies
from backread.models.wrappers import MemoryReplyCache, ReplyCache
from backread.store.sqlite import SqliteStore
from backread.testing.contracts_replies import ReplyCacheContract
from backread.types import TurnDraft


class TestMemoryReplyCache(ReplyCacheContract):
    @pytest.fixture
    def cache(self) -> ReplyCache:
        return MemoryReplyCache()


class TestStoredReplies(ReplyCacheContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        with closing(SqliteStore(tmp_path / "memory.db")) as store:
            yield store
            assert store.verify().ok

    @pytest.fixture
    def turns(self, store: SqliteStore) -> Mapping[str, Sequence[str]]:
        drafts = [TurnDraft("s", "user", "one"), TurnDraft("s", "user", "two")]
        return {user: [item.turn_id or "" for item in store.append(user, drafts)] for user in ("ann", "bob")}

    @pytest.fixture
    def cache(self, store: SqliteStore) -> ReplyCache:
        return StoredReplies(store.replies)
