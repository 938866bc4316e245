"""The nearest-neighbour index of a large corpus: what it finds, when it is used, and that nothing outlives a deletion.

The limits are lowered, so that a few thousand vectors count as many.
"""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from store_samples import draft, entry

from backread.errors import MissingExtraError, StoreBusyError, StoreError
from backread.retrieval.dense import cosines
from backread.retrieval.hybrid import HybridRetriever
from backread.retrieval.registry import create_retriever
from backread.store import ann, ann_file
from backread.store.base import TURNS, Cosines, Progress
from backread.store.history import History, Scope
from backread.store.sqlite import SqliteStore
from backread.types import DeleteReceipt

DIMENSION, TURNS_EACH, NEWER = 24, 3000, 40
SLOW = "exact, but slow"


def clustered(count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors around one direction for every fifty."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(5).standard_normal((max(1, TURNS_EACH // 50), DIMENSION))
    made = centres[rng.integers(len(centres), size=count)] + 0.8 * rng.standard_normal((count, DIMENSION))
    unit: NDArray[np.float32] = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    return unit


def add(store: SqliteStore, count: int, *, user: str = "ann", embedder: str = "m", seed: int = 1) -> list[str]:
    """Turns in sessions of ten with a vector each; their ids."""
    drafts = [draft(f"turn {n} of a lamp" if n % 7 == 0 else f"turn {n}", f"{seed}-{n // 10}") for n in range(count)]
    ids = [item.turn_id or "" for item in store.append(user, drafts)]
    embed(store, clustered(count, seed), user=user, embedder=embedder)
    return ids


def embed(store: SqliteStore, vectors: NDArray[np.float32], *, user: str = "ann", embedder: str = "m") -> None:
    """Vectors for the next turns that have none."""
    reached = store.progress(user, TURNS, embedder)
    docs = np.sort(store.layout(user).docs)
    docs = docs[docs >= reached.doc][: len(vectors)]
    assert store.put_vectors(user, TURNS, embedder, reached, docs, vectors, Progress(int(docs[-1]) + 1, 0))


def large(path: Path, *, ann_bytes: int = 0) -> SqliteStore:
    """A store to which any corpus is a large one."""
    return SqliteStore(path, vector_cache_bytes=0, ann_bytes=ann_bytes)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one user with an index, for tests that change nothing."""
    path = tmp_path_factory.mktemp("ann") / "memory.db"
    with closing(large(path)) as store:
        add(store, TURNS_EACH)
        assert store.build_ann("ann", TURNS, "m") is not None
    return path


@pytest.fixture
def indexed(made: Path) -> Iterator[SqliteStore]:
    with closing(large(made)) as store:
        yield store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(large(tmp_path / "memory.db")) as opened:
        yield opened


def folder(store: SqliteStore) -> Path:
    return store.path.with_name(store.path.name + ".ann")


def index_files(store: SqliteStore) -> list[Path]:
    return sorted(folder(store).iterdir()) if folder(store).exists() else []


def search(store: SqliteStore, query: NDArray[np.float32], wanted: int | None = 100, embedder: str = "m") -> Cosines:
    return store.cosines("ann", TURNS, embedder, query, wanted=wanted)


def best(found: Cosines, count: int) -> list[int]:
    order = np.argsort(-found.values, kind="stable")[:count]
    docs: list[int] = found.docs[order].tolist()
    return docs


def reasons(found: Cosines) -> list[str]:
    return [note.reason for note in found.notes]


# --- what it finds


def test_the_index_finds_what_comparing_all_finds(indexed: SqliteStore) -> None:
    shared = []
    for query in clustered(40, 9):
        truth, found = search(indexed, query, None), search(indexed, query, 200)
        assert (len(truth.docs), truth.notes) == (TURNS_EACH, ())
        assert (len(found.docs), found.total) == (200, TURNS_EACH)
        shared.append(len({*best(truth, 50)} & {*best(found, 50)}))
    assert np.mean(shared) >= 0.99 * 50


def test_cosines_of_candidates_are_exact(indexed: SqliteStore) -> None:
    query = clustered(1, 10)[0]
    docs, matrix = indexed.vectors("ann", TURNS, "m")
    exact = dict(zip(docs.tolist(), (matrix @ query).tolist(), strict=True))
    found = search(indexed, query)
    assert found.values == pytest.approx([exact[doc] for doc in found.docs.tolist()], abs=1e-6)


def test_it_says_how_many_were_compared(indexed: SqliteStore) -> None:
    (note,) = search(indexed, clustered(1, 11)[0]).notes
    assert (note.part, note.reason, note.count) == ("dense", "approximate: 100 of 3000 vectors compared", 2900)


def test_reading_all_from_the_file_is_comparing_the_matrix(made: Path) -> None:
    query = clustered(1, 12)[0]
    with (
        closing(large(made, ann_bytes=2**40)) as streaming,
        closing(SqliteStore(made)) as cached,
    ):
        from_file, matrix = search(streaming, query), search(cached, query)
    assert from_file.docs.tolist() == matrix.docs.tolist()
    assert from_file.values == pytest.approx(matrix.values, abs=1e-6)
    assert from_file.notes == matrix.notes == ()


def test_docs_that_are_asked_for_are_compared_too(indexed: SqliteStore) -> None:
    query = clustered(1, 13)[0]
    worst = best(search(indexed, -query, None), 5)
    assert not {*worst} & {*search(indexed, query).docs.tolist()}
    found = indexed.cosines("ann", TURNS, "m", query, wanted=100, also=lambda: np.array([*worst, 10**9]))
    assert {*worst} <= {*found.docs.tolist()}
    assert len(found.docs) == 105


def test_turns_newer_than_the_index_are_all_compared(store: SqliteStore) -> None:
    add(store, 1000)
    store.build_ann("ann", TURNS, "m")
    add(store, NEWER, seed=2)
    for query in clustered(5, 14):
        found = search(store, query, 50)
        assert len(found.docs) == 50 + NEWER
        newest = np.sort(store.layout("ann").docs)[-NEWER:]
        assert {*newest.tolist()} <= {*found.docs.tolist()}
        assert reasons(found) == ["approximate: 90 of 1040 vectors compared"]


def test_nothing_is_approximate_when_all_were_compared(store: SqliteStore) -> None:
    add(store, 60)
    store.build_ann("ann", TURNS, "m")
    found = search(store, clustered(1, 15)[0], 800)
    assert (len(found.docs), found.notes) == (60, ())


def test_a_unit_of_several_passages_scores_as_its_best(store: SqliteStore) -> None:
    store.append("ann", [draft(f"turn {n}") for n in range(3)])
    docs = np.sort(store.layout("ann").docs)
    matrix = np.eye(4, DIMENSION, dtype=np.float32)
    args = (docs[[0, 0, 1, 2]], matrix, Progress(int(docs[2]) + 1, 0))
    assert store.put_vectors("ann", TURNS, "m", Progress(0, 0), *args)
    store.build_ann("ann", TURNS, "m")
    scores, missing, _ = History(store, "ann").corpus().vector_scores("m", matrix[1], 3)
    assert scores == pytest.approx([1, 0, 0])
    assert missing == 0


# --- through a corpus


class Given:
    """An embedder that gives one vector."""

    name, fingerprint, dimension, max_tokens = "given", "m", DIMENSION, 254

    def __init__(self, vector: NDArray[np.float32]) -> None:
        self._vector = vector

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed(self, texts: list[str], *, kind: str = "document") -> NDArray[np.float32]:
        return np.tile(self._vector, (len(texts), 1))


def test_units_not_compared_have_no_cosine_and_are_not_missing(store: SqliteStore) -> None:
    add(store, 2000)
    store.build_ann("ann", TURNS, "m")
    store.append("ann", [draft("still to be embedded", "late")])
    scored = cosines(History(store, "ann").corpus(), "m", clustered(1, 16)[0], 10)
    assert np.isnan(scored.scores).sum() == 1201
    assert [(note.reason, note.count) for note in scored.degraded] == [
        ("turns without a vector yet were ranked by text only", 1),
        ("approximate: 800 of 2000 vectors compared", 1200),
    ]


def test_a_corpus_that_is_a_small_part_of_the_record_is_compared_in_full(indexed: SqliteStore) -> None:
    scope = Scope(session_ids={f"1-{n}" for n in range(20)})
    scores, missing, notes = History(indexed, "ann").corpus("turn", scope).vector_scores("m", clustered(1, 17)[0], 10)
    assert not np.isnan(scores).any()
    assert (len(scores), missing, notes) == (200, 0, ())


def test_most_of_the_record_gets_as_many_candidates_of_its_own(indexed: SqliteStore) -> None:
    scope = Scope(session_ids={f"1-{n}" for n in range(200)})
    scores, _, notes = History(indexed, "ann").corpus("turn", scope).vector_scores("m", clustered(1, 18)[0], 10)
    assert [note.count for note in notes] == [TURNS_EACH - 1200]
    assert 700 < np.isfinite(scores).sum() < 900


def test_the_hybrid_ranks_as_it_does_when_it_compares_all(made: Path) -> None:
    tops: list[list[list[str]]] = []
    for cached in (2**30, 0):
        with closing(SqliteStore(made, vector_cache_bytes=cached, ann_bytes=0)) as store:
            corpus = History(store, "ann").corpus()
            found = [
                HybridRetriever(Given(query)).search(corpus, f"lamp turn {7 * n}", 10)  # type: ignore[arg-type]
                for n, query in enumerate(clustered(10, 19))
            ]
            tops.append([[item.unit_id for item in ranking.items] for ranking in found])
            assert all(any("approximate" in note.reason for note in r.degraded) == (not cached) for r in found)
    assert np.mean([len({*a} & {*b}) / 10 for a, b in zip(*tops, strict=True)]) >= 0.95


def test_normalised_scores_are_those_of_comparing_all(indexed: SqliteStore) -> None:
    """The interpolation needs the lowest cosine of all."""
    query = clustered(1, 33)[0]
    found = create_retriever("interpolation", Given(query)).search(  # type: ignore[arg-type]
        History(indexed, "ann").corpus(), "a lamp", 10
    )
    assert len(found.items) == 10
    assert found.degraded == ()


# --- deletion


@pytest.mark.parametrize("what", ["turn", "session", "user"])
def test_a_deletion_removes_the_index(store: SqliteStore, what: str) -> None:
    ids = add(store, 300)
    add(store, 300, user="bo")
    store.build_ann("ann", TURNS, "m")
    store.build_ann("bo", TURNS, "m")
    query = clustered(1, 20)[0]
    search(store, query)
    kept = index_files(store)[1]
    if what == "turn":
        store.delete("ann", turn_ids=[ids[3]])
    else:
        store.delete("ann", session_id="1-0" if what == "session" else None)
    assert index_files(store) == [kept]  # bo's
    if what != "user":
        assert reasons(search(store, query)) == [ann._NO_INDEX]


def test_a_deletion_of_nothing_keeps_the_index(store: SqliteStore) -> None:
    add(store, 100)
    store.build_ann("ann", TURNS, "m")
    store.delete("ann", turn_ids=["nobody's"])
    store.delete("nobody")
    assert len(index_files(store)) == 1


def test_no_byte_of_an_erased_vector_is_left_beside_the_store(store: SqliteStore) -> None:
    ids = add(store, 200)
    store.build_ann("ann", TURNS, "m")
    left = folder(store) / f"{index_files(store)[0].name}.0badcafe.part"  # of a build that was killed
    left.write_bytes(b"vectors")
    store.delete("ann", turn_ids=ids[:1])
    assert index_files(store) == []


def test_a_deletion_during_a_build_makes_it_start_again(store: SqliteStore) -> None:
    ids = add(store, 200)
    deleted: list[DeleteReceipt] = []

    def erase(_: int) -> None:
        if not deleted:
            deleted.append(store.delete("ann", turn_ids=[ids[0]]))

    built = store.build_ann("ann", TURNS, "m", on_progress=erase)
    assert built is not None
    assert built.rows == 199
    assert len(index_files(store)) == 1


def test_a_build_gives_up_when_turns_keep_going(store: SqliteStore) -> None:
    ids = add(store, 200)

    def erase(_: int) -> None:
        store.delete("ann", turn_ids=[ids.pop()])

    with pytest.raises(StoreBusyError, match="deleted each time"):
        store.build_ann("ann", TURNS, "m", on_progress=erase)
    assert index_files(store) == []


def test_entries_dropped_since_are_not_found(store: SqliteStore) -> None:
    (turn,) = [item.turn_id or "" for item in store.append("ann", [draft("a")])]
    store.commit("ann", "lean", 0, [entry(f"e{n}", f"entry {n}", turn) for n in range(100)])
    docs = np.sort(store.layout("ann", "lean/event").docs)
    args = (docs, clustered(100, 3), Progress(int(docs[-1]) + 1, 0))
    assert store.put_vectors("ann", "lean/event", "m", Progress(0, 0), *args)
    store.build_ann("ann", "lean/event", "m")
    store.commit("ann", "lean", 1, drop=[f"e{n}" for n in range(90)])
    scores, missing, _ = History(store, "ann").corpus(("lean", "event")).vector_scores("m", clustered(1, 21)[0], 5)
    assert len(scores) == 10
    assert not np.isnan(scores).any()
    assert missing == 0


# --- when it isn't used


def test_a_large_corpus_without_an_index_says_so(store: SqliteStore) -> None:
    add(store, 100)
    found = search(store, clustered(1, 22)[0])
    assert (len(found.docs), reasons(found)) == (100, [ann._NO_INDEX])


def test_a_small_corpus_looks_for_no_index(tmp_path: Path) -> None:
    with closing(large(tmp_path / "memory.db", ann_bytes=2**20)) as store:
        add(store, 100)
        assert store.build_ann("ann", TURNS, "m") is None
        assert store.build_ann("ann", TURNS, "m", min_bytes=0) is not None
        assert search(store, clustered(1, 23)[0]).notes == ()
        assert store.build_ann("nobody", TURNS, "m", min_bytes=0) is None


@pytest.mark.parametrize("damage", ["a bit", "the end", "all"])
def test_a_damaged_index_is_not_used(store: SqliteStore, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    add(store, 300)
    store.build_ann("ann", TURNS, "m")
    (path,) = index_files(store)
    before = path.read_bytes()
    data = bytearray(before)
    data[len(data) // 2] ^= 1
    path.write_bytes({"a bit": bytes(data), "the end": before[:-9], "all": b""}[damage])
    for _ in range(2):
        found = search(store, clustered(1, 24)[0])
        assert (len(found.docs), reasons(found)) == (300, [ann._DAMAGED])
    assert len(caplog.records) == 1
    store.build_ann("ann", TURNS, "m")
    assert "approximate" in reasons(search(store, clustered(1, 24)[0]))[0]


def test_an_index_of_another_format_is_not_used(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store, 100)
    store.build_ann("ann", TURNS, "m")
    monkeypatch.setattr(ann_file, "FORMAT", 2)
    assert reasons(search(store, clustered(1, 25)[0])) == [ann._DAMAGED]


def test_the_index_of_another_record_is_ignored_and_removed(tmp_path: Path) -> None:
    """A backup of another day in the place of the store: rows are where they were, but not the same."""
    with closing(large(tmp_path / "one.db")) as one, closing(large(tmp_path / "two.db")) as two:
        add(one, 300)
        add(two, 300, seed=2)
        one.build_ann("ann", TURNS, "m")
        folder(one).rename(folder(two))
        assert reasons(search(two, clustered(1, 26)[0])) == [ann._OLD]
        assert index_files(two) == []


def test_the_index_of_another_embedder_is_ignored_and_removed(store: SqliteStore) -> None:
    add(store, 300)
    store.build_ann("ann", TURNS, "m")
    embed(store, clustered(300, 2), embedder="n")
    (mine,) = index_files(store)
    mine.rename(folder(store) / f"{mine.name.split('-')[0]}-{ann._name('n')}")
    assert reasons(search(store, clustered(1, 27)[0], embedder="n")) == [ann._OLD]
    assert index_files(store) == []


def test_an_embedder_that_goes_takes_its_indexes_along(store: SqliteStore) -> None:
    add(store, 100)
    embed(store, clustered(100, 2), embedder="n")
    for embedder in ("m", "n"):
        store.build_ann("ann", TURNS, embedder)
    store.activate_embedder("n")
    (left,) = index_files(store)
    assert left.name.endswith(ann._name("n"))


def test_an_index_that_lacks_much_is_not_used(store: SqliteStore) -> None:
    add(store, 400)
    store.build_ann("ann", TURNS, "m")
    add(store, 400, seed=2)
    found = search(store, clustered(1, 28)[0])
    assert (len(found.docs), reasons(found)) == (800, [ann._OLD])
    assert len(index_files(store)) == 1


def test_without_the_package_building_fails_and_searching_is_exact(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, 100)
    store.build_ann("ann", TURNS, "m")
    for module in (ann, ann_file):
        monkeypatch.setattr(module, "installed", lambda: False)
    with pytest.raises(MissingExtraError, match=r"pip install 'backread\[ann\]'"):
        store.build_ann("ann", TURNS, "m")
    found = search(store, clustered(1, 29)[0])
    assert len(found.docs) == 100
    assert reasons(found) == [ann._NO_PACKAGE]
    assert "pip install 'backread[ann]'" in ann._NO_PACKAGE


# --- the file


def test_the_file_is_private_and_counted(store: SqliteStore) -> None:
    add(store, 100)
    before = store.stats().bytes
    built = store.build_ann("ann", TURNS, "m")
    (path,) = index_files(store)
    assert built is not None
    assert (built.rows, built.bytes) == (100, path.stat().st_size)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert store.stats().bytes - before == built.bytes
    assert store.verify().ok


def test_building_again_takes_in_what_is_new(store: SqliteStore) -> None:
    add(store, 300)
    store.build_ann("ann", TURNS, "m")
    search(store, clustered(1, 30)[0])
    add(store, NEWER, seed=2)
    added: list[int] = []
    built = store.build_ann("ann", TURNS, "m", on_progress=added.append)
    assert built is not None
    assert built.rows == sum(added) == 300 + NEWER
    assert len(index_files(store)) == 1
    assert len(search(store, clustered(1, 30)[0]).docs) == 100


def test_an_index_that_lacks_little_is_left_as_it_is(store: SqliteStore) -> None:
    add(store, 300)
    assert store.build_ann("ann", TURNS, "m") is not None
    assert store.build_ann("ann", TURNS, "m") is None
    add(store, 10, seed=2)
    assert store.build_ann("ann", TURNS, "m", newer=0.05) is None
    add(store, 10, seed=3)
    assert store.build_ann("ann", TURNS, "m", newer=0.05) is not None


def test_what_cannot_be_written_or_removed_is_said(store: SqliteStore) -> None:
    ids = add(store, 100)
    folder(store).write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreError, match="could not be written"):
        store.build_ann("ann", TURNS, "m")
    folder(store).unlink()
    store.build_ann("ann", TURNS, "m")
    (path,) = index_files(store)
    path.unlink()
    path.mkdir()  # can't be unlinked, like a file that another process has open on some systems
    with pytest.raises(StoreError, match="nothing was deleted"):
        store.delete("ann", turn_ids=ids[:1])
    assert store.layout("ann").size == 100


@pytest.mark.integration
def test_a_model_can_be_loaded_after_an_index() -> None:
    """With usearch 2.26 it crashes, which is why the extra leaves that version out."""
    command = [sys.executable, "-c", "import usearch.index, onnxruntime"]
    assert subprocess.run(command, capture_output=True, timeout=25, check=False).returncode == 0


def test_threads_share_an_index(indexed: SqliteStore) -> None:
    queries = clustered(60, 32)
    alone = [search(indexed, query).docs.tolist() for query in queries]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda query: search(indexed, query).docs.tolist(), queries))
    assert together == alone


CHILD = """
import json, sys
from pathlib import Path
import numpy as np
from backread.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]), vector_cache_bytes=0, ann_bytes=0)
for line in sys.stdin:
    found = store.cosines("ann", "turn", "m", np.array(json.loads(line), np.float32), wanted=100)
    print(json.dumps([sorted(found.docs.tolist()), [note.reason for note in found.notes]]), flush=True)
"""


@pytest.mark.integration
def test_two_processes_share_an_index_until_one_deletes(store: SqliteStore) -> None:
    ids = add(store, 500)
    store.build_ann("ann", TURNS, "m")
    query = clustered(1, 31)[0]
    command = [sys.executable, "-c", CHILD, str(store.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def ask() -> tuple[list[int], list[str]]:
            print(json.dumps(query.tolist()), file=child.stdin, flush=True)
            docs, notes = json.loads(child.stdout.readline())  # type: ignore[union-attr]
            return docs, notes

        mine = search(store, query)
        assert ask() == (sorted(mine.docs.tolist()), reasons(mine))
        store.delete("ann", turn_ids=ids[:1])
        docs, notes = ask()
        assert (len(docs), notes) == (499, [ann._NO_INDEX])
        assert store.build_ann("ann", TURNS, "m") is not None
        docs, notes = ask()
        assert (len(docs), notes) == (100, ["approximate: 100 of 499 vectors compared"])
        child.stdin.close()
        assert child.wait(10) == 0
