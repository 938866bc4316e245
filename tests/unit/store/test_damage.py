"""Bytes of the file changed behind SQLite's back: refused or named by `verify`, and never an error of another kind."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import build, dump, raw

from backread import Memory
from backread.errors import StoreCorruptError, StoreError
from backread.store.base import TURNS
from backread.store.indexing import TermHasher
from backread.store.sqlite import SqliteStore

ANN = "(SELECT user_pk FROM users WHERE user_id = x'616e6e')"

CONTENT = {
    "meta": "name, value",
    "users": "user_pk, user_id",
    "sessions": "session_pk, user_pk, session_id, order_us, dated, last_sort_us",
    "turns": "doc, user_pk, session_pk, sort_us, said_us, said_offset, stored_us, length, cues, supersedes, turn_id,"
    " sum, external_id, role, speaker, said_text, caption, attachments, text",
    "postings": "corpus_pk, term, doc, tf",
    "embedders": "embedder_pk, fingerprint, dimension, active, sum",
    "vector_blocks": "corpus_pk, embedder_pk, capacity, docs, sums, data",
    "entries": "doc, user_pk, corpus_pk, said_us, said_offset, version, length, strategy, kind, entry_id, model,"
    " prompt_hash, sum, data, index_text",
    "links": "entry_doc, number, turn_doc, start, end, sum",
    "strategy_states": "user_pk, strategy, version, state, sum",
    "replies": "reply_pk, user_pk, any_turn, created_us, key, sum, reply",
    "reply_turns": "reply_pk, turn_doc",
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "memory.db"
    build(path)
    return path


@pytest.fixture
def path(sample: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "memory.db"
    copy.write_bytes(sample.read_bytes())
    return copy


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as store:
        yield store


def is_found(path: Path, content: bytes, offset: int, mask: int) -> bool:
    """Whether a store with one byte changed is refused or has a fault; no error but ours comes out."""
    damaged = bytearray(content)
    damaged[offset] ^= mask
    for name in (path.name + "-wal", path.name + "-shm"):
        path.with_name(name).unlink(missing_ok=True)
    path.write_bytes(damaged)
    try:
        with closing(SqliteStore(path)) as store:
            return not store.verify().ok
    except StoreError:
        return True


def offsets_of(content: bytes, needle: bytes) -> Iterator[int]:
    start = content.find(needle)
    assert start >= 0
    while start >= 0:
        yield from range(start, start + len(needle))
        start = content.find(needle, start + 1)


def test_every_byte_of_a_turn_in_the_file_counts(path: Path) -> None:
    content = path.read_bytes()
    for needle in (b"The blue kettle is in the attic", b"a kettle under dust", b"at noon", b"attic.png", b"m-1Ann"[:3]):
        offsets = list(offsets_of(content, needle))
        for offset in (offsets[0], offsets[len(offsets) // 2], offsets[-1]):
            assert is_found(path, content, offset, 1), (needle, offset)


def test_every_byte_of_a_posting_and_of_a_vector_in_the_file_counts(path: Path) -> None:
    content = path.read_bytes()
    with raw(path) as db:
        (secret,) = db.execute("SELECT value FROM meta WHERE name = 'secret'").fetchone()
        (data,) = db.execute("SELECT data FROM vector_blocks ORDER BY block_pk").fetchone()
    term = TermHasher(secret, b"ann", TURNS)("kettl").to_bytes(8, "big", signed=True)
    for needle in (term, data[:16], data[-16:]):
        for offset in list(offsets_of(content, needle))[::5]:
            assert is_found(path, content, offset, 1 << offset % 8), (needle, offset)


def changed_for_good(path: Path, sample: Path) -> bool:
    try:
        return dump(path, CONTENT) != dump(sample, CONTENT)
    except (sqlite3.Error, UnicodeDecodeError):
        return True


def test_page_headers_can_be_damaged_without_a_foreign_error(path: Path, sample: Path) -> None:
    content = path.read_bytes()
    rng = random.Random(5)
    pages = range(0, len(content), 4096)
    for page in rng.choices(pages, k=60):
        offset = page + (100 if page == 0 else 0) + rng.randrange(12)
        if not is_found(path, content, offset, rng.choice([1, 2, 16, 128, 255])):
            assert not changed_for_good(path, sample), offset


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_any_byte_that_changes_what_is_stored_is_found(path: Path, sample: Path, place: float, mask: int) -> None:
    content = sample.read_bytes()
    offset = int(place * len(content))
    if not is_found(path, content, offset, mask):
        assert not changed_for_good(path, sample), offset


@pytest.mark.parametrize("keep", [0.5, 0.9])
def test_a_file_that_was_cut_is_found(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) // 4096 * 4096])
    assert is_found(path, path.read_bytes(), 200, 0)


def test_reading_a_damaged_text_is_a_store_error(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        db.execute(f"UPDATE turns SET text = x'ff' WHERE user_pk = {ANN}")
        db.execute(f"UPDATE turns SET attachments = CAST(x'ff' AS TEXT) WHERE user_pk <> {ANN}")
    for user in ("ann", "bo"):
        with pytest.raises(StoreCorruptError, match=r"memory\.db"):
            store.turns_by_doc(user, store.layout(user).docs.tolist())


def test_a_store_without_its_secret_is_refused(path: Path) -> None:
    with raw(path) as db:
        db.execute("DELETE FROM meta WHERE name = 'secret'")
    with pytest.raises(StoreCorruptError, match="secret") as caught:
        SqliteStore(path)
    assert caught.value.hint


def test_a_changed_word_is_never_given_out_as_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with Memory.open(path, embedder="none") as memory:
        memory.add({"role": "user", "content": "the code is 4411", "id": "m1"}, user_id="ann")
        (turn,) = memory.turns(user_id="ann")
    path.write_bytes(path.read_bytes().replace(b"the code is 4411", b"the code is 9411"))
    with Memory.open(path, embedder="none") as memory:
        for read in (
            lambda: memory.search("the code", user_id="ann"),
            lambda: memory.ask("what is the code?", user_id="ann"),
            lambda: list(memory.turns(user_id="ann")),
            lambda: list(memory.export(user_id="ann")),
            lambda: memory.get("m1", user_id="ann"),
        ):
            with pytest.raises(StoreCorruptError, match=turn.turn_id) as caught:
                read()
            assert "backread rescue" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ("UPDATE entries SET data = '{}'", "entries"),
        ("UPDATE entries SET kind = x'61'", "entries"),
        ("UPDATE links SET start = start + 1", "entries"),
        ("DELETE FROM links WHERE number = 0", "entries"),
        ("UPDATE strategy_states SET state = x'00'", "state"),
        ("UPDATE strategy_states SET version = version + 1", "state"),
        ("UPDATE vector_blocks SET data = zeroblob(length(data))", "vectors"),
        ("UPDATE vector_blocks SET data = substr(data, 2)", "vectors"),
        ("UPDATE vector_progress SET doc = doc + 1", "progress"),
        ("UPDATE embedders SET dimension = dimension + 1", "vectors"),
        ("UPDATE replies SET reply = '1'", "reply"),
        ("DELETE FROM reply_turns", "reply"),
        ("UPDATE sessions SET order_us = order_us + 1", "sessions"),
        ("UPDATE sessions SET session_id = CAST(session_id || 'a' AS BLOB)", "turns"),
        ("UPDATE turns SET said_offset = said_offset + 60", "sessions"),
        ("UPDATE turns SET attachments = 7 WHERE attachments IS NOT NULL", "turns"),
        ("UPDATE turns SET role = x'61'", "turns"),
        ("UPDATE postings SET doc = doc + 1000", "postings"),
    ],
)
def test_a_changed_row_is_not_read(path: Path, change: str, read: str) -> None:
    with raw(path) as db:
        db.execute(change)
    with closing(SqliteStore(path)) as store:
        reads: dict[str, Callable[[], object]] = {
            "entries": lambda: store.entries("ann", "lean"),
            "state": lambda: store.strategy_state("ann", "lean"),
            "vectors": lambda: store.vectors("ann", TURNS, "m"),
            "progress": lambda: store.progress("ann", TURNS, "m"),
            "reply": lambda: store.replies.get("k1"),
            "sessions": lambda: store.sessions("ann"),
            "turns": lambda: store.turns_by_doc("ann", store.layout("ann").docs.tolist()),
            "postings": lambda: store.postings("ann", TURNS, ["lamp", "kettl"]),
        }
        with pytest.raises(StoreCorruptError):
            reads[read]()


def test_an_index_that_lacks_a_turn_is_not_believed(path: Path) -> None:
    with raw(path) as db:
        db.execute("PRAGMA writable_schema = ON")
        sql = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'turns_layout'").fetchone()[0]
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'turns_layout'", (sql + " WHERE doc <> 3",))
    with raw(path) as db:
        db.execute("REINDEX turns_layout")
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'turns_layout'", (sql,))
    with closing(SqliteStore(path)) as store, pytest.raises(StoreCorruptError, match="differ in number"):
        store.layout("ann")
