"""Replies of chat models kept in the store: erased with what they rest on, never kept of what is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from store_samples import draft, raw

from backread.errors import StoreError
from backread.models.base import ChatMessage, ChatReply
from backread.models.stored_replies import StoredReplies
from backread.models.wrappers import CachedChat
from backread.store.sqlite import SqliteStore
from backread.testing.fakes import FunctionChat
from backread.types import Usage

SECRET = "the safe code is zebra-7731"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        yield store


@pytest.fixture
def ids(store: SqliteStore) -> list[str]:
    """Ann's turns: two of session "s1", one of "s2"; bo has one as well."""
    store.append("bo", [draft("theirs")])
    drafts = [draft("one"), draft("two"), draft("three", "s2")]
    return [item.turn_id or "" for item in store.append("ann", drafts)]


@pytest.fixture
def filled(store: SqliteStore, ids: list[str]) -> SqliteStore:
    """A reply on each turn of ann, one on all, one on any, one on none, and one of bo's."""
    for number, turn_id in enumerate(ids):
        store.replies.put(str(number), f'"{SECRET} {number}"', user_id="ann", turn_ids=[turn_id])
    store.replies.put("all", "1", user_id="ann", turn_ids=ids)
    store.replies.put("any", "2", user_id="ann", turn_ids=None)
    store.replies.put("none", f'"{SECRET}"', user_id="ann", turn_ids=[])
    store.replies.put("bo", "3", user_id="bo", turn_ids=None)
    return store


def kept(store: SqliteStore) -> list[str]:
    return [key for key in ("0", "1", "2", "all", "any", "none", "bo") if store.replies.get(key) is not None]


def content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())


def test_a_deleted_turn_takes_its_replies(filled: SqliteStore, ids: list[str]) -> None:
    filled.delete("ann", turn_ids=[ids[0]])
    assert kept(filled) == ["1", "2", "none", "bo"]
    assert filled.verify().ok
    assert filled.verify().checked["replies"] == 4


def test_a_deleted_session_takes_its_replies(filled: SqliteStore) -> None:
    filled.delete("ann", session_id="s1", scrub=False)
    assert kept(filled) == ["2", "none", "bo"]
    assert filled.verify().ok


def test_a_deleted_user_takes_all(filled: SqliteStore) -> None:
    filled.delete("ann")
    assert kept(filled) == ["bo"]
    assert filled.verify().ok


def test_what_deletes_nothing_drops_nothing(filled: SqliteStore) -> None:
    filled.delete("ann", turn_ids=["absent"])
    filled.delete("ann", turn_ids=[])
    filled.delete("nobody")
    assert len(kept(filled)) == 7


@pytest.mark.parametrize("what", ["turns", "user", "the user after their turns", "drop and scrub"])
def test_no_byte_of_a_reply_is_left(filled: SqliteStore, ids: list[str], tmp_path: Path, what: str) -> None:
    assert SECRET.encode() in content(tmp_path)
    if what.startswith("drop"):
        filled.replies.drop("ann")
        filled.scrub()
    if what == "turns":
        filled.replies.drop("ann", [])  # nothing
        filled.replies.put("none", '"words of no turn"', user_id="ann", turn_ids=[])
    if "turns" in what:
        filled.delete("ann", turn_ids=ids)
    if "user" in what:
        filled.delete("ann")
    assert SECRET.encode() not in content(tmp_path)
    filled.close()
    assert SECRET.encode() not in content(tmp_path)


def test_copies_that_sqlite_made_of_replies_are_gone_too(store: SqliteStore, tmp_path: Path) -> None:
    ids = [item.turn_id or "" for item in store.append("ann", [draft(f"turn {n}") for n in range(300)])]
    for number, turn_id in enumerate(ids):
        text = f'"mark-{number:05} {"pad " * (number * 37 % 400)}"'
        store.replies.put(f"sha256:{number * 7919 % 1000:064}", text, user_id="ann", turn_ids=[turn_id])
    store.delete("ann", turn_ids=ids[::3])
    left = content(tmp_path)
    assert [n for n in range(300) if f"mark-{n:05}".encode() in left] == [n for n in range(300) if n % 3]


def test_nothing_is_kept_of_a_turn_that_is_gone(store: SqliteStore, ids: list[str]) -> None:
    assert store.replies.put("k", "1", user_id="ann", turn_ids=ids[1:])
    store.delete("ann", turn_ids=[ids[0]])
    assert not store.replies.put("k", "2", user_id="ann", turn_ids=ids)
    assert store.replies.get("k") == "1"
    assert not store.replies.put("k", "2", user_id="bo", turn_ids=[ids[1]])
    assert not store.replies.put("k", "2", user_id="nobody", turn_ids=None)
    assert not store.replies.put("k", "2", user_id="ann", turn_ids=["\ud800"])
    assert store.replies.get("k") == "1"


def test_odd_keys_and_users(store: SqliteStore) -> None:
    store.append("\ud800\0", [draft("odd")])
    assert store.replies.put("\udfff\0k", "1", user_id="\ud800\0", turn_ids=None)
    assert store.replies.get("\udfff\0k") == "1"
    assert store.replies.get("\udfff") is None
    assert store.verify().ok
    assert store.replies.drop("\ud800\0") == 1


def test_a_key_of_two_users_is_the_last_ones(store: SqliteStore, ids: list[str]) -> None:
    store.replies.put("k", "1", user_id="ann", turn_ids=ids)
    store.replies.put("k", "2", user_id="bo", turn_ids=None)
    assert store.replies.drop("ann") == 0
    assert store.replies.get("k") == "2"
    assert store.verify().ok


def test_replies_survive_the_process(filled: SqliteStore) -> None:
    filled.close()
    with closing(SqliteStore(filled.path)) as again:
        assert len(kept(again)) == 7
    with pytest.raises(StoreError, match="closed"):
        filled.replies.get("0")


def test_a_delete_and_a_put_at_once_leave_no_orphan(store: SqliteStore) -> None:
    for _ in range(15):
        (item,) = store.append("ann", [draft("short-lived")])
        turn_id = item.turn_id or ""
        start = threading.Barrier(2)

        def put(turn_id: str = turn_id, start: threading.Barrier = start) -> None:
            start.wait()
            store.replies.put("k", "1", user_id="ann", turn_ids=[turn_id])

        thread = threading.Thread(target=put)
        thread.start()
        start.wait()
        store.delete("ann", turn_ids=[turn_id], scrub=False)
        thread.join()
        assert store.replies.get("k") is None
        assert store.verify().ok


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"text": "x"}', '{"text": "x", "usage": {"later": 1}}', "null"])
def test_a_reply_that_cannot_be_read_is_asked_for_again(store: SqliteStore, ids: list[str], text: str) -> None:
    store.replies.put("k", text, user_id="ann", turn_ids=ids)
    cache = StoredReplies(store.replies)
    assert cache.get("k") is None
    reply = ChatReply("x", "stop", Usage("build", "m"))
    cache.put("k", reply, user_id="ann", turn_ids=ids)
    assert cache.get("k") == reply


def test_a_cached_chat_asks_once_until_its_turns_go(store: SqliteStore, ids: list[str]) -> None:
    chat = FunctionChat(lambda request: "seven")

    def ask(turn_ids: list[str] | None) -> bool:
        cached = CachedChat(chat, StoredReplies(store.replies), user_id="ann", turn_ids=turn_ids)
        return cached.complete([ChatMessage("user", f"When? {turn_ids}")], purpose="build", max_tokens=9).cached

    for turn_ids in ([ids[0]], ids[1:], None):
        assert (ask(turn_ids), ask(turn_ids)) == (False, True)
    store.delete("ann", turn_ids=[ids[0]])
    assert [ask([ids[0]]), ask([ids[0]])] == [False, False]  # a turn that is gone is never kept again
    assert ask(ids[1:])
    assert (ask(None), ask(None)) == (False, True)


def test_a_reply_on_another_users_turn_is_a_fault(filled: SqliteStore, ids: list[str]) -> None:
    (theirs,) = filled.layout("bo").docs.tolist()
    with raw(filled.path) as db:
        db.execute("UPDATE reply_turns SET turn_doc = ? WHERE turn_doc = 2 AND reply_pk = 1", (theirs,))
    told = {(fault.where, fault.what, fault.detail) for fault in filled.verify().faults}
    assert told == {
        ("reply", "0 of user 'ann'", "the reply does not match its checksum"),
        ("reply", "0 of user 'ann'", "rests on a turn that is not one of this user's"),
    }


def test_dropping_a_users_replies_reads_an_index(store: SqliteStore) -> None:
    with raw(store.path) as db:
        for where in ("user_pk = 1 AND any_turn", "user_pk = 1"):
            plan = " ".join(
                row[3] for row in db.execute(f"EXPLAIN QUERY PLAN SELECT reply_pk FROM replies WHERE {where}")
            )
            assert "replies_user" in plan
        on = "SELECT reply_pk FROM reply_turns WHERE turn_doc = 1"
        assert "reply_turns_turn" in " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {on}"))
