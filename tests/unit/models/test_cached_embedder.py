"""Vectors kept by their text: each different text is embedded once, whoever asks."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from memory_samples import TALK, Counting, opened
from numpy.typing import NDArray

from backread.errors import ModelOutputError, ModelRequestError, StoreCorruptError, StoreError
from backread.models.cached_embedder import CachedEmbedder
from backread.testing.fakes import FailingEmbedder, HashEmbedder


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "vectors.db"


@pytest.fixture(name="inner")
def _inner() -> Counting:
    return Counting()


@pytest.fixture(name="cached")
def _cached(inner: Counting, path: Path) -> Iterator[CachedEmbedder]:
    with CachedEmbedder(inner, path) as embedder:
        yield embedder


def test_each_different_text_is_embedded_once(cached: CachedEmbedder, inner: Counting) -> None:
    first = cached.embed(["a kettle", "a lamp", "a kettle"])
    assert inner.texts == ["a kettle", "a lamp"]
    again = cached.embed(["a lamp", "a ferry", "a kettle", "a ferry"])
    assert inner.texts == ["a kettle", "a lamp", "a ferry"]
    np.testing.assert_array_equal(again[[2, 0, 2]], first)
    np.testing.assert_array_equal(again, HashEmbedder().embed(["a lamp", "a ferry", "a kettle", "a ferry"]))


def test_vectors_outlast_the_process_to_the_bit(path: Path) -> None:
    class Fine(HashEmbedder):
        def embed(self, texts: Sequence[str], *, kind: Any = "document") -> NDArray[np.float32]:
            vectors = np.random.default_rng(len(texts)).standard_normal((len(texts), 64)).astype(np.float32)
            unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            return unit

    with CachedEmbedder(Fine(), path) as first:
        made = first.embed(["one", "two", "three"])
    with CachedEmbedder(FailingEmbedder(Fine()), path) as second:
        np.testing.assert_array_equal(second.embed(["three", "one"]), made[[2, 0]])


def test_nothing_is_asked_for_what_is_there(path: Path) -> None:
    with CachedEmbedder(HashEmbedder(), path) as first:
        first.embed(["one"])
    with CachedEmbedder(FailingEmbedder(HashEmbedder()), path) as second:
        assert second.embed(["one", "one"]).shape == (2, 64)
        assert second.embed([]).shape == (0, 64)
        with pytest.raises(ModelRequestError):
            second.embed(["one", "two"])


def test_what_is_given_may_be_changed(cached: CachedEmbedder) -> None:
    given = cached.embed(["one"])
    given[:] = 0
    assert cached.embed(["one"]).any()


def test_kinds_and_fingerprints_are_kept_apart(path: Path) -> None:
    class Prefixed(Counting):
        def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[Any]:
            return super().embed([f"{kind} {text}" for text in texts], kind=kind)

    inner, other = Prefixed(), Prefixed(seed=1)
    with CachedEmbedder(inner, path) as first, CachedEmbedder(other, path) as second:
        vectors = [
            embedder.embed(["kettle"], kind=kind) for embedder in (first, second) for kind in ("document", "query")
        ]
        again = [
            embedder.embed(["kettle"], kind=kind) for embedder in (first, second) for kind in ("document", "query")
        ]
    np.testing.assert_array_equal(vectors, again)
    assert len({vector.tobytes() for vector in vectors}) == 4
    assert (inner.texts, inner.queries, other.texts) == (["document kettle"], ["query kettle"], ["document kettle"])


def test_it_says_of_itself_what_the_inner_one_does(path: Path) -> None:
    inner = HashEmbedder(7, name="seven", max_tokens=5)
    with CachedEmbedder(inner, path) as cached:
        assert (cached.name, cached.fingerprint, cached.dimension, cached.max_tokens) == (
            "seven",
            inner.fingerprint,
            7,
            5,
        )
        assert cached.count_tokens("three small words") == 3


def test_what_a_failing_model_gives_is_not_kept(path: Path) -> None:
    class Odd(HashEmbedder):
        def __init__(self, made: NDArray[np.float32]) -> None:
            super().__init__(2)
            self.made = made

        def embed(self, texts: Sequence[str], *, kind: Any = "document") -> NDArray[np.float32]:
            return self.made

    for made in (np.ones((1, 2), np.float32), np.ones((2, 3), np.float32), np.full((2, 2), np.nan, np.float32)):
        with CachedEmbedder(Odd(made), path) as cached, pytest.raises(ModelOutputError, match="for 2 texts"):
            cached.embed(["one", "two"])
    with CachedEmbedder(HashEmbedder(2), path) as cached:
        np.testing.assert_array_equal(cached.embed(["one", "two"]), HashEmbedder(2).embed(["one", "two"]))


def test_many_texts_in_one_call(cached: CachedEmbedder, inner: Counting) -> None:
    texts = [f"text {number % 1500}" for number in range(3000)]
    made = cached.embed(texts)
    assert len(inner.texts) == 1500
    np.testing.assert_array_equal(cached.embed(texts), made)
    assert len(inner.texts) == 1500
    np.testing.assert_array_equal(made[1499], HashEmbedder().embed(["text 1499"])[0])


def test_threads_share_it(cached: CachedEmbedder) -> None:
    texts = [f"text {number}" for number in range(40)]
    wanted = HashEmbedder().embed(texts)
    start = threading.Barrier(4)

    def work(shift: int) -> bool:
        start.wait()
        order = [(place + shift) % 40 for place in range(40)]
        rows = [cached.embed([texts[place] for place in order[first : first + 5]]) for first in range(0, 40, 5)]
        return np.array_equal(np.concatenate(rows), wanted[order])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, (0, 7, 20, 33)))


WORKER = """
import sys
from pathlib import Path
from backread.models.cached_embedder import CachedEmbedder
from backread.testing.fakes import HashEmbedder
print("ready", flush=True)
sys.stdin.readline()
for _ in range(3):
    with CachedEmbedder(HashEmbedder(), Path(sys.argv[1])) as cached:
        for number in range(60):
            cached.embed([f"text {number}", f"text {number + 1}", f"{sys.argv[2]} {number}"])
"""


@pytest.mark.integration
def test_processes_share_the_file(path: Path) -> None:
    command = [sys.executable, "-c", WORKER, str(path)]
    workers = [
        subprocess.Popen(
            [*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in ("left", "right")
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    ends = [worker.communicate(timeout=25) for worker in workers]
    assert [(worker.returncode, error) for worker, (_, error) in zip(workers, ends, strict=True)] == [(0, ""), (0, "")]
    texts = [*(f"text {number}" for number in range(61)), "left 59", "right 59"]
    with CachedEmbedder(FailingEmbedder(HashEmbedder()), path) as cached:
        np.testing.assert_array_equal(cached.embed(texts), HashEmbedder().embed(texts))


def test_the_file_is_its_owners(cached: CachedEmbedder, path: Path) -> None:
    cached.embed(["one"])
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_another_programs_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs(value)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorruptError, match="not a file of vectors"):
        CachedEmbedder(HashEmbedder(), path)
    assert path.read_bytes() == before
    text = tmp_path / "text.db"
    text.write_text("these are words, not vectors" * 100, encoding="utf-8")
    with pytest.raises(StoreCorruptError, match="not a database"):
        CachedEmbedder(HashEmbedder(), text)
    with pytest.raises(StoreError, match="unable to open"):
        CachedEmbedder(HashEmbedder(), tmp_path)
    with pytest.raises(StoreError):
        CachedEmbedder(HashEmbedder(), text / "vectors.db")


def test_a_vector_of_another_length_is_damage(cached: CachedEmbedder, path: Path) -> None:
    cached.embed(["one"])
    db = sqlite3.connect(path)
    db.execute("UPDATE vectors SET vector = x'00'")
    db.commit()
    db.close()
    with pytest.raises(StoreCorruptError, match="has not 64 numbers") as caught:
        cached.embed(["one"])
    assert "delete the file" in (caught.value.hint or "")


def test_a_closed_file_says_so(inner: Counting, path: Path) -> None:
    cached = CachedEmbedder(inner, path)
    cached.close()
    cached.close()
    with pytest.raises(StoreError, match="closed"):
        cached.embed(["one"])


def test_a_memory_embeds_a_text_of_two_users_once(inner: Counting, cached: CachedEmbedder, tmp_path: Path) -> None:
    with opened(tmp_path, cached) as memory:
        for user in ("ann", "bob"):
            memory.add(TALK, user_id=user, session_id="s1")
            assert memory.index(user_id=user) == 0
        assert len(inner.texts) == len(set(inner.texts)) == len(TALK)
        found = [memory.search("kettle", user_id=user, mode="dense").items[0].turn.text for user in ("ann", "bob")]
        assert found == [TALK[0]["content"]] * 2
        assert inner.queries == ["kettle"]
