"""Questions and histories as an experiment uses them, and how histories come into a memory."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_samples import Counting, opened

from backread import Memory
from backread.bench.datasets import Dataset, evidence_turns, fill, load_dataset, sampled, type_name
from backread.bench.spec import DatasetSpec
from backread.errors import BackreadError, ImportFormatError, InvalidInputError, NotFoundError
from backread.importers.base import Question
from backread.types import AddReceipt, TurnDraft

# EVL-11: what the assistant said is the answer.
BOAT: dict[str, Any] = {
    "question_id": "boat",
    "question_type": "single-session-assistant",
    "question": "Which boat name did you suggest?",
    "answer": "Petrel",
    "question_date": "2024/05/09 (Thu) 10:00",
    "answer_session_ids": ["s1"],
    "haystack_session_ids": ["s2", "s1"],
    "haystack_dates": ["2024/05/02 (Thu) 10:00", "2024/05/01 (Wed) 09:00"],
    "haystack_sessions": [
        [{"role": "user", "content": "I like tea."}, {"role": "assistant", "content": "So do I."}],
        [
            {"role": "user", "content": "Suggest a name for my boat", "has_answer": False},
            {"role": "assistant", "content": "How about Petrel?", "has_answer": True},
            {"role": "user", "content": "thanks", "has_answer": False},
        ],
    ],
}
TEA: dict[str, Any] = {
    "question_id": "tea",
    "question_type": "single-session-user",
    "question": "What do I like?",
    "answer": "tea",
    "question_date": "2024/05/09 (Thu) 10:00",
    "answer_session_ids": ["s3"],
    "haystack_session_ids": ["s3"],
    "haystack_dates": ["2024/05/02 (Thu) 10:00"],
    "haystack_sessions": [[{"role": "user", "content": "I like tea.", "has_answer": True}]],
}
QA: list[dict[str, Any]] = [
    {"question": "When did Ira repaint the boat?", "answer": "3 May 2022", "category": 2, "evidence": ["D1:1"]},
    {"question": "Which two cities?", "answer": "Riga, Turku", "category": 1, "evidence": ["D1:1", "D1:2"]},
    {"question": "Would Ira enjoy sailing?", "answer": "Likely yes", "category": 3, "evidence": []},
    {"question": "What colour is the boat?", "answer": "Green", "category": 4, "evidence": ["D1:2"]},
    {"question": "Who sank it?", "adversarial_answer": "Max", "category": 5, "evidence": ["D1:2"]},
]


def locomo(sample_id: str) -> dict[str, Any]:
    turns = [
        {"speaker": "Ira", "dia_id": "D1:1", "text": f"I repainted the boat, says {sample_id}."},
        {"speaker": "Max", "dia_id": "D1:2", "text": "Green, and off to Riga and Turku!"},
    ]
    talk = {"session_1": turns, "session_1_date_time": "1:10 pm on 2 May, 2022"}
    return {"sample_id": sample_id, "conversation": talk, "qa": QA}


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def lines(path: Path, values: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


@pytest.fixture(name="talks")
def _talks(tmp_path: Path) -> DatasetSpec:
    return DatasetSpec(format="locomo", path=written(tmp_path / "talks.json", [locomo("a"), locomo("b")]))


@pytest.fixture(name="chats")
def _chats(tmp_path: Path) -> DatasetSpec:
    return DatasetSpec(format="longmemeval", path=written(tmp_path / "chats.json", [BOAT, TEA]))


def load(spec: DatasetSpec, **changes: Any) -> Dataset:
    return load_dataset(spec.model_copy(update=changes))


def ids(dataset: Dataset) -> list[str]:
    return [question.question_id for question in dataset.questions]


# --- LoCoMo


def test_evl_01_categories_have_their_number_and_name(talks: DatasetSpec) -> None:
    dataset = load(talks)
    names = [(type_name(dataset.benchmark, item.question_type), item.question) for item in dataset.questions[:4]]
    assert names == [
        ("2 temporal", "When did Ira repaint the boat?"),
        ("1 multi-hop", "Which two cities?"),
        ("3 open-domain", "Would Ira enjoy sailing?"),
        ("4 single-hop", "What colour is the boat?"),
    ]
    counts = "1 multi-hop (2), 2 temporal (2), 3 open-domain (2), 4 single-hop (2)"
    assert f"LoCoMo categories: {counts}; category 5 (adversarial) is not asked." in dataset.notes


def test_evl_01_adversarial_questions_are_asked_only_when_the_spec_says_so(talks: DatasetSpec) -> None:
    assert ids(load(talks)) == ["a:0", "a:1", "a:2", "a:3", "b:0", "b:1", "b:2", "b:3"]
    dataset = load(talks, adversarial=True)
    assert [item.question_id for item in dataset.questions if item.abstention] == ["a:4", "b:4"]
    assert dataset.notes[-1].endswith("5 adversarial (2); category 5 (adversarial) is part of the total.")


def test_evl_03_a_question_without_evidence_stays(talks: DatasetSpec) -> None:
    dataset = load(talks)
    assert [item.question_id for item in dataset.questions if not item.gold_turns] == ["a:2", "b:2"]
    assert dataset.report.kinds["question_without_gold"] == 2


def test_the_data_has_a_name_a_hash_and_a_report(talks: DatasetSpec) -> None:
    dataset = load(talks)
    sha256 = hashlib.sha256(talks.path.read_bytes()).hexdigest()
    assert (dataset.name, dataset.benchmark, dataset.sha256) == ("talks", "locomo", sha256)
    assert (dataset.report.users, dataset.report.turns, dataset.report.questions) == (2, 4, 10)
    assert f"The file is not the official locomo10.json (sha256 {sha256})." in dataset.notes
    assert load(talks, sha256=sha256.upper()).sha256 == sha256
    with pytest.raises(InvalidInputError, match=f"has the sha256 {sha256}, not 00aa"):
        load(talks, sha256="00AA")


def test_an_overlay_corrects_before_questions_are_chosen(talks: DatasetSpec, tmp_path: Path) -> None:
    audited = [
        {
            "question_id": f"locomo_{user}_qa{number}",
            "question": QA[number]["question"],
            "golden_answer": answer,
            **more,
        }
        for user, number, answer, more in (
            (0, 3, "Green", {"error_type": "HALLUCINATION", "correct_answer": "Red"}),
            (1, 3, "Green", {"error_type": "WRONG_CITATION", "correct_evidence": ["D1:1"]}),
        )
    ]
    path = written(tmp_path / "errors.json", audited)
    dataset = load(talks, overlay=path, users=("a",))
    assert {item.question_id: item.answer for item in dataset.questions}["a:3"] == "Red"
    assert dict(dataset.disputed) == {"a:3": "HALLUCINATION"}
    assert dataset.overlay_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert any("1 gold answers and the evidence of 0 questions" in note for note in dataset.notes)
    assert dataset.sha256 == load(talks).sha256
    other = load(talks, overlay=path, users=("b",))
    assert other.questions[3].gold_turns == ("D1:1",)
    assert not other.disputed


# --- LongMemEval


def test_a_file_that_is_not_official_is_said_to_be_none(chats: DatasetSpec) -> None:
    dataset = load(chats)
    assert (dataset.name, dataset.benchmark, dataset.roles) == ("chats", "longmemeval", None)
    sha256 = hashlib.sha256(chats.path.read_bytes()).hexdigest()
    assert dataset.notes == (f"The file is none of LongMemEval's official ones (sha256 {sha256}).",)


def test_evl_11_roles_that_are_not_stored_are_no_gold_and_are_said(chats: DatasetSpec) -> None:
    dataset = load(chats, roles=("user",))
    boat, tea = dataset.questions
    assert (boat.gold_turns, boat.gold_sessions) == ((), ("s1",))
    assert (tea.gold_turns, tea.gold_sessions) == (("s3:0",), ("s3",))
    assert [[turn.external_id for turn in session.turns] for session in dataset.sessions] == [
        ["s2:0"],
        ["s1:0", "s1:2"],
        ["s3:0"],
    ]
    assert len(dataset.sessions) == 3
    assert dataset.notes[-1] == (
        "Only turns of the roles user are stored; 1 gold turns of other roles don't count. Questions left without a"
        " gold turn by that: 1."
    )


def test_a_session_without_a_turn_of_the_roles_is_not_there(chats: DatasetSpec) -> None:
    dataset = load(chats, roles=("assistant",))
    assert [(session.user_id, session.session_id) for session in dataset.sessions] == [("boat", "s2"), ("boat", "s1")]
    assert dataset.questions[1].gold_sessions == ()
    with pytest.raises(InvalidInputError, match="no turn of the roles tool"):
        load(chats, roles=("tool",))


def test_types_are_left_out_by_the_spec_alone(chats: DatasetSpec) -> None:
    assert ids(load(chats)) == ["boat", "tea"]
    dataset = load(chats, exclude_types=("single-session-assistant",))
    assert ids(dataset) == ["tea"]
    assert {session.user_id for session in dataset.sessions} == {"tea"}
    assert len(dataset.sessions) == 1
    assert "The 1 questions of the type single-session-assistant are left out." in dataset.notes


# --- choosing


def test_users_and_types(talks: DatasetSpec) -> None:
    dataset = load(talks, users=("b",), types=("temporal", "single-hop"))
    assert ids(dataset) == ["b:0", "b:3"]
    assert {session.user_id for session in dataset.sessions} == {"b"}
    assert "Only the histories of b." in dataset.notes
    assert "Only questions of the types temporal, single-hop." in dataset.notes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"users": ("c",)}, "no question is of the user 'c'"),
        ({"types": ("multihop",)}, "no question is of the type 'multihop'"),
        ({"exclude_types": ("5",)}, "no question is of the type '5'"),
        ({"types": ("adversarial",)}, "no question of .* is left"),
        ({"variant": "oracle"}, "`variant` doesn't go with the format 'locomo'"),
        ({"questions": Path("q.jsonl")}, "`questions` doesn't go with the format 'locomo'"),
        ({"format": "longmemeval-compact"}, "`variant` is missing for the format 'longmemeval-compact'"),
        ({"format": "jsonl"}, "`questions` is missing for the format 'jsonl'"),
        ({"format": "longmemeval", "adversarial": True}, "`adversarial` is of LoCoMo"),
    ],
)
def test_what_a_spec_may_not_say(talks: DatasetSpec, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        load(talks, **changes)


def asked(types: Sequence[str]) -> list[Question]:
    return [Question(f"q{number}", "ann", "?", None, name, False, None, (), ()) for number, name in enumerate(types)]


def test_a_sample_has_the_shares_of_the_types_and_is_spread_over_the_file() -> None:
    # 6 of 10, so shares of a, b, c are 4.2, 1.2, 0.6: 4, 1, and the remainder .6 is the largest.
    # The middles of four stretches of seven are 7/8, 21/8, 35/8, 49/8: places 0, 2, 4, 6.
    chosen = sampled(asked("aaabaaaabc"), 6)
    assert [item.question_id for item in chosen] == ["q0", "q2", "q5", "q7", "q8", "q9"]


def test_a_sample_as_large_as_the_data_is_the_data(talks: DatasetSpec) -> None:
    assert ids(load(talks, sample=8)) == ids(load(talks))
    assert not any("sample" in note for note in load(talks, sample=8).notes)
    dataset = load(talks, sample=4)
    assert Counter(item.question_type for item in dataset.questions) == Counter(
        ["temporal", "multi-hop", "open-domain", "single-hop"]
    )
    assert "A sample of 4 of 8 questions, types in proportion, spread evenly over the file." in dataset.notes


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=60), st.integers(1, 70))
def test_samples(types: list[str], size: int) -> None:
    questions = asked(types)
    chosen = sampled(questions, size)
    assert len(chosen) == min(size, len(questions))
    assert chosen == [item for item in questions if item in chosen]
    assert chosen == sampled(questions, size)
    for name, count in Counter(types).items():
        share = min(size, len(types)) * count / len(types)
        assert abs(sum(item.question_type == name for item in chosen) - share) < 1


# --- the user's own history


def test_the_users_own_history(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": f"Message {number}.", "id": f"m{number}"} for number in range(3)]
    path = lines(tmp_path / "chat.jsonl", messages)
    questions = lines(tmp_path / "questions.jsonl", [{"question": "Which?", "gold_turns": ["m2", "m7"]}])
    spec = DatasetSpec(format="jsonl", path=path, questions=questions)
    dataset = load(spec)
    assert (dataset.name, dataset.benchmark) == ("chat", "own")
    assert [(item.user_id, item.gold_turns, item.gold_sessions) for item in dataset.questions] == [
        ("own", ("m2",), ("chat",))
    ]
    hashes = "\n".join(hashlib.sha256(file.read_bytes()).hexdigest() for file in (path, questions))
    assert dataset.sha256 == hashlib.sha256(hashes.encode()).hexdigest()
    assert (dataset.report.questions, dict(dataset.report.kinds)) == (1, {"gold_turn_missing": 1})
    assert dataset.notes == (
        "Gold ids that name nothing in the history don't count as gold; questions with such ids: 1.",
    )
    assert load(spec, users=("ann",)).questions[0].user_id == "ann"
    with pytest.raises(InvalidInputError, match="no overlays of 'own'"):
        load(spec, overlay=path)
    lines(questions, [{"question": ""}])
    with pytest.raises(ImportFormatError, match="line 1"):
        load(spec)


# --- storing


class Watched(Memory):
    """Notes what is added."""

    added: list[list[str | None]]

    def add_turns(self, drafts: Sequence[TurnDraft], *, user_id: str) -> AddReceipt:
        self.added.append([draft.external_id for draft in drafts])
        return super().add_turns(drafts, user_id=user_id)


@pytest.fixture(name="watched")
def _watched(tmp_path: Path) -> Iterator[Watched]:
    with Watched.open(tmp_path / "w.db", embedder=Counting()) as memory:
        memory.added = []
        yield memory


def stored(memory: Memory) -> list[Any]:
    return [
        (user, replace(turn, stored_at=turn.stored_at.min))
        for user in memory.users()
        for turn in memory.turns(user_id=user)
    ]


def test_fill_stores_and_embeds_and_does_nothing_twice(chats: DatasetSpec, watched: Watched) -> None:
    dataset = load(chats)
    steps: list[int] = []
    fill(watched, dataset, on_progress=steps.append)
    assert steps == [1, 1]
    assert watched.added == [["s2:0", "s2:1", "s1:0", "s1:1", "s1:2"], ["s3:0"]]
    assert watched.pending() == 0
    before = stored(watched)
    assert [(user, turn.external_id) for user, turn in before] == [
        *(("boat", f"s1:{number}") for number in range(3)),
        *(("boat", f"s2:{number}") for number in range(2)),
        ("tea", "s3:0"),
    ]
    fill(watched, dataset)
    assert len(watched.added) == 2
    assert stored(watched) == before


def test_fill_goes_on_where_it_was_stopped(chats: DatasetSpec, watched: Watched) -> None:
    dataset = load(chats)
    second = list(dataset.sessions)[1]
    watched.add_turns(second.turns[:1], user_id="boat")  # a session that is there in part
    watched.added.clear()

    class StoppedError(Exception):
        pass

    def stop(steps: int) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        fill(watched, dataset, on_progress=stop)
    fill(watched, dataset)
    assert watched.added == [["s2:0", "s2:1", "s1:0", "s1:1", "s1:2"], ["s3:0"]]
    with Memory.open(watched.settings.path.with_name("whole.db"), embedder=Counting()) as whole:
        fill(whole, dataset)
        assert stored(whole) == stored(watched)


def test_fill_without_an_embedder_stores(chats: DatasetSpec, tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        fill(memory, load(chats))
        assert memory.users() == ["boat", "tea"]


def test_a_store_with_other_turns_of_a_user_is_refused(chats: DatasetSpec, memory: Memory) -> None:
    fill(memory, load(chats))
    with pytest.raises(InvalidInputError, match="other turns of user 'boat', session 's"):
        fill(memory, load(chats, roles=("user",)))
    memory.add({"role": "user", "content": "More."}, user_id="tea", session_id="s9")
    with pytest.raises(InvalidInputError, match="other turns of user 'tea', session 's9'"):
        fill(memory, load(chats))


def test_a_turn_that_is_refused_is_an_error(chats: DatasetSpec, memory: Memory) -> None:
    memory.add({"role": "user", "content": "Something else.", "id": "s1:0"}, user_id="boat", session_id="s1")
    with pytest.raises(InvalidInputError, match=r"1 turns of user 'boat' can't be stored: .*s1:0"):
        fill(memory, load(chats))


def test_turns_without_an_id_are_never_stored_twice(tmp_path: Path, memory: Memory) -> None:
    messages = [{"role": "user", "content": f"Message {number}."} for number in range(2)]
    twice = {"role": "user", "content": "Known.", "id": "m1"}
    path = lines(tmp_path / "chat.jsonl", [*messages, twice, twice])
    questions = lines(tmp_path / "questions.jsonl", [{"question": "Which?"}])
    dataset = load(DatasetSpec(format="jsonl", path=path, questions=questions))
    fill(memory, dataset)
    fill(memory, dataset)
    assert [turn.text for turn in memory.turns(user_id="own")] == ["Message 0.", "Message 1.", "Known."]
    other = tmp_path / "other"
    other.mkdir()
    with opened(other) as begun:
        begun.add(messages[0], user_id="own", session_id="chat")
        with pytest.raises(InvalidInputError, match="session 'chat'"):
            fill(begun, dataset)
        assert [turn.text for turn in begun.turns(user_id="own")] == ["Message 0."]


def test_evidence_is_read_from_the_record(chats: DatasetSpec, memory: Memory) -> None:
    dataset = load(chats)
    with pytest.raises(NotFoundError):
        evidence_turns(memory, dataset.questions[0])
    fill(memory, dataset)
    found = evidence_turns(memory, dataset.questions[0])
    assert [(turn.text, turn.session_id, turn.external_id) for turn in found] == [("How about Petrel?", "s1", "s1:1")]


# --- gold is out of reach


def test_evl_11_what_is_stored_is_what_add_stores(chats: DatasetSpec, memory: Memory, tmp_path: Path) -> None:
    fill(memory, load(chats))
    other = tmp_path / "other"
    other.mkdir()
    with opened(other) as plain:
        haystack = zip(BOAT["haystack_session_ids"], BOAT["haystack_dates"], BOAT["haystack_sessions"], strict=True)
        for session_id, date, turns in haystack:
            messages = [
                {"role": turn["role"], "content": turn["content"], "id": f"{session_id}:{number}", "timestamp": date}
                for number, turn in enumerate(turns)
            ]
            plain.add(messages, user_id="boat", session_id=session_id)
        assert stored(plain) == [(user, turn) for user, turn in stored(memory) if user == "boat"]


def test_evl_11_the_assistants_turn_is_found(chats: DatasetSpec, memory: Memory) -> None:
    dataset = load(chats)
    fill(memory, dataset)
    hits = memory.search("boat name suggested", user_id="boat")
    assert dataset.questions[0].gold_turns == ("s1:1",)
    assert "How about Petrel?" in [hit.turn.text for hit in hits.items]


def test_evl_11_labels_change_nothing_that_is_stored(chats: DatasetSpec, tmp_path: Path) -> None:
    bare = json.loads(json.dumps([BOAT, TEA]))
    for item in bare:
        del item["answer"], item["answer_session_ids"]
        for session in item["haystack_sessions"]:
            for turn in session:
                turn.pop("has_answer", None)
    path = written(tmp_path / "bare.json", bare)
    made = []
    for name, file in (("labelled", chats.path), ("bare", path)):
        (tmp_path / name).mkdir()
        with opened(tmp_path / name, Counting()) as memory:
            fill(memory, load(chats, path=file))
            questions = [BOAT["question"], TEA["question"]]
            hits = [memory.search(text, user_id=user).items for text in questions for user in memory.users()]
            made.append((stored(memory), [[(hit.turn.turn_id, hit.score) for hit in found] for found in hits]))
    assert made[0] == made[1]
    shown = repr(made[0])
    assert "has_answer" not in shown
    assert BOAT["question"] not in shown


def test_failures_are_the_projects_own(tmp_path: Path) -> None:
    for format_ in ("locomo", "longmemeval"):
        with pytest.raises(BackreadError, match="can't be read"):
            load_dataset(DatasetSpec.model_validate({"format": format_, "path": tmp_path / "none.json"}))
