"""From turns to rounds to batches: who rides along, what waits, and what a turn that comes late does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lightmem_samples import book, context, facts_of, keep, lightmem, messages_of, said, told
from numpy.typing import NDArray

from backread.construction.compression import WholeText
from backread.store.sqlite import SqliteStore
from backread.strategies.lightmem.buffers import Message, Round
from backread.strategies.lightmem.gathering import rounds
from backread.strategies.lightmem.reading import Reading
from backread.strategies.lightmem.settings import Settings
from backread.testing.fakes import ChatRequest, HashEmbedder
from backread.text.tokens import EstimateCounter


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "s.db")
    yield opened
    opened.close()


def test_a_round_is_a_turn_of_a_person_and_what_follows_it(store: SqliteStore) -> None:
    drafts = [
        said("a", 0, "0", "system"),
        said("a", 1, "1", "user"),
        said("a", 2, "2", "assistant"),
        said("a", 3, "3", "tool"),
        said("a", 4, "4", "user"),
        said("a", 5, "5", "user"),
        said("b", 6, "6", "assistant"),
        said("c", 7, "7", "participant"),
        said("c", 8, "8", "participant"),
    ]
    found = rounds(keep(store, drafts).turns())
    assert ["".join(turn.text for turn in item) for item in found] == ["0", "123", "4", "5", "6", "7", "8"]


def test_an_open_round_waits_for_its_reply(store: SqliteStore) -> None:
    history = keep(store, [said("s", 0, "I want a lamp"), said("s", 1, "Which lamp?", "assistant")])
    strategy = lightmem(settings=Settings(rate=1.0))
    strategy.build(history, context())
    assert list(book(strategy, history).open) == []
    keep(store, [said("s", 2, "Take brass", "assistant"), said("s", 3, "Fine")])
    strategy.build(history, context())
    first = [turn.turn_id for turn in history.turns()][:3]
    assert book(strategy, history).sensory == (tuple(first),)


def test_a_late_turn_goes_through_the_buffers_when_it_comes(store: SqliteStore) -> None:
    strategy = lightmem(settings=Settings(rate=1.0))
    history = keep(store, [said("s", 0, "I have a brass lamp"), said("t", 90, "I have an oak chair")])
    strategy.build(history, context(), flush=True)
    before = dict(book(strategy, history).batches)
    keep(store, [said("s", 5, "I have a copper kettle")])
    assert "copper" in strategy.recall(history, "kettle", None, context()).rendered
    strategy.build(history, context(), flush=True)
    after = book(strategy, history).batches
    assert told(strategy, history) == ["I have a brass lamp", "I have a copper kettle", "I have an oak chair"]
    assert after[0] == before[0]  # nothing was read twice
    assert len(after) == 2


def test_turns_in_the_buffers_that_are_gone_leave_them(store: SqliteStore) -> None:
    strategy = lightmem(settings=Settings(rate=1.0))
    history = keep(store, [said("s", 0, "I have a brass lamp"), said("s", 1, "I have a chair"), said("s", 2, "Fine")])
    strategy.build(history, context())
    lamp, chair, _ = (turn.turn_id for turn in history.turns())
    assert list(book(strategy, history).open) == [lamp, chair]
    store.delete("ann", turn_ids=[lamp])
    strategy.build(history, context())
    assert list(book(strategy, history).open) == [chair]


def test_only_people_count_where_only_they_are_read(store: SqliteStore) -> None:
    seen: list[list[str]] = []

    def reply(request: ChatRequest) -> str:
        seen.append([text for *_, text in messages_of(request)])
        return facts_of(request)

    long = "A brass lamp is a lamp of brass. " * 40
    drafts = [said("s", 0, "Which lamp?"), said("s", 1, long, "assistant"), said("s", 2, "I take the brass lamp")]
    history = keep(store, drafts)
    strategy = lightmem(reply, settings=Settings(rate=1.0, sensory=20, short_term=20, user_only=True))
    strategy.build(history, context(), flush=True)
    assert seen == [["Which lamp?", "I take the brass lamp"]]  # the reply takes no room and is not shown
    turn_ids = tuple(turn.turn_id for turn in history.turns())
    assert book(strategy, history).batches[0].turn_ids == turn_ids  # but it went through
    both = lightmem(reply, settings=Settings(rate=1.0, sensory=20, short_term=20))
    seen.clear()
    lightmem_history = keep(store, drafts, "bob")
    both.build(lightmem_history, context(), flush=True)
    assert [len(texts) for texts in seen] == [2, 1]


def test_a_message_is_measured_as_it_is_read(store: SqliteStore) -> None:
    draft = said("s", 0, "I have a brass lamp for 45 euros in Leeds")
    (turn,) = keep(store, [draft]).turns()
    reading = Reading(Settings(rate=1.0), WholeText(), None)
    message = reading.message(turn)
    size = EstimateCounter().count(draft.text)
    assert (message.text, message.sensory, message.short_term, message.human) == (draft.text, size + 2, size, True)
    counted = Reading(Settings(rate=1.0), WholeText(), HashEmbedder()).message(turn)
    assert counted.sensory == 10 + 2  # ten words, as that embedder counts


class Halving:
    """A compressor that keeps the first half of the words, and knows which texts attend to each other."""

    name = "halving"
    fingerprint = "halving-1"

    def __init__(self, attention: NDArray[np.float32] | None = None) -> None:
        self.given = attention
        self.asked: list[str] = []

    def compress(self, text: str, rate: float) -> str:
        self.asked.append(text)
        words = text.split()
        return " ".join(words[: max(1, len(words) // 2)])

    def attention(self, texts: list[str]) -> NDArray[np.float32]:
        self.asked = texts
        assert self.given is not None
        return self.given


def test_a_message_is_compressed_once_and_as_published_until_it_fits_the_model() -> None:
    text = "word " * 1200
    base = Reading(Settings(), Halving(), None)
    published = Reading(Settings(as_published=True), Halving(), None)
    assert len(base.shortened(text).split()) == 600
    # 1200 words, 600, 300: from 512 tokens on it is compressed once more
    assert len(published.shortened(text).split()) == 300
    assert published.shortened("one two three four") == "one two"


def one(turn_id: str, text: str) -> Round:
    return (Message(turn_id, text, 1, 1, human=True), Message(turn_id + "r", f"reply{turn_id}", 0, 0, human=False))


def test_topics_by_similarity_and_attention() -> None:
    texts = ["copper kettle", "copper kettle", "Bergen ferry", "Bergen ferry", "oak chair", "oak chair"]
    run = [one(str(place), text) for place, text in enumerate(texts)]
    alone = Reading(Settings(), WholeText(), HashEmbedder(512))
    assert alone.boundaries(run) == [2, 4]
    peaks = np.zeros((6, 6), np.float32)
    for k, value in enumerate([0.1, 0.2, 0.1, 0.1, 0.1]):
        peaks[k + 1, k] = value
    attending = Halving(peaks)
    assert Reading(Settings(), attending, HashEmbedder(512)).boundaries(run) == [2, 4]  # a peak at 2: both are near
    assert attending.asked == texts  # what people say, without the replies
    none = Halving(np.zeros((6, 6), np.float32))
    assert Reading(Settings(), none, HashEmbedder(512)).boundaries(run) == []  # no peak: one topic
    assert Reading(Settings(), WholeText(), None).boundaries(run) == []


def test_the_published_index_of_a_peak_is_one_lower() -> None:
    """A boundary by similarity four away from a peak is not confirmed, as coded; ours is three away."""
    texts = ["copper kettle"] * 6 + ["Bergen ferry"] * 3
    texts[8] = "oak chair"
    run = [one(str(place), text) for place, text in enumerate(texts)]  # parts before 6 and before 8
    peaks = np.zeros((9, 9), np.float32)
    for k, value in enumerate([0.1, 0.1, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1]):
        peaks[k + 1, k] = value
    embedder = HashEmbedder(512)
    assert Reading(Settings(), Halving(peaks), embedder).boundaries(run) == [6]  # the peak is before 3: 8 is too far
    published = Settings(as_published=True)
    assert Reading(published, Halving(peaks), embedder).boundaries(run) == [6, 8]  # before 2: none is near, all stay
