"""Failures other memory systems had when keeping and dating turns, as tests of `Memory` from end to end."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from backread import ConflictError, InvalidInputError, Memory, ModelError
from backread.testing.fakes import FunctionChat, HashEmbedder

SEARCH_MODES: tuple[str, ...] = ("hybrid", "interpolation", "rrf", "bm25", "dense")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory.open(path, embedder=HashEmbedder(256)) as opened:
        yield opened


def said(text: str, **more: object) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def texts_of(memory: Memory, user_id: str) -> list[str]:
    return [turn.text for turn in memory.turns(user_id=user_id)]


class RecordingEmbedder(HashEmbedder):
    """Remembers what it was asked to embed; fails once `allowed` texts were."""

    def __init__(self, dimension: int = 256, *, allowed: int | None = None, name: str = "hash") -> None:
        super().__init__(dimension, name=name)
        self.texts: list[str] = []
        self._allowed = allowed

    def count_tokens(self, text: str) -> int:
        """Characters: much faster than words, and just as good a limit."""
        return len(text)

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        if self._allowed is not None and len(self.texts) >= self._allowed:
            raise KeyboardInterrupt
        self.texts.extend(texts)
        return super().embed(texts, kind=kind)


CONFIG = (
    'Config:\n\n\tretry:  3\n    token = "AbC-12__zZ=="\n'
    "```py\nif a:\n        b()\n```\n  trailing  \r\nline two\u2028end"
)


# VER-02
@pytest.mark.parametrize("text", [CONFIG, "\x00\x01 \ud800 half", " \t lead and trail \n\n", "é e\u0301 ﬁ Å"])
def test_what_goes_in_comes_out(memory: Memory, text: str) -> None:
    (turn_id,) = memory.add(said(text), user_id="ann").turn_ids
    assert memory.get(turn_id, user_id="ann").text == text
    assert texts_of(memory, "ann") == [text]
    assert [message["content"] for message in memory.export(user_id="ann")] == [text]
    for message in memory.export(user_id="ann"):
        session_id = message.pop("session_id")
        assert message.pop("user_id") == "ann"
        memory.add(message, user_id="bo", session_id=session_id)
    assert texts_of(memory, "bo") == [text]


# VER-02
def test_a_hit_holds_the_whole_text(memory: Memory) -> None:
    memory.add(said(CONFIG), user_id="ann")
    assert memory.search("trailing token", user_id="ann")[0].turn.text == CONFIG


KEY = "The spare key is under the blue pot."
HAN = "".join(map(chr, range(0x4E00, 0x4E00 + 500)))


# VER-03
@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["lorem ipsum dolor " * 70_000 + KEY, "x" * 1_000_000 + " " + KEY, HAN * 700 + "。" + KEY],
    ids=["words", "one line without spaces", "CJK"],
)
def test_a_megabyte_in_one_message(path: Path, text: str) -> None:
    embedder = RecordingEmbedder()
    with Memory.open(path, embedder=embedder) as memory:
        tracemalloc.start()
        memory.add(said(text), user_id="ann")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 10 * len(text.encode())
        started = time.monotonic()
        memory.add(said("An ordinary turn about a boat."), user_id="ann")
        assert time.monotonic() - started < 1
        assert memory.search("spare key blue pot", user_id="ann", mode="bm25")[0].turn.text == text
        recall = memory.recall("Where is the spare key?", user_id="ann", budget=200)
        assert ("spare key" if text.startswith("x") else KEY) in recall.rendered
        assert recall.tokens <= 200
        assert memory.index(user_id="ann") == 0
        assert memory.search("spare key blue pot", user_id="ann", mode="dense")[0].turn.text == text
        assert max(map(embedder.count_tokens, embedder.texts)) <= embedder.max_tokens
    embedder.texts.clear()
    with Memory.open(path, embedder=embedder) as memory:  # nothing is tried again for ever
        assert memory.index() == 0
        assert embedder.texts == []
        assert memory.verify().ok


# VER-03
def test_twenty_megabytes_are_refused_before_anything_is_stored(memory: Memory) -> None:
    with pytest.raises(InvalidInputError, match="limit"):
        memory.add(said("lorem ipsum " * 1_700_000), user_id="ann")
    assert memory.users() == []
    assert memory.add(said("An ordinary turn."), user_id="ann").stored == 1


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"role": "assistant", "content": None, "tool_calls": [CALL]}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
PICTURE = {"role": "user", "content": [{"type": "text", "text": ""}, IMAGE]}
PARTS = {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "text", "text": "at this"}]}


# VER-04
@pytest.mark.parametrize("content", ["", "   \n\t", None, [], [{"type": "text", "text": " "}]])
def test_nothing_is_refused(memory: Memory, content: object) -> None:
    with pytest.raises(InvalidInputError):
        memory.add({"role": "user", "content": content}, user_id="ann")
    assert memory.users() == []
    receipt = memory.add([said("one"), {"role": "user", "content": content}, said("two")], user_id="ann")
    assert (receipt.stored, [item.position for item in receipt.rejected]) == (2, [1])
    assert texts_of(memory, "ann") == ["one", "two"]


# VER-04
def test_tool_calls_and_images_are_kept_without_words(path: Path) -> None:
    embedder = RecordingEmbedder()
    with Memory.open(path, embedder=embedder) as memory:
        receipt = memory.add([TOOL, PICTURE, PARTS], user_id="ann")
        assert (receipt.stored, receipt.rejected) == (3, ())
        tool, picture, parts = memory.turns(user_id="ann")
        assert tool.attachments == ({"type": "tool_calls", "tool_calls": [CALL]},)
        assert picture.attachments == (IMAGE,)
        assert (tool.text, picture.text, parts.text) == ("", "", "look\nat this")
        assert memory.index() == 0
        assert embedder.texts == ["look\nat this"]
        assert memory.verify().ok


# VER-04
@pytest.mark.parametrize("messages", [[], [TOOL], [TOOL, PICTURE]], ids=["empty session", "tool call", "and picture"])
def test_no_fact_comes_from_nothing(path: Path, messages: list[dict[str, Any]]) -> None:
    def never(request: object) -> str:
        raise AssertionError("a model was asked about nothing")

    with Memory.open(path, embedder=HashEmbedder(256), model=FunctionChat(never)) as memory:
        receipt = memory.add(messages, user_id="ann", session_id="s0")
        assert receipt.stored == len(messages)
        assert [session.turns for session in memory.sessions(user_id="ann")] == ([len(messages)] if messages else [])
        recall = memory.recall("What does Ann like?", user_id="ann")
        assert (recall.evidence, recall.rendered, recall.overflow) == ((), "", False)
        assert len(memory.search("likes", user_id="ann")) == 0
        assert memory.verify().ok


# VER-05
def test_a_retry_is_one_turn_and_a_repetition_is_two(memory: Memory) -> None:
    code = "The lift code is 4411#"
    first = memory.add(said(code, id="m-1", timestamp="2024-05-01T10:00:00Z"), user_id="ann", session_id="may")
    retry = memory.add(said(code, id="m-1", timestamp="2024-05-01T10:00:00Z"), user_id="ann", session_id="may")
    assert (retry.turn_ids, retry.stored, retry.known) == (first.turn_ids, 0, 1)
    again = memory.add(said(code, timestamp="2024-06-01T10:00:00Z"), user_id="ann", session_id="june")
    assert again.stored == 1
    with ThreadPoolExecutor(2) as pool:
        both = list(
            pool.map(lambda _: memory.add(said("Bins go out", id="k-9"), user_id="ann", session_id="june"), "ab")
        )
    assert both[0].turn_ids == both[1].turn_ids
    assert sum(receipt.stored for receipt in both) == 1
    with pytest.raises(ConflictError, match="m-1"):
        memory.add(said("The lift code is 9999#", id="m-1"), user_id="ann", session_id="may")
    assert texts_of(memory, "ann") == [code, code, "Bins go out"]
    assert memory.get("m-1", user_id="ann").text == code
    for mode in SEARCH_MODES:
        hits = memory.search("lift code", user_id="ann", top_k=3, mode=mode)
        grouped = next(hit for hit in hits if hit.turn.text == code)
        times = sorted(turn.said_at.isoformat() for turn in (grouped.turn, *grouped.also) if turn.said_at)
        assert times == ["2024-05-01T10:00:00+00:00", "2024-06-01T10:00:00+00:00"]
        assert len({hit.turn.text for hit in hits}) == len(hits)


LATE = [
    said("three", id="3", timestamp="2024-05-01T10:00:02Z"),
    said("one", id="1", timestamp="2024-05-01T10:00:00Z"),
    said("two a", id="2a", timestamp="2024-05-01T10:00:01"),
    said("two b", id="2b", timestamp="2024-05-01T12:00:01+02:00"),
    said("unknown time", id="x", timestamp=None),
    said("from the future", id="f", timestamp="2093-01-01T00:00:00Z"),
]


# DAT-05
def test_turns_stand_where_their_time_puts_them(memory: Memory) -> None:
    for message in LATE:
        memory.add(message, user_id="ann", session_id="s")
    for message in reversed(LATE):
        memory.add(message, user_id="bo", session_id="s")
    # A turn of unknown time follows the one it arrived after; equal instants keep the order they arrived in.
    assert texts_of(memory, "ann") == ["one", "two a", "two b", "unknown time", "three", "from the future"]
    assert texts_of(memory, "bo") == ["one", "two b", "two a", "three", "from the future", "unknown time"]
    assert [turn.position for turn in memory.turns(user_id="ann")] == list(range(6))
    two_a, two_b = memory.get("2a", user_id="ann"), memory.get("2b", user_id="ann")
    assert two_a.said_at == two_b.said_at
    assert (two_a.offset_known, two_b.offset_known) == (False, True)


# DAT-05
@pytest.mark.parametrize("mode", SEARCH_MODES)
def test_times_of_every_kind_compare(memory: Memory, mode: str) -> None:
    for message in LATE:
        memory.add({**message, "content": f"parcel {message['content']}"}, user_id="ann", session_id="s")
    between = memory.search(
        "parcel", user_id="ann", after="2024-05-01T10:00:01", before="2024-05-01T10:00:02Z", mode=mode
    )
    assert sorted(hit.turn.text for hit in between) == ["parcel two a", "parcel two b"]
    everything = memory.search("parcel", user_id="ann", mode=mode)
    assert len(everything) == 6
    assert all(np.isfinite(hit.score) and hit.score > 0 for hit in everything)
    recall = memory.recall("parcel", user_id="ann", strategy="full_context")
    assert [line.text.removeprefix("parcel ") for line in recall.evidence] == [
        *("one", "two a", "two b", "unknown time", "three", "from the future")
    ]


ENCODERS = {"enc-b": 128, "enc-c": 64}
IVA = "The tenor is called Iva"
OLA = "The soprano is called Ola"


# EMB-03
@pytest.mark.parametrize(("name", "dimension"), ENCODERS.items())
def test_another_embedder_is_noticed_and_reindexing_settles_it(path: Path, name: str, dimension: int) -> None:
    with Memory.open(path, embedder=HashEmbedder(64, name="enc-a")) as memory:
        memory.add(said(IVA), user_id="ann")
        assert memory.search("tenor", user_id="ann", mode="dense")[0].turn.text == IVA
    with Memory.open(path, embedder=HashEmbedder(dimension, name=name)) as memory:
        assert memory.add(said(OLA), user_id="ann").stored == 1
        assert [hit.turn.text for hit in memory.search("tenor soprano", user_id="ann", mode="bm25")] == [IVA, OLA]
        hits = memory.search("tenor", user_id="ann")
        assert hits[0].turn.text == IVA
        assert [item.part for item in hits.degraded] == ["dense"]
        assert "backread reindex" in hits.degraded[0].reason
        with pytest.raises(ModelError, match="backread reindex") as caught:
            memory.search("tenor", user_id="ann", mode="dense")
        assert "enc-a" in str(caught.value)
        assert name in str(caught.value)
        assert memory.reindex() == 0
        for query, text in (("tenor", IVA), ("soprano", OLA)):
            assert memory.search(query, user_id="ann", mode="dense")[0].turn.text == text
        assert memory.search("tenor", user_id="ann").degraded == ()
        assert memory.verify().ok


# EMB-03
def test_an_interrupted_reindex_leaves_the_old_vectors_in_use_and_goes_on(path: Path) -> None:
    notes = [f"parcel number {number} arrived" for number in range(200)]
    old = HashEmbedder(64, name="enc-a")
    with Memory.open(path, embedder=old) as memory:
        memory.add([said(note) for note in notes], user_id="ann")
        assert memory.index() == 0
        before = memory.search("parcel number 7", user_id="ann", mode="dense")
    with Memory.open(path, embedder=RecordingEmbedder(64, name="enc-c", allowed=100)) as memory:
        with pytest.raises(KeyboardInterrupt):
            memory.reindex()
        with pytest.raises(ModelError, match="backread reindex"):
            memory.search("parcel number 7", user_id="ann", mode="dense")
    with Memory.open(path, embedder=old) as memory:
        assert memory.search("parcel number 7", user_id="ann", mode="dense") == before
    embedder = RecordingEmbedder(64, name="enc-c")
    with Memory.open(path, embedder=embedder) as memory:
        assert memory.reindex() == 0
        assert 0 < len(embedder.texts) < 200
        assert "number 7 " in memory.search("parcel number 7", user_id="ann", mode="dense")[0].turn.text
        assert memory.verify().ok


FILLER = " ".join(f"Filler sentence number {number} says nothing." for number in range(80))
PLAN = f"Here is my plan.\n\nI prefer short answers and I never eat olives.\n\n{FILLER} I grew up in Porto."
TURKU = "I grew up in Turku. My cousin Petra hates skiing."
TALK = [
    {"role": "assistant", "content": PLAN, "id": "plan"},
    {
        "role": "participant",
        "name": "Dana",
        "content": "I grew up in Turku. My cousin Petra hates skiing.",
        "id": "dana",
    },
    {"role": "participant", "name": "Milo", "content": "I am allergic to cats.", "id": "milo"},
    {"role": "participant", "name": "Ayudante", "content": f"Hola. {FILLER} Vivo en Lugo.", "id": "ayudante"},
]


# SEM-01
def test_every_passage_says_who_speaks(path: Path) -> None:
    embedder = RecordingEmbedder()
    with Memory.open(path, embedder=embedder) as memory:
        memory.add(TALK, user_id="ann", session_id="s")
        assert memory.index() == 0
        assert len([text for text in embedder.texts if "Lugo" in text]) == 1
        for text in embedder.texts:
            if "Turku" in text or "Petra" in text:
                assert text.startswith("Dana: ")
            if "Lugo" in text:
                assert text.startswith("Ayudante: ")
            if "Porto" in text or "olives" in text:
                assert not text.startswith(("Dana: ", "Milo: ", "Ayudante: "))


# SEM-01
@pytest.mark.parametrize(
    ("question", "turn", "words"),
    [
        ("Where did Dana grow up?", "dana", "Turku"),
        ("Who is allergic to cats?", "milo", "cats"),
        ("Does Dana dislike skiing?", "dana", "skiing"),
        ("Does anybody eat olives?", "plan", "olives"),
    ],
)
def test_every_line_of_evidence_says_who_spoke(memory: Memory, question: str, turn: str, words: str) -> None:
    memory.add(TALK, user_id="ann", session_id="s")
    recall = memory.recall(question, user_id="ann", budget=150)
    names = {item.turn_id: item.name for item in memory.turns(user_id="ann")}
    assert recall.evidence
    for line in recall.evidence:
        assert line.speaker == names[line.sources[0].turn_id]
        assert f"{line.speaker}: " in recall.rendered
        assert line.cut == (f"cut from turn {line.sources[0].turn_id}" in recall.rendered)
    told = next(line for line in recall.evidence if words in line.text)
    assert told.sources[0].turn_id == memory.get(turn, user_id="ann").turn_id


# SEM-01
@pytest.mark.parametrize("mode", SEARCH_MODES)
def test_a_speaker_filter_gives_only_that_speaker(memory: Memory, mode: str) -> None:
    memory.add(TALK, user_id="ann", session_id="s")
    hits = memory.search("I grew up", user_id="ann", speaker="Dana", mode=mode)
    assert [hit.turn.speaker for hit in hits] == ["Dana"]
