"""Append-only schema changes of the SQLite store; each runs in one transaction with the row that records it.

A migration is never edited once released: its hash is stored with it, and `verify` compares. What the tables mean and
which rules hold between them is in `schema.md` beside this file.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time
from dataclasses import dataclass

from backread.errors import SchemaTooNewError, StoreCorruptError

__all__ = [
    "APPLICATION_ID",
    "MIGRATIONS",
    "Migration",
    "meta_sum",
    "migrate",
    "migration_sum",
    "refuse_foreign",
    "refuse_newer",
]

APPLICATION_ID = 0x42524431  # "BRD1" in the file header, so that another program's database is refused


@dataclass(frozen=True, slots=True)
class Migration:
    """One change: statements that run in order."""

    number: int
    name: str
    statements: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Hash of the statements as stored beside the record of the migration."""
        return hashlib.sha256("\n;\n".join(self.statements).encode()).hexdigest()


# Free text is BLOB (UTF-8 with surrogatepass): a TEXT column can't hold a lone surrogate, and SQLite's own functions
# stop at NUL. Wide columns come last so that reading the narrow ones doesn't touch overflow pages.
_SPINE = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL, sum BLOB NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE users(
        user_pk INTEGER PRIMARY KEY AUTOINCREMENT, user_id BLOB NOT NULL UNIQUE,
        version INTEGER NOT NULL, appended INTEGER NOT NULL) STRICT""",
    """CREATE TABLE sessions(
        session_pk INTEGER PRIMARY KEY AUTOINCREMENT, user_pk INTEGER NOT NULL, session_id BLOB NOT NULL,
        order_us INTEGER NOT NULL, dated INTEGER NOT NULL, last_sort_us INTEGER NOT NULL,
        UNIQUE(user_pk, session_id)) STRICT""",
    """CREATE TABLE turns(
        doc INTEGER PRIMARY KEY AUTOINCREMENT, user_pk INTEGER NOT NULL, session_pk INTEGER NOT NULL,
        sort_us INTEGER NOT NULL, said_us INTEGER, said_offset INTEGER, zone_known INTEGER NOT NULL,
        stored_us INTEGER NOT NULL,
        length INTEGER NOT NULL, cues INTEGER NOT NULL, supersedes INTEGER, turn_id TEXT NOT NULL, sum BLOB NOT NULL,
        external_id BLOB, role BLOB NOT NULL, speaker BLOB, said_text BLOB, caption BLOB, attachments TEXT,
        text BLOB NOT NULL, UNIQUE(user_pk, turn_id)) STRICT""",
    "CREATE UNIQUE INDEX turns_external ON turns(user_pk, external_id) WHERE external_id IS NOT NULL",
    "CREATE INDEX turns_layout ON turns(user_pk, session_pk, sort_us, doc, said_us, length, cues, role, speaker)",
    "CREATE INDEX turns_supersedes ON turns(user_pk, supersedes) WHERE supersedes IS NOT NULL",
    """CREATE TABLE corpora(
        corpus_pk INTEGER PRIMARY KEY AUTOINCREMENT, user_pk INTEGER NOT NULL, name BLOB NOT NULL,
        UNIQUE(user_pk, name)) STRICT""",
    """CREATE TABLE postings(
        corpus_pk INTEGER NOT NULL, term INTEGER NOT NULL, doc INTEGER NOT NULL, tf INTEGER NOT NULL,
        PRIMARY KEY(corpus_pk, term, doc)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE embedders(
        embedder_pk INTEGER PRIMARY KEY AUTOINCREMENT, fingerprint BLOB NOT NULL UNIQUE, dimension INTEGER NOT NULL,
        active INTEGER NOT NULL, sum BLOB NOT NULL) STRICT""",
    """CREATE TABLE vector_blocks(
        block_pk INTEGER PRIMARY KEY AUTOINCREMENT, corpus_pk INTEGER NOT NULL, embedder_pk INTEGER NOT NULL,
        capacity INTEGER NOT NULL, docs BLOB NOT NULL, sums BLOB NOT NULL, data BLOB NOT NULL) STRICT""",
    "CREATE INDEX vector_blocks_corpus ON vector_blocks(corpus_pk, embedder_pk)",
    """CREATE TABLE vector_progress(
        corpus_pk INTEGER NOT NULL, embedder_pk INTEGER NOT NULL, doc INTEGER NOT NULL, part INTEGER NOT NULL,
        sum BLOB NOT NULL,
        PRIMARY KEY(corpus_pk, embedder_pk)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE entries(
        doc INTEGER PRIMARY KEY AUTOINCREMENT, user_pk INTEGER NOT NULL, corpus_pk INTEGER NOT NULL,
        said_us INTEGER, said_offset INTEGER, version INTEGER NOT NULL,
        length INTEGER NOT NULL, strategy BLOB NOT NULL, kind BLOB NOT NULL, entry_id BLOB NOT NULL,
        model BLOB, prompt_hash BLOB, sum BLOB NOT NULL, data TEXT NOT NULL, index_text BLOB NOT NULL,
        UNIQUE(user_pk, strategy, entry_id)) STRICT""",
    "CREATE INDEX entries_corpus ON entries(corpus_pk, said_us, doc, length)",
    """CREATE TABLE links(
        entry_doc INTEGER NOT NULL, number INTEGER NOT NULL, turn_doc INTEGER NOT NULL, start INTEGER NOT NULL,
        end INTEGER, sum BLOB NOT NULL, PRIMARY KEY(entry_doc, number)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX links_turn ON links(turn_doc)",
    """CREATE TABLE strategy_states(
        user_pk INTEGER NOT NULL, strategy BLOB NOT NULL, version INTEGER NOT NULL, state BLOB, sum BLOB NOT NULL,
        PRIMARY KEY(user_pk, strategy)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE rebuilds(
        user_pk INTEGER NOT NULL, strategy BLOB NOT NULL, turn_doc INTEGER NOT NULL,
        PRIMARY KEY(user_pk, strategy, turn_doc)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE replies(
        reply_pk INTEGER PRIMARY KEY AUTOINCREMENT, user_pk INTEGER NOT NULL, any_turn INTEGER NOT NULL,
        created_us INTEGER NOT NULL, key BLOB NOT NULL UNIQUE, sum BLOB NOT NULL, reply TEXT NOT NULL) STRICT""",
    "CREATE INDEX replies_user ON replies(user_pk, any_turn)",
    """CREATE TABLE reply_turns(
        reply_pk INTEGER NOT NULL, turn_doc INTEGER NOT NULL,
        PRIMARY KEY(reply_pk, turn_doc)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX reply_turns_turn ON reply_turns(turn_doc)",
)

MIGRATIONS: tuple[Migration, ...] = (Migration(1, "spine", _SPINE),)


def migration_sum(number: int, name: str, sha256: str, applied_us: int) -> bytes:
    """Checksum of a row of the migrations table."""
    return hashlib.blake2b(f"{number}\0{name}\0{sha256}\0{applied_us}".encode(), digest_size=8).digest()


def meta_sum(name: str, value: bytes) -> bytes:
    """Checksum of a row of the meta table."""
    return hashlib.blake2b(name.encode() + b"\0" + value, digest_size=8).digest()


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date; the caller holds no transaction.

    Raises:
        SchemaTooNewError: the file has a migration this version doesn't know. Nothing is changed.
    """
    if _applied(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migrations("
            "number INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_us INTEGER NOT NULL,"
            " sum BLOB NOT NULL) STRICT"
        )
        for migration in MIGRATIONS[_applied(connection) :]:
            for statement in migration.statements:
                connection.execute(statement)
            now = time.time_ns() // 1000
            row = (migration.number, migration.name, migration.sha256, now)
            connection.execute("INSERT INTO migrations VALUES (?, ?, ?, ?, ?)", (*row, migration_sum(*row)))
        if not connection.execute("SELECT 1 FROM meta WHERE name = 'secret'").fetchone():
            secret = secrets.token_bytes(16)
            connection.execute("INSERT INTO meta VALUES ('secret', ?, ?)", (secret, meta_sum("secret", secret)))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def refuse_foreign(connection: sqlite3.Connection) -> None:
    """Read the file's header and nothing else.

    Raises:
        StoreCorruptError: the file is a database of another program.
    """
    connection.execute("BEGIN")  # both reads of one moment: another process may be making the store
    try:
        application_id = connection.execute("PRAGMA application_id").fetchone()[0]
        objects = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if application_id != APPLICATION_ID and objects:
        raise StoreCorruptError(
            "the file is a SQLite database, but not a backread store", hint="choose another path for the store"
        )


def _applied(connection: sqlite3.Connection) -> int:
    """How many migrations the file has had; they are numbered from 1 without gaps."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone():
        return 0
    return refuse_newer(connection)


def refuse_newer(connection: sqlite3.Connection) -> int:
    """How many migrations a store has had.

    Raises:
        SchemaTooNewError: one of them isn't known to this version.
    """
    applied: int = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()[0]
    if applied > len(MIGRATIONS):
        raise SchemaTooNewError(
            f"the store has schema {applied}, this version of backread knows {len(MIGRATIONS)}",
            hint="update backread: pip install --upgrade backread",
        )
    return applied
