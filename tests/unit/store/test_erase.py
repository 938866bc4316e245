"""What is deleted is nowhere in the files any more, byte for byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from store_samples import NOON, draft, entry

from backread.store.base import TURNS, Progress
from backread.store.sqlite import SqliteStore

SECRETS = {
    "text": "zebra-7731 is the code of the safe",
    "speaker": "Quillon Vex",
    "external id": "vex@example.org/41",
    "caption": "a photo of an opened safe",
    "attachment": "https://example.org/safe.png",
    "said text": "last Whitsun",
    "session": "session-of-quillon",
    "entry text": "Quillon keeps papers in a wall",
    "entry data": "wall-behind-the-mirror",
    "entry id": "entry-quillon-1",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        yield store


def vector() -> bytes:
    return np.linspace(-0.7, 0.9, 384, dtype="<f4").tobytes()


def fill(store: SqliteStore, user: str) -> str:
    """A history around one turn that holds all the secrets; its turn id."""
    store.append(user, [draft(f"before {n}", f"s{n % 3}", said_at=NOON, external_id=f"a{n}") for n in range(40)])
    secret = draft(
        SECRETS["text"],
        SECRETS["session"],
        speaker=SECRETS["speaker"],
        external_id=SECRETS["external id"],
        caption=SECRETS["caption"],
        attachments=({"type": "image", "url": SECRETS["attachment"]},),
        said_at=NOON - timedelta(days=3),
        said_text=SECRETS["said text"],
    )
    (item,) = store.append(user, [secret])
    turn_id = item.turn_id or ""
    store.append(user, [draft(f"after {n}", f"s{n % 3}", said_at=NOON, external_id=f"b{n}") for n in range(40)])
    docs = np.sort(store.layout(user).docs)
    matrix = np.ones((len(docs), 384), np.float32)
    matrix[40] = np.frombuffer(vector(), "<f4")
    assert store.put_vectors(user, TURNS, "m", Progress(0, 0), docs, matrix, Progress(int(docs[-1]) + 1, 0))
    note = entry(SECRETS["entry id"], SECRETS["entry text"], turn_id)
    note.data["place"] = SECRETS["entry data"]  # type: ignore[index]
    others = [entry(f"e{n}", f"a note on {n}", turn_id) for n in range(20)]
    store.commit(user, "lean", 0, [note, *others], state=b"41")
    return turn_id


def found(folder: Path) -> set[str]:
    """Which secrets are in any file of the folder, whole or in part."""
    content = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    needles = {name: [value.encode(), value.encode()[:12], value.encode()[-12:]] for name, value in SECRETS.items()}
    # Pages hold at most 4096 bytes, so a vector of 384 floats may be split anywhere: look for parts of it.
    needles["vector"] = [vector()[start : start + 12] for start in range(0, 1536, 12)]
    needles["vector"] = [needle for needle in needles["vector"] if needle != bytes(12)]
    return {name for name, parts in needles.items() if any(part in content for part in parts)}


EVERYTHING = {*SECRETS, "vector"}


@pytest.mark.parametrize("what", ["turn", "external id", "session", "user"])
def test_no_byte_of_what_was_deleted_is_left(store: SqliteStore, tmp_path: Path, what: str) -> None:
    turn_id = fill(store, "ann")
    store.append("bo", [draft("stays")])
    assert found(tmp_path) == EVERYTHING
    if what == "user":
        receipt = store.delete("ann")
    elif what == "session":
        receipt = store.delete("ann", session_id=SECRETS["session"])
    else:
        receipt = store.delete("ann", turn_ids=[turn_id if what == "turn" else SECRETS["external id"]])
    assert (receipt.turns, receipt.vectors) == ((81, 81) if what == "user" else (1, 1))
    assert receipt.entries == 21
    assert found(tmp_path) == set()
    assert (tmp_path / "memory.db-wal").stat().st_size == 0
    assert store.verify().ok
    store.close()
    assert found(tmp_path) == set()
    assert [path.name for path in tmp_path.iterdir()] == ["memory.db"]


def test_the_id_of_a_deleted_user_is_gone(store: SqliteStore, tmp_path: Path) -> None:
    for n in range(50):
        store.append(f"user-{n:04}@example.org", [draft(f"turn {n}")])
    for n in range(0, 50, 5):
        store.delete(f"user-{n:04}@example.org")
    content = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert [n for n in range(50) if f"user-{n:04}@".encode() in content] == [n for n in range(50) if n % 5]


def test_copies_that_sqlite_made_while_it_moved_rows_are_gone_too(store: SqliteStore, tmp_path: Path) -> None:
    """Splitting and merging pages copies cells; `secure_delete` overwrites only the last place of each."""
    rng = random.Random(3)
    live: dict[str, str] = {}
    gone: set[str] = set()
    for _ in range(3):
        drafts = []
        for _ in range(1000):
            mark = f"{rng.getrandbits(64):016x}"
            said_at = NOON + timedelta(seconds=rng.randrange(10**7)) if rng.random() < 0.7 else None
            padding = " pad" * rng.randrange(60)
            session_id = f"s{rng.randrange(50)}"
            text = f"TX{mark}{padding}"
            drafts.append(draft(text, session_id, speaker=f"SP{mark}", external_id=f"EX{mark}", said_at=said_at))
        for item, given in zip(store.append("ann", drafts), drafts, strict=True):
            live[item.turn_id or ""] = given.text[2:18]
        for _ in range(10):
            chosen = rng.sample(sorted(live), 50)
            store.delete("ann", turn_ids=chosen)
            gone |= {live.pop(turn_id) for turn_id in chosen}
    content = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert all(content.count(b"TX" + mark.encode()) == 1 for mark in live.values())
    assert {mark for mark in gone if mark.encode() in content} == set()
