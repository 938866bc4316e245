from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from store_samples import build, raw

from backread.store.migrations import migrate
from backread.store.sqlite import SqliteStore
from backread.types import VerifyReport

ONE_DOC = "doc = (SELECT min(doc) FROM {table} WHERE {column} IS NOT NULL)"
ANN = "(SELECT user_pk FROM users WHERE user_id = x'616e6e')"
ANN_TURNS = f"corpus_pk = (SELECT corpus_pk FROM corpora WHERE user_pk = {ANN} AND name = x'7475726e')"
M = "embedder_pk = (SELECT embedder_pk FROM embedders WHERE fingerprint = x'6d')"
ONE_POSTING = f"(corpus_pk, term, doc) = (SELECT corpus_pk, term, doc FROM postings WHERE {ANN_TURNS} LIMIT 1)"
USED_BLOCK = f"block_pk = (SELECT min(block_pk) FROM vector_blocks WHERE {ANN_TURNS} AND {M})"
FIRST_LINK = "entry_doc = (SELECT min(entry_doc) FROM links) AND number = 1"
LEAN = "strategy = x'6c65616e'"

ROWS = {
    "meta": "name = 'secret'",
    "migrations": "number = 1",
    "users": "user_id = x'616e6e'",
    "sessions": "session_pk = (SELECT session_pk FROM turns WHERE external_id IS NOT NULL)",
    "turns": ONE_DOC,
    "corpora": ANN_TURNS,
    "postings": ONE_POSTING,
    "embedders": M,
    "vector_blocks": USED_BLOCK,
    "vector_progress": f"{ANN_TURNS} AND {M}",
    "entries": ONE_DOC,
    "links": FIRST_LINK,
    "strategy_states": LEAN,
    "rebuilds": LEAN,
    "replies": "key = x'6b31'",
    "reply_turns": "turn_doc = (SELECT min(turn_doc) FROM reply_turns)",
}
"""The row of each table that is changed."""

KINDS = {
    "meta": "meta",
    "migrations": "migration",
    "turns": "turn",
    "postings": "posting",
    "vector_blocks": "vector",
    "vector_progress": "progress",
    "entries": "entry",
    "links": "link",
    "strategy_states": "state",
    "rebuilds": "rebuild",
    "replies": "reply",
    "reply_turns": "reply",
    # A row that others refer to is found by those others, whose checksums cover it.
    "users.user_pk": "turn",
    "users.user_id": "turn",
    "users.appended": "user",
    "sessions.session_pk": "turn",
    "sessions.user_pk": "turn",
    "sessions.session_id": "turn",
    "sessions": "session",
    "corpora.name": "corpus",
    "corpora": "posting",
    "turns.doc": "posting",
    "embedders.active": "embedder",
    "embedders.sum": "embedder",
    "embedders": "vector",
}
"""The kind of fault by column, else by table."""

TO = {
    "turns.doc": "doc + 1000",
    "users.user_pk": "user_pk + 1000",
    "users.appended": "appended - 1",
    "sessions.session_pk": "session_pk + 1000",
    "corpora.corpus_pk": "corpus_pk + 1000",
    "embedders.embedder_pk": "embedder_pk + 1000",
    "postings.doc": "doc + 1000",
    "vector_progress.embedder_pk": "embedder_pk + 1000",
    "entries.doc": "doc + 1000",
    "rebuilds.turn_doc": "1000",
    "replies.reply_pk": "reply_pk + 1000",
    "reply_turns.turn_doc": "turn_doc + 1000",
    "migrations.number": "number + 1",
}
"""What a column is set to where one more would meet another row or is what a healthy store may hold."""

WITHOUT_MEANING = {
    "users.version": "only has to differ after a change",
    "vector_blocks.block_pk": "order of the blocks, which nothing depends on",
}


def columns() -> list[str]:
    """Every column of every table, as "table.column"."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db)
        tables = db.execute(r"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        return [
            f"{table}.{column[1]}"
            for (table,) in tables.fetchall()
            for column in db.execute(f"PRAGMA table_info({table})")
        ]


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


def kinds(report: VerifyReport) -> set[str]:
    return {fault.where for fault in report.faults}


def named(report: VerifyReport, kind: str) -> str:
    """What the faults of a kind say, in one string."""
    return "\n".join(f"{fault.what}: {fault.detail}" for fault in report.faults if fault.where == kind)


def test_the_sample_is_sound_and_has_every_kind_of_row(store: SqliteStore, path: Path) -> None:
    report = store.verify()
    assert report.faults == ()
    assert report.checked == {
        "turns": 8, "sessions": 5, "entries": 3, "links": 4, "postings": report.checked["postings"], "vectors": 14,
        "replies": 2,
    }  # fmt: skip
    with raw(path) as db:
        for table in ROWS:
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0], table


@pytest.mark.parametrize("column", [column for column in columns() if column not in WITHOUT_MEANING])
def test_a_changed_column_is_found(store: SqliteStore, path: Path, column: str) -> None:
    table, _, name = column.partition(".")
    kind = KINDS.get(column) or KINDS[table]
    where = ROWS[table].format(table=table, column=name)
    with raw(path) as db:
        changed = db.execute(f"UPDATE {table} SET {name} = {TO.get(column, f'flip({name})')} WHERE {where}").rowcount
        assert changed == 1
    report = store.verify()
    assert not report.ok
    assert kind in kinds(report), report.faults


@pytest.mark.parametrize(
    "column", ["said_us", "said_offset", "supersedes", "external_id", "speaker", "said_text", "caption", "attachments"]
)
def test_a_lost_value_of_a_turn_is_found_and_the_turn_named(store: SqliteStore, path: Path, column: str) -> None:
    with raw(path) as db:
        (turn_id,) = db.execute(f"SELECT turn_id FROM turns WHERE {column} IS NOT NULL ORDER BY doc").fetchone()
        db.execute(f"UPDATE turns SET {column} = NULL WHERE turn_id = ?", (turn_id,))
    assert f"{turn_id} of user 'ann': the turn does not match its checksum" in named(store.verify(), "turn")


@pytest.mark.parametrize(
    "column", ["said_us", "external_id", "role", "speaker", "said_text", "caption", "attachments", "text", "stored_us"]
)
def test_a_changed_turn_is_named(store: SqliteStore, path: Path, column: str) -> None:
    with raw(path) as db:
        (turn_id,) = db.execute(f"SELECT turn_id FROM turns WHERE {column} IS NOT NULL ORDER BY doc DESC").fetchone()
        db.execute(f"UPDATE turns SET {column} = flip({column}) WHERE turn_id = ?", (turn_id,))
    assert f"{turn_id} of user" in named(store.verify(), "turn")


def test_text_that_is_not_utf8_any_more_is_named(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        turn_id, other = (row[0] for row in db.execute("SELECT turn_id FROM turns ORDER BY doc LIMIT 2"))
        db.execute("UPDATE turns SET text = x'c3' WHERE turn_id = ?", (turn_id,))
        db.execute("UPDATE turns SET attachments = CAST(x'c3' AS TEXT) WHERE turn_id = ?", (other,))
        db.execute("UPDATE entries SET index_text = x'c3', entry_id = x'c3' WHERE entry_id = x'6531'")
    report = store.verify()
    assert f"{turn_id} of user 'bo': the text is not UTF-8" in named(report, "turn")
    assert f"{other} of user 'bo': the turn does not match its checksum" in named(report, "turn")
    assert "lean/b'\\xc3' of user 'ann': the text is not UTF-8" in named(report, "entry")
    assert "of turn" not in named(report, "file")


def test_ids_that_are_not_utf8_any_more_are_named(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        db.execute("UPDATE users SET user_id = x'ff' WHERE user_id = x'626f'")
        db.execute("UPDATE sessions SET session_id = x'fe' WHERE session_id = x'7333'")
        db.execute("UPDATE corpora SET name = x'fd' WHERE name = x'6c65616e2f6576656e74'")
    report = store.verify()
    assert "of user \"b'\\\\xff'\"" in named(report, "turn")
    assert {"turn", "entry", "posting"} <= kinds(report)


# --- rows that are gone or too many


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("meta", "meta"),
        ("migrations", "migration"),
        ("users", "turn"),
        ("sessions", "turn"),
        ("turns", "posting"),
        ("corpora", "corpus"),
        ("postings", "posting"),
        ("embedders", "vector"),
        ("vector_blocks", "progress"),
        ("vector_progress", "progress"),
        ("entries", "link"),
        ("links", "entry"),
        ("strategy_states", "rebuild"),
        ("replies", "reply"),
        ("reply_turns", "reply"),
    ],
)
def test_a_missing_row_is_found(store: SqliteStore, path: Path, table: str, kind: str) -> None:
    with raw(path) as db:
        assert db.execute(f"DELETE FROM {table} WHERE {ROWS[table].format(table=table, column='doc')}").rowcount == 1
    assert kind in kinds(store.verify())


def test_a_missing_and_an_extra_posting_are_named_by_term_and_turn(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        corpus, term, doc, tf = db.execute(f"SELECT * FROM postings WHERE {ONE_POSTING}").fetchone()
        db.execute("UPDATE postings SET term = 77 WHERE corpus_pk = ? AND term = ? AND doc = ?", (corpus, term, doc))
    told = named(store.verify(), "posting")
    assert f"term {term & (2**64 - 1):016x} of turn {doc} of user 'ann': is missing" in told
    assert f"term {77:016x} of turn {doc} of user 'ann': is not what the text says" in told
    with raw(path) as db:
        db.execute("INSERT INTO postings VALUES (?, ?, ?, ?)", (corpus, term, doc, tf))
    assert "missing" not in named(store.verify(), "posting")


def test_many_wrong_postings_are_counted_not_listed(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        total = db.execute(f"UPDATE postings SET tf = tf + 1 WHERE {ANN_TURNS}").rowcount
    faults = [fault for fault in store.verify().faults if fault.where == "posting"]
    assert len(faults) == 42
    assert {fault.detail for fault in faults if fault.what == "user 'ann'"} == {f"{total - 20} more of the same kind"}


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (f"INSERT INTO sessions VALUES (900, {ANN}, x'00', 1, 0, 1)", "session"),
        ("INSERT INTO sessions VALUES (900, 900, x'00', 1, 0, 1)", "session"),
        ("INSERT INTO corpora VALUES (900, 900, x'00')", "corpus"),
        ("INSERT INTO postings VALUES (900, 1, 1, 1)", "posting"),
        ("INSERT INTO links VALUES (900, 0, 1, 0, NULL, x'00')", "link"),
        ("INSERT INTO strategy_states VALUES (900, x'00', 1, NULL, x'00')", "state"),
        ("INSERT INTO rebuilds VALUES (900, x'00', 1)", "rebuild"),
        ("INSERT INTO vector_progress VALUES (900, 1, 1, 0, x'00')", "progress"),
        ("INSERT INTO vector_blocks VALUES (900, 900, 1, 0, x'', x'', x'')", "vector"),
        ("INSERT INTO embedders VALUES (900, x'00', 4, 0, x'00')", "embedder"),
        ("INSERT INTO replies VALUES (900, 900, 1, 1, x'00', x'00', '')", "reply"),
        ("INSERT INTO reply_turns VALUES (900, 1)", "reply"),
        ("INSERT INTO migrations VALUES (900, 'later', 'x', 1, x'00')", "migration"),
        ("INSERT INTO meta VALUES ('more', x'00', x'00')", "meta"),
    ],
)
def test_a_row_that_belongs_to_nothing_is_found(store: SqliteStore, path: Path, sql: str, kind: str) -> None:
    with raw(path) as db:
        db.execute(sql)
    assert kinds(store.verify()) == {kind}


def test_an_entry_of_a_version_its_strategy_never_reached_is_found(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        db.execute("DELETE FROM strategy_states")
        db.execute("DELETE FROM rebuilds")
    assert "lean/e1 of user 'ann': is of a later version" in named(store.verify(), "entry")


def test_a_link_or_a_replacement_without_its_turn_is_named(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        (newer,) = db.execute("SELECT turn_id FROM turns WHERE supersedes IS NOT NULL").fetchone()
        db.execute("DELETE FROM turns WHERE external_id = x'6d2d31'")
    report = store.verify()
    assert f"{newer} of user 'ann': supersedes a turn that does not exist" in named(report, "turn")
    assert "0 of lean/e1 of user 'ann': names a turn that is not one of this user's" in named(report, "link")


def test_a_moved_session_is_named(store: SqliteStore, path: Path) -> None:
    for column in ("order_us", "dated", "last_sort_us"):
        with raw(path) as db:
            db.execute(f"UPDATE sessions SET {column} = {column} + 1 WHERE session_id = x'7333'")
        assert "'s3' of user 'ann': its place" in named(store.verify(), "session"), column
        with raw(path) as db:
            db.execute(f"UPDATE sessions SET {column} = {column} - 1 WHERE session_id = x'7333'")
    assert store.verify().ok


# --- tables, indexes, vectors


@pytest.mark.parametrize(
    "name", ["turns_external", "turns_layout", "turns_supersedes", "links_turn", "entries_corpus", "replies_user"]
)
def test_a_dropped_index_is_named(store: SqliteStore, path: Path, name: str) -> None:
    with raw(path) as db:
        db.execute(f"DROP INDEX {name}")
    assert name in named(store.verify(), "schema")


def test_statistics_that_sqlite_keeps_for_itself_are_no_fault(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        db.execute("ANALYZE")
    assert store.verify().ok


@pytest.mark.parametrize("column", ["docs", "sums", "data"])
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_byte_of_a_used_or_a_free_vector_row_is_found(
    store: SqliteStore, path: Path, column: str, place: str
) -> None:
    """The newest block has free rows at its end."""
    with raw(path) as db:
        block_pk, value, capacity, docs = db.execute(
            f"SELECT block_pk, {column}, capacity, docs FROM vector_blocks WHERE {ANN_TURNS} AND {M}"
            " ORDER BY block_pk DESC"
        ).fetchone()
        assert docs.endswith(bytes(8))
        at = 0 if place == "first" else len(value) - 1
        changed = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
        db.execute(f"UPDATE vector_blocks SET {column} = ? WHERE block_pk = ?", (changed, block_pk))
    row = 0 if place == "first" else capacity - 1
    assert f"row {row} of block {block_pk} of user 'ann'" in named(store.verify(), "vector")


@pytest.mark.parametrize("column", ["docs", "sums", "data"])
def test_a_vector_block_that_is_cut_is_named(store: SqliteStore, path: Path, column: str) -> None:
    with raw(path) as db:
        (block_pk,) = db.execute(f"SELECT block_pk FROM vector_blocks WHERE {USED_BLOCK}").fetchone()
        db.execute(
            f"UPDATE vector_blocks SET {column} = substr({column}, 1, length({column}) - 1) WHERE block_pk = {block_pk}"
        )
    assert f"block {block_pk} of user 'ann': its size" in named(store.verify(), "vector")


def test_a_block_that_went_to_another_embedder_or_user_is_found(store: SqliteStore, path: Path) -> None:
    for change in ("embedder_pk = 3 - embedder_pk", "corpus_pk = (SELECT min(corpus_pk) FROM corpora)"):
        with raw(path) as db:
            before = db.execute(f"SELECT * FROM vector_blocks WHERE {USED_BLOCK}").fetchone()
            db.execute(f"UPDATE vector_blocks SET {change} WHERE {USED_BLOCK}")
        assert "does not match its checksum" in named(store.verify(), "vector"), change
        with raw(path) as db:
            db.execute("REPLACE INTO vector_blocks VALUES (?, ?, ?, ?, ?, ?, ?)", before)
    assert store.verify().ok


@pytest.mark.parametrize(
    ("doc", "part", "detail"),
    [
        ("doc - 1", "part", "has 1 vectors, 0 characters are done"),
        ("doc - 2", "part", "units with vectors beyond it"),
        ("doc + 1", "part", "a place that was never reached"),
        ("-1", "part", "a place that was never reached"),
        ("doc", "-1", "a place that was never reached"),
    ],
)
def test_progress_that_is_wrong_is_found(store: SqliteStore, path: Path, doc: str, part: str, detail: str) -> None:
    with raw(path) as db:
        db.execute(f"UPDATE vector_progress SET doc = {doc}, part = {part} WHERE {ANN_TURNS} AND {M}")
    assert detail in named(store.verify(), "progress")


def test_progress_within_a_turn_is_covered_by_its_checksum(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        db.execute(f"UPDATE vector_progress SET part = 1 WHERE {ANN_TURNS} AND NOT {M}")
    assert "turn of user 'ann': the row does not match its checksum" in named(store.verify(), "progress")


# --- one user, several faults


def test_verify_of_one_user_tells_of_that_user_only(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        db.execute(f"UPDATE turns SET text = flip(text) WHERE user_pk = {ANN}")
    assert store.verify("bo").ok
    assert store.verify("bo").checked["turns"] == 2
    assert store.verify("nobody").checked == {}
    assert len(named(store.verify("ann"), "turn").splitlines()) == 6


def test_every_fault_is_named_not_only_the_first(store: SqliteStore, path: Path) -> None:
    with raw(path) as db:
        db.execute("UPDATE turns SET stored_us = stored_us + 1 WHERE doc % 2 = 0")
        db.execute("UPDATE links SET start = start + 1")
        db.execute("UPDATE meta SET value = flip(value) WHERE name = 'analyzer'")
    report = store.verify()
    assert len(named(report, "link").splitlines()) == 4
    assert {"turn", "link", "meta"} <= kinds(report)
