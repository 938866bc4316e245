"""Choosing a design: a planted winner is found on made-up histories, and nothing where there is nothing to find."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from backread.bench.choose import choice_spec, choose, export_history
from backread.bench.datasets import fill, load_dataset
from backread.bench.deciding import Choice
from backread.bench.report import sections
from backread.bench.results import read_results
from backread.bench.spec import ExperimentSpec, ModelsSpec
from backread.errors import NotFoundError
from backread.importers.jsonl import read_jsonl
from backread.memory import Memory
from backread.settings import Settings
from backread.store.sqlite import SqliteStore
from backread.strategies.registry import STRATEGIES
from backread.wire import json_text

THINGS = (
    *("anchor", "basket", "candle", "drum", "easel", "fiddle", "gutter", "hammock", "icebox", "jacket", "kettle"),
    *("ladder", "mirror", "napkin", "oven", "pillow", "quilt", "rudder", "saddle", "teapot", "umbrella", "violin"),
)
PLACES = (
    *("Riga", "Turku", "Porto", "Lyon", "Gent", "Bergen", "Vilnius", "Cork", "Siena", "Bilbao", "Basel", "Malmo"),
    *("Graz", "Split", "Izmir", "Lodz", "Brno", "Delft", "Evora", "Faro", "Gdansk", "Halle"),
)
FILLER = "Rain fell for a while and somebody left early again."
DESIGNS = ("full_context", "lazymem", "naive_rag", "naive_rag:session")


class Told(NamedTuple):
    """A history: the turns of each session, and questions with the ids of their gold turns."""

    sessions: list[list[str]]
    questions: list[tuple[str, list[str]]]


def beside_the_hit() -> Told:
    """What is asked for stands two turns after the only turn that shares a word with the question."""
    sessions: list[list[str]] = []
    questions: list[tuple[str, list[str]]] = []
    for number, (thing, place) in enumerate(zip(THINGS, PLACES, strict=True)):
        turns = [FILLER] * 14
        turns[9] = f"I want to speak about the {thing} now."
        turns[11] = f"It was {place}, so much is certain."
        sessions.append(turns)
        questions.append((f"Where did my {thing} come from?", [f"m{number}.11"]))
    return Told(sessions, questions)


def scattered() -> Told:
    """What is asked for stands in three sessions, and the budget holds little more than that."""
    sessions: list[list[str]] = []
    questions: list[tuple[str, list[str]]] = []
    for thing, place in zip(THINGS, PLACES, strict=True):
        gold = []
        for part in range(3):
            turns = [FILLER] * 7
            turns[3] = f"The {thing} once more: part {part} of it came from {place}."
            gold.append(f"m{len(sessions)}.3")
            sessions.append(turns)
        questions.append((f"Where did the parts of the {thing} come from?", gold))
    return Told(sessions, questions)


def alike() -> Told:
    """Half of the questions are easier with what stands beside a hit, half without."""
    beside, apart = beside_the_hit(), scattered()
    sessions = beside.sessions[::2]
    questions = [(text, [f"m{place}.11"]) for place, (text, _) in enumerate(beside.questions[::2])]
    for place in range(1, len(THINGS), 2):
        text, gold = apart.questions[place]
        moved = len(sessions)
        sessions += apart.sessions[3 * place : 3 * place + 3]
        questions.append((text, [f"m{moved + part}.3" for part in range(len(gold))]))
    return Told(sessions, questions)


def easy() -> Told:
    """Each question shares its words with one turn: every design that searches shows it."""
    told = beside_the_hit()
    return Told(told.sessions, [(text, [gold.replace(".11", ".9")]) for text, (gold,) in told.questions])


def spec_of(folder: Path, told: Told, **options: Any) -> ExperimentSpec:
    messages = [
        {"id": f"m{number}.{turn}", "session_id": f"s{number:03}", "role": "user", "content": text}
        | {"timestamp": f"2024-{1 + number // 28:02}-{1 + number % 28:02}T09:{turn:02}:00Z"}
        for number, session in enumerate(told.sessions)
        for turn, text in enumerate(session)
    ]
    questions = [{"question": text, "gold_turns": gold} for text, gold in told.questions]
    history, asked = folder / "history.jsonl", folder / "questions.jsonl"
    for path, lines in ((history, messages), (asked, questions)):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    given: dict[str, Any] = {"designs": DESIGNS, "retriever": "bm25", "embedder": "none", "budgets": (180, 220, 260)}
    return choice_spec(history, asked, **given | options)


@contextmanager
def opened(folder: Path) -> Iterator[Memory]:
    with Memory(SqliteStore(folder / "store.db"), Settings(path=folder / "store.db")) as memory:
        yield memory


def chosen(folder: Path, told: Told, **options: Any) -> Choice:
    spec = spec_of(folder, told, **options)
    dataset = load_dataset(spec.dataset)
    with opened(folder) as memory:
        fill(memory, dataset)
        choice = choose(spec, dataset, memory, folder / "out", command="test")
    assert choice is not None
    return choice


def test_windows_are_chosen_where_the_answer_stands_beside_the_hit(tmp_path: Path) -> None:
    choice = chosen(tmp_path, beside_the_hit())
    assert choice.recommended == "lazymem"
    assert choice.contenders == ("lazymem",)
    assert "lazymem is better than naive_rag at 3 of 3 budgets: +1.00" in choice.reason
    assert (choice.measure, choice.questions, choice.clusters) == ("coverage:verbatim", 22, 22)
    best = choice.standings[0]
    assert [row.budget for row in best.budgets] == [180, 220, 260]
    assert [row.value.mean for row in best.budgets] == [1.0, 1.0, 1.0]
    assert all(row.tokens is not None and row.tokens <= 180 for row in best.budgets)
    assert [row.model_tokens for row in best.budgets] == [0.0, 0.0, 0.0]
    standing = {item.strategy: item for item in choice.standings}
    assert not standing["naive_rag:session"].better
    assert not standing["naive_rag:session"].worse
    json_text(choice)


def test_turns_are_kept_where_windows_waste_the_budget(tmp_path: Path) -> None:
    choice = chosen(tmp_path, scattered(), budgets=(100, 120, 140))
    assert choice.recommended == "naive_rag"
    assert choice.contenders == ("naive_rag",)
    assert "better than every other design here" in choice.reason
    assert [item.worse for item in choice.standings] == [False, True, True, True]
    # The report of the same records says the same, and its tables don't speak of better and worse at all.
    (status,) = (part for part in sections(read_results(tmp_path / "out")) if part.title == "Status")
    assert f"For other questions about these histories: {choice.reason}" in status.paragraphs
    assert not any("nothing is called better" in text for text in status.paragraphs)


def test_nothing_is_chosen_where_designs_are_alike(tmp_path: Path) -> None:
    choice = chosen(tmp_path, alike(), designs=("lazymem", "naive_rag"), budgets=(180,))
    assert choice.recommended is None
    assert choice.contenders == ("lazymem", "naive_rag")
    assert choice.reason.startswith("The data can't tell lazymem and naive_rag apart: +0.17 (")
    assert choice.needed is not None
    assert choice.needed > 100
    assert f"About {choice.needed} questions would" in choice.reason


def test_nothing_is_chosen_where_every_design_shows_it(tmp_path: Path) -> None:
    choice = chosen(tmp_path, easy(), designs=("lazymem", "naive_rag"))
    assert choice.recommended is None
    assert choice.needed is None
    assert any("harder questions or smaller budgets" in note for note in choice.notes)


def test_it_goes_on_after_a_stop(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, easy(), designs=("lazymem",), budgets=(180,))
    dataset = load_dataset(spec.dataset)
    stop = threading.Event()
    with opened(tmp_path) as memory:
        fill(memory, dataset)
        out = tmp_path / "out"
        assert choose(spec, dataset, memory, out, command="t", on_progress=lambda _: stop.set(), cancel=stop) is None
        choice = choose(spec, dataset, memory, out, command="t")
    assert choice is not None
    assert choice.questions == 22


def test_the_spec_has_every_design_without_its_ablations_and_the_default_first(tmp_path: Path) -> None:
    spec = choice_spec(tmp_path / "h", tmp_path / "q", budgets=(300,))
    names = [design.strategy for design in spec.designs]
    assert names[0] == "naive_rag"
    assert {name for name in STRATEGIES if ":" not in name} <= set(names)
    assert [name for name in names if ":" in name] == ["naive_rag:round", "naive_rag:session", "naive_rag:user_turn"]
    assert [cell.name for cell in spec.cells()][:2] == ["naive_rag/own/budget=300", "full_context/own/budget=300"]


def test_the_default_is_compared_even_when_it_is_not_named(tmp_path: Path) -> None:
    models = ModelsSpec(answer="a", judge="j")
    spec = choice_spec(tmp_path / "h", tmp_path / "q", designs=["lazymem"], models=models, default="naive_rag:round")
    assert [design.strategy for design in spec.designs] == ["naive_rag:round", "lazymem"]
    assert spec.models == models


def test_an_unknown_design_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        choice_spec(tmp_path / "h", tmp_path / "q", designs=["lazymen"])
    assert "lazymem" in (caught.value.hint or "")


def test_a_history_in_a_store_is_written_as_it_is_read(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, easy())
    dataset = load_dataset(spec.dataset)
    with opened(tmp_path) as memory:
        fill(memory, dataset)
        memory.add({"role": "user", "content": "no id \ud800"}, user_id="bob", session_id="s")
        count = export_history(memory, ["own", "bob"], tmp_path / "export.jsonl")
        turn = next(memory.turns(user_id="bob"))
    read = read_jsonl(tmp_path / "export.jsonl")
    assert count == read.report.turns == 22 * 14 + 1
    assert list(read.sessions)[:-1] == [*dataset.sessions]
    assert list(read.sessions)[-1].turns[0].external_id == turn.turn_id
    assert list(read.sessions)[-1].turns[0].text == "no id \ud800"
