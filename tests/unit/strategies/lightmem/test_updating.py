"""The offline update: who is compared with whom, what becomes of an entry, and on which turns it then rests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from lightmem_samples import NOON, book, context, entries, facts_of, keep, lightmem, notes_of, reply_of, said, told

from backread.errors import ModelRequestError
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.strategies.lightmem.settings import Settings
from backread.strategies.lightmem.strategy import LightMem
from backread.strategies.lightmem.updating import cases
from backread.testing.fakes import ChatRequest, HashEmbedder
from backread.text.tokens import EstimateCounter
from backread.types import Entry, Source

BUS = "Ann takes the bus to work each morning"
BIKE = "Ann takes the bike to work each morning"
TEA = "Zebras drink lemonade under umbrellas"
DAY = 24 * 60
ONE_TOPIC_A_BATCH = Settings(rate=1.0, sensory=1, short_term=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "s.db")
    yield opened
    opened.close()


@pytest.fixture
def history(store: SqliteStore) -> History:
    return keep(store, [said("a", 0, BUS), said("b", DAY, TEA), said("c", 2 * DAY, BIKE)])


class Script:
    """Facts word for word; of a note about the bus it says what it is told to."""

    def __init__(self, action: str = "ignore", text: str = "") -> None:
        self.action, self.text = action, text
        self.compared: list[list[str]] = []

    def __call__(self, request: ChatRequest) -> str:
        notes = notes_of(request)
        if not notes:
            return facts_of(request)
        self.compared.append(notes)
        return json.dumps({"action": self.action, "new_memory": self.text})


def built(script: Script, history: History, settings: Settings = ONE_TOPIC_A_BATCH) -> LightMem:
    strategy = lightmem(script, settings=settings, embedder=HashEmbedder(512))
    strategy.build(history, context(), flush=True)
    return strategy


def entry(number: int, minute: int) -> Entry:
    said_at = NOON + timedelta(minutes=minute)
    data = {"fact": f"fact {number}", "speaker": "user"}
    return Entry(f"fact:0:{number}", "lightmem", "fact", data, "", (Source("t"),), said_at, None, None, 1)


def test_later_entries_may_change_the_earlier_ones_they_are_most_like() -> None:
    # cosines: 0-1 .8, 0-2 .6, 1-2 .96 (worked from the components)
    vectors = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8]], np.float32)
    given = [entry(0, 0), entry(1, 5), entry(2, 9)]
    found = cases(given, vectors, Settings())
    assert [(case.target.entry_id, [other.entry_id for other in case.later]) for case in found] == [
        ("fact:0:0", ["fact:0:1"]),  # .8 is enough
        ("fact:0:1", ["fact:0:2"]),
    ]
    found = cases(given, vectors, Settings(threshold=0.5))
    assert [[other.entry_id for other in case.later] for case in found] == [["fact:0:1", "fact:0:2"], ["fact:0:2"]]
    # with one neighbour, entry 2 is only compared with 1, the one it is most like
    found = cases(given, vectors, Settings(threshold=0.5, kept_neighbours=1))
    assert [[other.entry_id for other in case.later] for case in found] == [["fact:0:1"], ["fact:0:2"]]
    # of two neighbours one is the entry itself
    assert cases(given, vectors, Settings(threshold=0.5, neighbours=1)) == []
    assert cases(given[:1], vectors[:1], Settings()) == []


def test_what_the_model_is_shown(history: History) -> None:
    script = Script()
    strategy = built(script, history)
    report = strategy.maintain(history, context())
    assert script.compared == [[f"user: {BUS}", f"user: {BIKE}"]]  # nothing is like the zebras
    assert (report.put, report.dropped, report.failed) == (0, 0, ())
    assert sum(usage.calls for usage in report.usage) == 1
    assert told(strategy, history) == [BUS, TEA, BIKE]


def test_an_update_rests_on_all_it_was_made_from(history: History) -> None:
    now = "Ann took the bus to work (2024-05-01) and takes the bike since 2024-05-03"
    strategy = built(Script("update", now), history)
    report = strategy.maintain(history, context())
    bus, _, bike = history.turns()
    assert report.put == 1
    changed = next(item for item in entries(strategy, history) if item.data["fact"] == now)
    assert [source.turn_id for source in changed.sources] == [bike.turn_id, bus.turn_id]
    assert changed.entry_id == "fact:0:0"
    assert changed.said_at == bike.said_at  # what it says is of then
    assert changed.data["first_said"] == NOON.isoformat()
    assert changed.data["updates"] == 1
    assert "user: " + now in changed.index_text
    recall = strategy.recall(history, "What about the bus?", None, context())
    line = next(line for line in recall.evidence if line.text == now)
    assert {source.turn_id for source in line.sources} == {bus.turn_id, bike.turn_id}
    assert (line.kind, line.time, line.speaker) == ("rewrite", bike.said_at, "user")


def test_a_new_text_is_found_by_its_new_words(history: History) -> None:
    """The released code keeps the vector of the old text."""
    now = "Since May Ann commutes on a velocipede, no bus to work"
    strategy = built(Script("update", now), history)
    strategy.maintain(history, context())
    recall = strategy.recall(history, "velocipede", None, context())
    assert [line.text for line in recall.evidence] == [now]
    assert [line.text for line in strategy.recall(history, "each morning", None, context()).evidence] == [BIKE]


def test_a_deleted_entry_is_gone_and_its_turn_stays(store: SqliteStore, history: History) -> None:
    strategy = built(Script("delete"), history)
    report = strategy.maintain(history, context())
    assert report.dropped == 1
    assert told(strategy, history) == [TEA, BIKE]
    assert [turn.text for turn in history.turns()] == [BUS, TEA, BIKE]
    assert strategy.build(history, context(), flush=True).put == 0  # and it does not come back
    assert told(strategy, history) == [TEA, BIKE]


def test_what_changed_an_entry_counts_as_its_source(store: SqliteStore, history: History) -> None:  # DEL-01
    """When the later turn is deleted, the earlier fact is as it was before; no word of the later one is left."""
    for action, text in (("update", "Ann takes the bus, then the bike"), ("delete", "")):
        user = f"ann-{action}"
        there = keep(store, [said("a", 0, BUS), said("c", 2 * DAY, BIKE)], user)
        strategy = built(Script(action, text), there)
        strategy.maintain(there, context())
        later = [*there.turns()][1].turn_id
        store.delete(user, turn_ids=[later])
        assert not any("bike" in item.index_text for item in entries(strategy, there))
        assert "bus" in strategy.recall(there, "the bus to work", None, context()).rendered  # raw until it is built
        strategy.build(there, context(), flush=True)
        assert told(strategy, there) == [BUS]
        assert there.turns_to_rebuild("lightmem") == []


def test_the_record_as_it_stood_before_an_update(store: SqliteStore, history: History) -> None:  # SEM-03
    strategy = built(Script("update", "Ann takes the bus, then the bike to work"), history)
    strategy.maintain(history, context())
    view = History(store, "ann", as_of=NOON + timedelta(days=1))
    recall = strategy.recall(view, "How does Ann get to work?", None, context())
    assert "bus" in recall.rendered
    assert "bike" not in recall.rendered
    assert all(line.time is None or line.time <= NOON + timedelta(days=1) for line in recall.evidence)


@pytest.mark.parametrize("action", ["ignore", "update", "delete"])
def test_nothing_is_compared_twice(history: History, action: str) -> None:
    script = Script(action, BUS if action == "update" else "")
    strategy = built(script, history)
    strategy.maintain(history, context())
    version, _, _ = strategy.shelf.book(history)
    asked = len(script.compared)
    strategy.maintain(history, context())
    strategy.maintain(history, context())
    assert (asked, len(script.compared)) == (1, 1)
    noted = strategy.shelf.book(history)[0]
    strategy.maintain(history, context())  # nothing changed since a run that changed nothing: not even a commit
    assert strategy.shelf.book(history)[0] == noted
    assert noted <= version + 1


def test_nothing_is_embedded_when_nothing_changed(history: History) -> None:
    class Counting(HashEmbedder):
        calls = 0

        def embed(self, *args: object, **more: object) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
            Counting.calls += 1
            return super().embed(*args, **more)  # type: ignore[arg-type]

    strategy = lightmem(Script(), settings=ONE_TOPIC_A_BATCH, embedder=Counting(512))
    strategy.build(history, context(), flush=True)
    strategy.maintain(history, context())
    before = Counting.calls
    strategy.maintain(history, context())
    assert Counting.calls == before


def test_an_update_that_says_nothing_of_its_sources_is_not_taken(history: History) -> None:
    strategy = built(Script("update", "Ada visited Ghent (2021-03-10)"), history)
    report = strategy.maintain(history, context())
    assert report.put == 0
    assert told(strategy, history) == [BUS, TEA, BIKE]
    assert [(item.part, item.count) for item in report.degraded] == [("update", 1)]


def test_an_entry_the_model_failed_on_is_tried_again(history: History) -> None:
    down = True

    def reply(request: ChatRequest) -> str:
        if not notes_of(request):
            return facts_of(request)
        if down:
            raise ModelRequestError("the model is down")
        return json.dumps({"action": "delete", "new_memory": ""})

    strategy = lightmem(reply, settings=ONE_TOPIC_A_BATCH, embedder=HashEmbedder(512))
    strategy.build(history, context(), flush=True)
    report = strategy.maintain(history, context())
    assert report.failed == (("a", "the model is down"),)
    down = False
    assert strategy.maintain(history, context()).dropped == 1


def test_a_run_that_is_cancelled_says_what_it_left(history: History) -> None:
    strategy = built(Script("delete"), history)
    cancel = threading.Event()
    cancel.set()
    ctx = Context(counter=EstimateCounter(), cancel=cancel)
    report = strategy.maintain(history, ctx)
    assert [(item.part, item.count) for item in report.degraded] == [("update", 1)]
    assert strategy.maintain(history, context()).dropped == 1


def test_a_turn_deleted_during_the_call_is_not_in_what_is_written(store: SqliteStore, history: History) -> None:
    later = [*history.turns()][2].turn_id

    def reply(request: ChatRequest) -> str:
        if not notes_of(request):
            return facts_of(request)
        store.delete("ann", turn_ids=[later])
        return json.dumps({"action": "update", "new_memory": "Ann takes the bus, and the bike to work"})

    strategy = lightmem(reply, settings=ONE_TOPIC_A_BATCH, embedder=HashEmbedder(512))
    strategy.build(history, context(), flush=True)
    report = strategy.maintain(history, context())
    assert report.put == 0
    assert [item.count for item in report.degraded] == [1]
    assert told(strategy, history) == [BUS, TEA]


def test_all_decisions_are_made_on_one_snapshot(store: SqliteStore) -> None:
    """The middle one of three is updated, and the first is decided by the words that the middle one had before."""
    tram = "Ann takes the tram to work each morning"
    history = keep(store, [said("a", 0, BUS), said("b", DAY, BIKE), said("c", 2 * DAY, tram)])
    script = Script("update", "Ann takes a car to work")
    strategy = built(script, history)
    strategy.maintain(history, context())
    assert script.compared == [[f"user: {text}" for text in (BUS, BIKE, tram)], [f"user: {BIKE}", f"user: {tram}"]]


def test_facts_of_one_moment_change_the_earlier_of_them_only(store: SqliteStore) -> None:
    """The released code compares both ways, so that two entries can each be dropped for the other."""
    history = keep(store, [said("a", 0, f"{BUS}. {BIKE}.")])

    def reply(request: ChatRequest) -> str:
        if notes_of(request):
            return json.dumps({"action": "delete", "new_memory": ""})
        return reply_of((1, BUS), (1, BIKE))

    strategy = lightmem(reply, embedder=HashEmbedder(512))
    strategy.build(history, context(), flush=True)
    assert strategy.maintain(history, context()).dropped == 1
    assert told(strategy, history) == [BIKE]


def test_entries_of_unknown_time_are_left_alone(store: SqliteStore) -> None:
    history = keep(store, [said("a", None, BUS), said("b", None, BIKE)])
    script = Script("delete")
    strategy = built(script, history)
    strategy.maintain(history, context())
    assert script.compared == []


def test_a_rebuilt_batch_is_compared_again(store: SqliteStore, history: History) -> None:
    script = Script()
    settings = Settings(rate=1.0)
    strategy = built(script, history, settings)
    strategy.maintain(history, context())
    tea = [*history.turns()][1].turn_id
    store.delete("ann", turn_ids=[tea])
    strategy.build(history, context())
    strategy.maintain(history, context())
    assert len(script.compared) == 2
    assert list(book(strategy, history).compared) == ["fact:0:0"]


def test_without_an_embedder_it_says_so(history: History) -> None:
    strategy = lightmem()
    strategy.build(history, context(), flush=True)
    assert [item.part for item in strategy.maintain(history, context()).degraded] == ["update"]
    assert lightmem(None).maintain(history, context()).degraded == ()
