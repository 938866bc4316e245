"""Saving the turns of a damaged file: everything that is not on the bad page, and nothing that was not said."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from store_samples import build, draft, raw

from backread.errors import InvalidInputError, NotFoundError, StoreCorruptError, StoreError
from backread.store.pages import Pages
from backread.store.rescue import RescueReport, rescue
from backread.store.sqlite import SqliteStore
from backread.types import Turn

PAGE = 4096
USERS = ("ann", "bo")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def turns_of(path: Path) -> dict[str, list[Turn]]:
    """Turns by user in history order."""
    with closing(SqliteStore(path)) as store:
        return {user: store.turns_by_doc(user, store.layout(user).docs.tolist()) for user in store.users()}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand turns of two users side by side, some on overflow pages; root pages of most tables are interior."""
    path = tmp_path_factory.mktemp("sample") / "memory.db"
    with closing(SqliteStore(path)) as store:
        for first in range(0, 500, 5):
            for user in USERS:
                items = [
                    draft(
                        f"{user} turn {number} " + ("long " * 2000 if number % 100 == 7 else "a few words more"),
                        f"s{number // 25}",
                        "assistant" if number % 2 else "user",
                        external_id=f"m{number}" if number % 3 else None,
                        said_at=NOON + timedelta(minutes=number) if number // 25 % 2 else None,
                        supersedes=f"m{number - 1}" if number % 60 == 5 else None,
                    )
                    for number in range(first, first + 5)
                ]
                assert all(result.turn_id for result in store.append(user, items))
    return path


def ids(turns: Mapping[str, list[Turn]]) -> set[str]:
    return {turn.turn_id for mine in turns.values() for turn in mine}


def readable_by_row(path: Path, docs: int, truth: Mapping[str, Turn]) -> set[str]:
    """Turns that SQLite itself can still read one by one, and that say what they said."""
    found = set()
    with closing(sqlite3.connect(path)) as db:
        for doc in range(1, docs + 1):
            try:
                row = db.execute("SELECT turn_id, text FROM turns WHERE doc = ?", (doc,)).fetchone()
            except sqlite3.Error:
                continue
            if row is not None and row[0] in truth and row[1] == truth[row[0]].text.encode():
                found.add(row[0])
    return found


def wiped(sample: Path, page: int, path: Path, rng: random.Random) -> None:
    content = bytearray(sample.read_bytes())
    content[page * PAGE : (page + 1) * PAGE] = rng.choice([bytes(PAGE), rng.randbytes(PAGE)])
    path.write_bytes(content)


def test_a_sound_store_is_saved_as_it_is(sample: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.db"
    report = rescue(sample, saved)
    assert report == RescueReport(saved, 1000, 2, 40, 1000, (), (), 0, ())
    assert saved.stat().st_mode & 0o777 == 0o600
    assert turns_of(saved) == turns_of(sample)
    with closing(SqliteStore(saved)) as store:
        assert store.verify().ok
        assert store.append("ann", [draft("the next one")])[0].new


@pytest.mark.parametrize("seed", range(5))
def test_every_turn_that_is_not_on_the_bad_page_is_saved(sample: Path, tmp_path: Path, seed: int) -> None:
    truth = turns_of(sample)
    by_id = {turn.turn_id: turn for mine in truth.values() for turn in mine}
    pages = sample.stat().st_size // PAGE
    rng = random.Random(seed)
    for page in [seed, rng.randrange(5, pages)]:  # the first ones are the schema and roots of tables
        damaged, saved = tmp_path / f"{page}.db", tmp_path / f"{page}.saved.db"
        wiped(sample, page, damaged, rng)
        report = rescue(damaged, saved)
        turns = turns_of(saved)
        lost = {turn.turn_id for turn in report.lost}
        assert (report.known, report.saved) == (1000, len(ids(turns))), page
        assert ids(turns) | lost == ids(truth), page
        assert not ids(turns) & lost
        assert readable_by_row(damaged, 1000, by_id) <= ids(turns), page
        for turn in (turn for mine in turns.values() for turn in mine):
            was = by_id[turn.turn_id]
            assert (turn.text, turn.said_at, turn.stored_at, turn.role) == (
                was.text,
                was.said_at,
                was.stored_at,
                was.role,
            )
        assert report.renamed == ()
        assert report.unproved == 0
        assert len(lost) < 60  # what fits on a page
        with closing(SqliteStore(saved)) as store:
            assert store.verify().ok


def test_a_page_of_turns_loses_those_on_it(sample: Path, tmp_path: Path) -> None:
    content = sample.read_bytes()
    wiped(sample, content.index(b"bo turn 321 ") // PAGE, tmp_path / "bad.db", random.Random(2))
    report = rescue(tmp_path / "bad.db", tmp_path / "saved.db")
    assert 2 <= len(report.lost) < 60
    assert report.saved == 1000 - len(report.lost)
    assert {turn.user_id for turn in report.lost} == {"ann", "bo"}


def test_the_root_of_the_turns_loses_none(sample: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(sample)) as db:
        root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'turns'").fetchone()[0]
    wiped(sample, root - 1, tmp_path / "bad.db", random.Random(1))
    report = rescue(tmp_path / "bad.db", tmp_path / "saved.db")
    assert (report.saved, report.lost) == (1000, ())
    assert turns_of(tmp_path / "saved.db") == turns_of(sample)


def test_a_changed_word_is_lost_and_named_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with closing(SqliteStore(path)) as store:
        turn_id = store.append("ann", [draft("the code is 4411"), draft("a lamp")])[0].turn_id
    path.write_bytes(path.read_bytes().replace(b"the code is 4411", b"the code is 9411"))
    report = rescue(path, tmp_path / "saved.db")
    assert [(turn.turn_id, turn.user_id) for turn in report.lost] == [(turn_id, "ann")]
    assert "not what was stored" in report.lost[0].reason
    assert [turn.text for turn in turns_of(tmp_path / "saved.db")["ann"]] == ["a lamp"]


def test_what_is_only_in_the_log_is_saved(tmp_path: Path) -> None:
    path, killed = tmp_path / "m.db", tmp_path / "killed.db"
    with closing(SqliteStore(path)) as store:
        store.append("ann", [draft("in the file")])
        store.append("ann", [draft("in the log")])
        log = path.with_name("m.db-wal").read_bytes()
        killed.write_bytes(path.read_bytes())
        killed.with_name("killed.db-wal").write_bytes(log + b"\1" * 500)  # and a write that was cut off
        before = killed.read_bytes()
        report = rescue(killed, tmp_path / "saved.db")
        assert report.saved == 2
        assert killed.read_bytes() == before
        assert killed.with_name("killed.db-wal").read_bytes() == log + b"\1" * 500


def test_lost_names_are_made_up_and_said(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    build(path)
    with raw(path) as db:
        (pk,) = db.execute("SELECT user_pk FROM users WHERE user_id = x'616e6e'").fetchone()
        db.execute("DELETE FROM users WHERE user_id = x'616e6e'")
    report = rescue(path, tmp_path / "saved.db")
    assert report.renamed == (f"lost-user-{pk}",)
    turns = turns_of(tmp_path / "saved.db")
    assert report.unproved == len(turns[f"lost-user-{pk}"]) == 6
    assert "The blue kettle is in the attic" in [turn.text for turn in turns[f"lost-user-{pk}"]]
    assert [turn.text for turn in turns["bo"]] == ["A kettle of fish", "Coins and stamps"]


def test_a_successor_of_a_lost_turn_stands_on_its_own(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with closing(SqliteStore(path)) as store:
        store.append("ann", [draft("the attic, 4411", external_id="m1")])
        store.append("ann", [draft("the cellar", external_id="m2", supersedes="m1")])
    path.write_bytes(path.read_bytes().replace(b"attic, 4411", b"attic, 9411"))
    report = rescue(path, tmp_path / "saved.db")
    (turn,) = turns_of(tmp_path / "saved.db")["ann"]
    assert (report.unlinked, turn.text, turn.supersedes) == ((turn.turn_id,), "the cellar", None)


def test_a_wrong_page_size_in_the_header_does_no_harm(sample: Path, tmp_path: Path) -> None:
    for size in (b"\x20\x00", b"\x00\x03"):
        content = bytearray(sample.read_bytes())
        content[16:18] = size
        (tmp_path / "bad.db").write_bytes(content)
        assert rescue(tmp_path / "bad.db", tmp_path / "saved.db", overwrite=True).saved == 1000


def test_pages_with_any_bytes_raise_nothing(sample: Path, tmp_path: Path) -> None:
    rng = random.Random(8)
    content = bytearray(sample.read_bytes()[: 40 * PAGE])
    for _ in range(400):
        content[rng.randrange(len(content))] = rng.randrange(256)
    path = tmp_path / "bad.db"
    path.write_bytes(content[:-1000])
    with closing(Pages(path)) as pages:
        assert sum(1 for _ in pages.records()) > 100


def test_what_is_no_store_and_what_is_taken_is_refused(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database" * 1000)
    with pytest.raises(StoreCorruptError, match="not one turn"):
        rescue(tmp_path / "text", tmp_path / "saved.db")
    with pytest.raises(NotFoundError):
        rescue(tmp_path / "absent.db", tmp_path / "saved.db")
    with pytest.raises(InvalidInputError, match="there already"):
        rescue(sample, tmp_path / "text")
    with pytest.raises(InvalidInputError, match="the store itself"):
        rescue(sample, sample, overwrite=True)
    with pytest.raises(StoreError):
        rescue(sample, tmp_path / "no" / "folder.db")
    assert [file.name for file in tmp_path.iterdir()] == ["text"]
