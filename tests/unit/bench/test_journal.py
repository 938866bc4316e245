"""What a kill leaves behind: whole lines, one record a key, and never two experiments in a folder."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from backread.bench.journal import Journal, read_manifest, read_records, read_texts
from backread.bench.records import BuildRecord, Manifest, QuestionRecord, Texts
from backread.bench.spec import Cell
from backread.errors import InvalidInputError, StoreBusyError

CELL = Cell(strategy="naive_rag", retriever="bm25", budget=330)


def manifest(spec_hash: str = "aa", data: str = "d1", **spec: object) -> Manifest:
    return Manifest(
        spec_hash=spec_hash,
        spec={"name": "small", **spec},
        dataset={"sha256": data},
        versions={},
        embedder=None,
        command="backread bench run small.toml",
        started_at="2026-01-01T00:00:00+00:00",
    )


def record(question_id: str, tokens: int = 7) -> QuestionRecord:
    return QuestionRecord(
        spec_hash="aa",
        data_sha256="d1",
        backread="0",
        cell=CELL,
        question_id=question_id,
        user_id="ann",
        question_type="plain",
        abstention=False,
        status="ok",
        tokens=tokens,
    )


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    texts = Texts(cell=CELL.name, question_id="q1", question="Where?", answer="There", rendered="lone \ud800 one")
    built = BuildRecord(
        spec_hash="aa", data_sha256="d1", backread="0", strategy="t2mem", user_id="ann", put=3, dropped=0, seconds=1.5
    )
    with Journal(tmp_path / "out", manifest()) as journal:
        journal.write(built)
        journal.write(record("q1"), texts)
    assert read_records(tmp_path / "out") == [built, record("q1")]
    assert read_texts(tmp_path / "out") == {(CELL.name, "q1"): texts}
    assert read_manifest(tmp_path / "out") == manifest()


def test_the_last_record_of_a_key_counts(tmp_path: Path) -> None:
    with Journal(tmp_path, manifest()) as journal:
        for tokens in (1, 2):
            journal.write(record("q1", tokens))
        journal.write(record("q2", 3))
    assert [(item.key[1], item.tokens) for item in read_records(tmp_path) if isinstance(item, QuestionRecord)] == [
        ("q1", 2),
        ("q2", 3),
    ]


def test_a_torn_line_is_cut_off_and_the_next_one_is_whole(tmp_path: Path) -> None:
    with Journal(tmp_path, manifest()) as journal:
        journal.write(record("q1"))
    path = tmp_path / "records.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "question", "spec_ha')
    assert read_records(tmp_path) == [record("q1")]
    with Journal(tmp_path, manifest()) as journal:
        assert journal.done == [record("q1")]
        journal.write(record("q2"))
    assert [json.loads(line)["question_id"] for line in path.read_bytes().splitlines()] == ["q1", "q2"]


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    with Journal(tmp_path, manifest()):
        pass
    (tmp_path / "records.jsonl").write_bytes(b'{"kind"')
    with Journal(tmp_path, manifest()) as journal:
        assert journal.done == []
        journal.write(record("q1"))
    assert read_records(tmp_path) == [record("q1")]


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    with Journal(tmp_path, manifest()) as journal:
        journal.write(record("q1"))
    path = tmp_path / "records.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "question"}\n')
    with pytest.raises(InvalidInputError, match=r"records\.jsonl, line 2: question\.spec_hash: Field required"):
        read_records(tmp_path)
    path.write_bytes(b"not json\n")
    with pytest.raises(InvalidInputError, match="line 1: Expecting value"):
        read_records(tmp_path)


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (manifest("bb", models={"answer": "x"}), r"differs in: models\)"),
        (manifest("aa", "d2"), r"differs in: the data\)"),
        (manifest("bb"), r"differs in: the version of the spec\)"),
    ],
)
def test_another_experiment_is_refused_and_nothing_changes(tmp_path: Path, other: Manifest, differs: str) -> None:
    with Journal(tmp_path, manifest()) as journal:
        journal.write(record("q1"))
    with pytest.raises(InvalidInputError, match=differs):
        Journal(tmp_path, other)
    assert read_manifest(tmp_path) == manifest()
    assert read_records(tmp_path) == [record("q1")]


def test_two_at_once_are_refused_and_one_after_the_other_is_fine(tmp_path: Path) -> None:
    with Journal(tmp_path, manifest()), pytest.raises(StoreBusyError, match="another process runs"):
        Journal(tmp_path, manifest())
    Journal(tmp_path, manifest()).close()


def test_words_are_kept_out_of_a_repository(tmp_path: Path) -> None:
    with Journal(tmp_path, manifest()) as journal:
        journal.write(record("q1"), Texts(cell=CELL.name, question_id="q1", question="Secret?", answer=None))
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert listed.stdout.split() == [".gitignore", "manifest.json", "records.jsonl"]
    assert "Secret" not in (tmp_path / "records.jsonl").read_text(encoding="utf-8")


def test_a_folder_without_an_experiment_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="holds no experiment"):
        read_manifest(tmp_path)
