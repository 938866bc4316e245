"""An experiment from spec to records: what is asked, what is graded, what a failure is, and what a stop leaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backread.bench.datasets import Dataset, fill, load_dataset
from backread.bench.experiment import Outcome, Progress, run_experiment
from backread.bench.journal import read_manifest, read_records, read_texts
from backread.bench.records import ConfigRecord, QuestionRecord
from backread.bench.spec import ExperimentSpec
from backread.errors import InvalidInputError, ModelRequestError
from backread.memory import Memory
from backread.models.base import ChatModel
from backread.models.roles import ChatRoles
from backread.settings import Settings
from backread.store.sqlite import SqliteStore
from backread.testing.fakes import ChatRequest, FunctionChat

PLACES = ("Riga", "Turku", "Porto", "Lyon", "Gent", "Bergen", "Vilnius", "Cork", "Siena", "Bilbao")


def write_history(folder: Path) -> None:
    """Ten trips, each in a session of three turns; the second turn of each says where it went."""
    messages: list[dict[str, Any]] = []
    for number, place in enumerate(PLACES):
        day = f"2024-03-{number + 1:02}T09:0"
        talk = ("That was a long trip.", f"On trip {number} we saw {place}.", "Nice weather all along.")
        messages += [
            {"id": f"m{number}.{turn}", "role": "user", "content": text, "timestamp": f"{day}{turn}:00Z"}
            | {"session_id": f"s{number}", "user_id": "ann"}
            for turn, text in enumerate(talk)
        ]
    (folder / "history.jsonl").write_text("\n".join(map(json.dumps, messages)) + "\n", encoding="utf-8")
    questions = [
        {
            "question_id": f"q{number}",
            "question": f"What did we see on trip {number}?",
            "answer": place,
            "gold_turns": [f"m{number}.1"],
            "question_type": "place" if number % 2 else "other",
        }
        for number, place in enumerate(PLACES)
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n", encoding="utf-8")


def spec_of(folder: Path, **changes: Any) -> ExperimentSpec:
    given = {
        "name": "trips",
        "dataset": {
            "format": "jsonl",
            "path": folder / "history.jsonl",
            "questions": folder / "questions.jsonl",
        },
        "designs": [{"strategy": "naive_rag", "retrievers": ["bm25"], "depths": [1], "budgets": [60]}],
        "embedder": "none",
        "cutoffs": [1, 3],
    }
    return ExperimentSpec.model_validate(given | changes)


class Bench:
    """A dataset in a store, run with fakes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_history(folder)
        self.dataset: Dataset = load_dataset(spec_of(folder).dataset)

    @contextmanager
    def memory(self, roles: ChatRoles | None = None) -> Iterator[Memory]:
        store = SqliteStore(self.folder / "store.db")
        with Memory(store, Settings(path=self.folder / "store.db"), chat=roles) as memory:
            fill(memory, self.dataset)
            yield memory

    def run(self, spec: ExperimentSpec, *, out: str = "out", roles: ChatRoles | None = None, **options: Any) -> Outcome:
        with self.memory(roles) as memory:
            return run_experiment(spec, self.dataset, memory, self.folder / out, command="test", **options)

    def records(self, out: str = "out") -> list[QuestionRecord]:
        return [item for item in read_records(self.folder / out) if isinstance(item, QuestionRecord)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def answering(reply: Callable[[str], str]) -> ChatModel:
    """Answers by what stands behind "Question:" in the request."""
    return FunctionChat(lambda request: reply(request.question.rsplit("Question:", 1)[1]), name="answerer")


def place_of(question: str) -> str:
    return PLACES[int(question.split("trip ")[1][0])]


def judging(request: ChatRequest) -> str:
    """Correct when the gold answer stands in what was judged."""
    text = "\n".join(message.content for message in request.messages)
    judged = text.rsplit("<answer", 1)[1]
    right = any(place in judged and text.count(place) > judged.count(place) for place in PLACES)
    return json.dumps({"reason": "r", "verdict": "correct" if right else "incorrect"})


def roles(answer: ChatModel, judge: ChatModel | None = None) -> ChatRoles:
    return ChatRoles(answer=answer, judge=judge or FunctionChat(judging, name="judge"))


MODELS = {"answer": "answerer", "judge": "judge"}


def test_every_question_in_every_cell_has_a_record(bench: Bench) -> None:
    told: list[Progress] = []
    outcome = bench.run(spec_of(bench.folder), on_progress=told.append)
    assert outcome == Outcome(bench.folder / "out", total=20, ran=20, errors=0, complete=True)
    assert told[-1] == Progress(done=20, total=20, cost=None, tokens=0, errors=0)
    assert {record.key for record in bench.records()} == {
        (f"naive_rag/bm25/{limit}", f"q{number}") for limit in ("depth=1", "budget=60") for number in range(10)
    }
    manifest = read_manifest(bench.folder / "out")
    assert manifest.dataset["sha256"] == bench.dataset.sha256
    assert manifest.dataset["questions"] == 10
    assert manifest.embedder is None
    assert str(bench.folder) not in manifest.model_dump_json()


def test_what_is_measured_of_evidence(bench: Bench) -> None:
    bench.run(spec_of(bench.folder))
    capped, budget = (record for record in bench.records() if record.question_id == "q3")
    # The number is in one turn only, "On trip 3 we saw Lyon.": BM25 ranks it first.
    assert capped.cell.depth == 1
    assert capped.ranked == ("m3.1",)
    assert [line.sources for line in capped.shown] == [(("m3.1", 0, len("On trip 3 we saw Lyon.")),)]
    assert capped.measures == {
        "coverage:verbatim": 1.0,
        "coverage:claimed": 1.0,
        "coverage:words": 1.0,
        "session:coverage:claimed": 1.0,
    }
    assert budget.measures["turn:R@1"] == 1.0
    assert budget.measures["session:Success@3"] == 1.0
    assert budget.gold_considered == ("m3.1",)
    assert 0 < (budget.tokens or 0) <= 60
    config = {
        item.config_hash: item.config for item in read_records(bench.folder / "out") if isinstance(item, ConfigRecord)
    }
    assert config[capped.config_hash or ""]["retriever"] == "bm25"
    assert len(config) == 2


def test_gold_labels_change_nothing_that_is_retrieved(bench: Bench) -> None:  # EVL-11
    bench.run(spec_of(bench.folder))
    bare = [replace(q, answer=None, gold_turns=(), gold_sessions=()) for q in bench.dataset.questions]
    bench.dataset = replace(bench.dataset, questions=tuple(bare))
    bench.run(spec_of(bench.folder), out="bare")
    assert [(r.key, r.ranked, r.shown) for r in bench.records("bare")] == [
        (r.key, r.ranked, r.shown) for r in bench.records()
    ]
    assert {record.measures["coverage:verbatim"] for record in bench.records("bare")} == {None}


def test_the_oracle_shows_gold_and_nothing_else(bench: Bench) -> None:
    designs = [{"strategy": "naive_rag", "oracle": True}, {"strategy": "naive_rag:session", "oracle": True}]
    bench.run(spec_of(bench.folder, designs=designs))
    by_cell = {record.cell.strategy: record for record in bench.records() if record.question_id == "q4"}
    assert [line.sources[0][0] for line in by_cell["naive_rag"].shown] == ["m4.1"]
    assert [line.sources[0][0] for line in by_cell["naive_rag:session"].shown] == ["m4.0", "m4.1", "m4.2"]
    assert by_cell["naive_rag:session"].ranked == ("s4",)
    assert by_cell["naive_rag:session"].measures["session:R@1"] == 1.0


def test_answers_are_graded_blind_and_a_vague_answer_once(bench: Bench) -> None:
    asked: list[str] = []

    def judge(request: ChatRequest) -> str:
        asked.append("\n".join(message.content for message in request.messages))
        return judging(request)

    answer = answering(lambda question: place_of(question) if "trip 3" not in question else "Oslo")
    bench.run(spec_of(bench.folder, models=MODELS), roles=roles(answer, FunctionChat(judge, name="judge")))
    records = bench.records()
    wrong = [record for record in records if record.verdicts["strict"] == "incorrect"]
    assert {record.question_id for record in wrong} == {"q3"}
    assert {record.attribution for record in wrong} == {"QA reasoning error"}
    assert {record.attribution for record in records if record not in wrong} == {None}
    assert {len(record.control) for record in records if record.cell.depth == 1} == {2}
    assert {len(record.control) for record in records if record.cell.budget == 60} == {0}
    assert {verdict for record in records for verdict in record.control.values()} == {"incorrect"}
    # strict and lenient for each of 20 answers, and for ten vague ones
    assert len(asked) == 60
    assert not [text for text in asked if "naive" in text or "bm25" in text or "depth" in text]
    first = records[0]
    assert first.models == MODELS
    assert sorted(first.prompts) == ["answer", "judge:lenient", "judge:strict"]
    assert {row.purpose: row.calls for row in first.usage} == {"answer": 1, "judge": 4}
    assert first.measures["EM"] == 1.0
    texts = read_texts(bench.folder / "out")
    assert texts[wrong[0].key].hypothesis == "Oslo"
    assert "Oslo" not in (bench.folder / "out" / "records.jsonl").read_text(encoding="utf-8")


def test_failures_are_no_wrong_answers(bench: Bench) -> None:  # EVL-09
    tries: dict[str, int] = {}

    def answer(question: str) -> str:
        return "Error: connection reset" if "trip 2" in question else place_of(question)

    def judge(request: ChatRequest) -> str:
        text = "\n".join(message.content for message in request.messages)
        if "trip 5?" in text:
            raise ModelRequestError("500")
        if "trip 7?" in text:
            tries["q7"] = tries.get("q7", 0) + 1
            if tries["q7"] == 1:
                return "I can't say."
        assert "connection reset" not in text
        return judging(request)

    chats = roles(answering(answer), FunctionChat(judge, name="judge"))
    spec = spec_of(
        bench.folder,
        models=MODELS,
        lenient=False,
        control=False,
        designs=[{"strategy": "naive_rag", "retrievers": ["bm25"], "budgets": [60]}],
    )
    outcome = bench.run(spec, roles=chats)
    assert (outcome.ran, outcome.errors) == (10, 2)
    records = {record.question_id: record for record in bench.records()}
    assert {key: (r.failure.stage, r.failure.error) for key, r in records.items() if r.failure is not None} == {
        "q2": ("answer", "ModelError"),
        "q5": ("judge", "ModelRequestError"),
    }
    assert records["q2"].verdicts == records["q5"].verdicts == {}
    assert records["q7"].verdicts == {"strict": "correct"}
    assert records["q7"].judge_tries == {"strict": 2}
    assert records["q5"].measures["coverage:verbatim"] == 1.0

    again = bench.run(spec, roles=roles(answering(place_of)))
    assert (again.ran, again.errors, again.complete) == (0, 0, True)
    mended = bench.run(spec, roles=roles(answering(place_of)), retry_errors=True)
    assert (mended.ran, mended.errors) == (2, 0)
    assert {record.verdicts["strict"] for record in bench.records()} == {"correct"}


def test_a_slice_is_a_part_of_the_whole(bench: Bench) -> None:  # EVL-09
    spec = spec_of(bench.folder)
    sliced = bench.run(spec, out="slice", limit=3)
    assert (sliced.total, sliced.ran, sliced.complete) == (6, 6, True)
    bench.run(spec, out="whole")
    parts = {record.key: record for record in bench.records("slice")}
    whole = {record.key: record for record in bench.records("whole")}

    def lasting(record: QuestionRecord) -> dict[str, Any]:
        return record.model_dump(exclude={"seconds", "steps"})

    assert {key: lasting(record) for key, record in parts.items()} == {key: lasting(whole[key]) for key in parts}
    rest = bench.run(spec, out="slice")
    assert (rest.ran, rest.complete) == (14, True)
    assert {record.key for record in bench.records("slice")} == set(whole)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_stop_loses_nothing_and_nothing_runs_twice(bench: Bench, concurrency: int) -> None:
    spec = spec_of(bench.folder, concurrency=concurrency)
    stop = threading.Event()
    first = bench.run(spec, on_progress=lambda progress: stop.set() if progress.done == 7 else None, cancel=stop)
    assert 7 <= first.ran < 20
    assert not first.complete
    second = bench.run(spec)
    assert first.ran + second.ran == 20
    lines = (bench.folder / "out" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "question"]
    keys = [(row["cell"].get("depth"), row["question_id"]) for row in rows]
    assert len(keys) == len(set(keys)) == 20


def test_another_spec_is_refused(bench: Bench) -> None:
    bench.run(spec_of(bench.folder))
    with pytest.raises(InvalidInputError, match="differs in: cutoffs"):
        bench.run(spec_of(bench.folder, cutoffs=[5]))


def test_an_unknown_type_of_a_benchmark_is_an_error_of_that_question(bench: Bench) -> None:  # EVL-06
    bench.dataset = replace(bench.dataset, benchmark="locomo")
    outcome = bench.run(spec_of(bench.folder, models=MODELS), roles=roles(answering(place_of)))
    assert outcome.errors == 20
    failure = bench.records()[0].failure
    assert failure is not None
    assert failure.error == "InvalidInputError"
