"""The buffers: when topics are cut, when a batch is full, and that nothing is lost, doubled or written over."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as some

from backread.strategies.lightmem.buffers import Message, Round, Segment, Sensory, ShortTerm


def message(turn_id: str, size: int, *, sensory: int | None = None) -> Message:
    return Message(turn_id, turn_id, size if sensory is None else sensory, size, human=True)


def item(turn_id: str, size: int) -> Round:
    return (message(turn_id, size),)


def ids(segments: Sequence[Segment] | None) -> list[str]:
    return ["".join(message.turn_id for message in segment) for segment in segments or ()]


def nowhere(rounds: Sequence[Round]) -> list[int]:
    return []


def test_a_full_buffer_without_a_boundary_is_one_topic() -> None:
    buffer = Sensory(10, nowhere)
    assert ids(buffer.add(item("a", 4))) == []
    assert ids(buffer.add(item("b", 6))) == []  # 10 of 10
    assert ids(buffer.add(item("c", 1))) == ["ab"]
    assert ids(buffer.flush()) == ["c"]
    assert ids(buffer.flush()) == []


def test_what_stands_behind_the_last_boundary_goes_on() -> None:
    buffer = Sensory(10, lambda rounds: [1])
    for name in "abc":
        assert ids(buffer.add(item(name, 3))) == []
    assert ids(buffer.add(item("d", 3))) == ["a"]  # b and c stay, d fits beside them
    assert [part[0].turn_id for part in buffer.rounds] == ["b", "c", "d"]
    assert ids(buffer.flush()) == ["b", "cd"]


def test_cutting_goes_on_until_there_is_room() -> None:
    buffer = Sensory(10, lambda rounds: [1], [item("a", 2), item("b", 5), item("c", 3)])
    assert ids(buffer.add(item("d", 6))) == ["a", "b"]  # behind a there are 8 left, behind b 3


def test_a_round_larger_than_the_buffer_is_a_topic_of_its_own() -> None:
    buffer = Sensory(10, nowhere)
    assert ids(buffer.add(item("a", 11))) == ["a"]
    buffer.add(item("b", 1))
    assert ids(buffer.add(item("c", 11))) == ["b", "c"]
    assert buffer.rounds == []


def test_what_rides_along_takes_no_room() -> None:
    buffer = Sensory(10, nowhere)
    assert ids(buffer.add((message("a", 10), message("A", 500, sensory=0)))) == []
    assert ids(buffer.add(item("b", 1))) == ["aA"]


def test_flushing_keeps_what_the_same_call_closed() -> None:
    """The released code writes the topics of a forced cut over those that the last round had just closed."""
    buffer = Sensory(10, lambda rounds: [1], [item("a", 4), item("b", 4)])
    closed = buffer.add(item("c", 4))
    assert ids(closed) == ["a"]
    assert ids([*closed, *buffer.flush()]) == ["a", "b", "c"]


def test_a_batch_is_full_when_the_next_topic_would_go_beyond() -> None:
    buffer = ShortTerm(10)
    assert buffer.add(item("a", 4)) is None
    assert buffer.add(item("b", 6)) is None  # 10 is not above 10
    assert ids(buffer.add(item("c", 1))) == ["a", "b"]
    assert buffer.add(item("d", 9)) is None
    assert ids(buffer.add(item("e", 30))) == ["c", "d"]
    assert ids(buffer.add(item("f", 1))) == ["e"]
    assert ids(buffer.flush()) == ["f"]
    assert buffer.flush() is None


@given(
    some.lists(some.integers(0, 14), max_size=30),
    some.sets(some.integers(1, 5)),
    some.integers(0, 30),
)
def test_every_round_comes_out_once_and_in_order(sizes: list[int], at: set[int], interrupted: int) -> None:
    def boundaries(rounds: Sequence[Round]) -> list[int]:
        return sorted(b for b in at if b < len(rounds))

    sensory, short_term = Sensory(10, boundaries), ShortTerm(12)
    batches: list[list[Segment]] = []
    for place, size in enumerate(sizes):
        if place == interrupted:  # as after a build that was stopped: other objects go on with what is in them
            sensory = Sensory(10, boundaries, sensory.rounds)
            short_term = ShortTerm(12, short_term.segments)
        for segment in sensory.add(item(f"{place},", size)):
            batches += [batch for batch in [short_term.add(segment)] if batch]
    for segment in sensory.flush():
        batches += [batch for batch in [short_term.add(segment)] if batch]
    batches += [batch for batch in [short_term.flush()] if batch]
    assert "".join(part for batch in batches for part in ids(batch)) == "".join(f"{n}," for n in range(len(sizes)))
    assert all(batches)
    for batch in batches:
        tokens = sum(message.short_term for segment in batch for message in segment)
        assert tokens <= 12 or len(batch) == 1
