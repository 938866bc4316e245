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
from backread.bench.spec import ExperimentSpec, ModelsSpec
from backread.errors import InvalidInputError, NotFoundError
from backread.memory import Memory
from backread.settings import Settings
from backread.store.sqlite import SqliteStore
from backread.strategies.registry import STRATEGIES

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
    sessions, questions = [], []
    for number, (thing, place) in enumerate(zip(THINGS, PLACES, strict=True)):
        turns = [FILLER] * 14
        turns[9] = f"I want to speak about the {thing} now."
        turns[11] = f"It was {place}, so much is certain."
        sessions.append(turns)
        questions.append((f"Where did my {thing} come from?", [f"m{number}.11"]))
    return Told(sessions, questions)


def scattered() -> Told:
    """What is asked for stands in three sessions, and the budget holds little more than that."""
    sessions, questions = [], []
    for number, (thing, place) in enumerate(zip(THINGS, PLACES, strict=True)):
        gold = []
        for part in range(3):
            turns = [FILLER] * 7
            turns[3] = f"The {thing} once more: part {part} of it came from {place}."
            gold.append(f"m{len(sessions)}.3")
            sessions.append(turns)
        questions.append((f"Where did the parts of the {thing} come from?", gold))
        del number
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
    given: dict[str, Any] = {"designs": DESIGNS, "retriever": "bm25", "embedder": "none", "budgets": (100, 120, 140)}
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
    assert choice.recommended == "lazymem", choice


def test_turns_are_kept_where_windows_waste_the_budget(tmp_path: Path) -> None:
    choice = chosen(tmp_path, scattered())
    assert choice.recommended == "naive_rag", choice


def test_nothing_is_chosen_where_designs_are_alike(tmp_path: Path) -> None:
    choice = chosen(tmp_path, alike(), designs=("lazymem", "naive_rag"))
    assert choice.recommended is None, choice
