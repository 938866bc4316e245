"""Reading windows side by side, and what is shown of those that could not be read."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from window_samples import decided

from backread.construction.stretches import Stretch
from backread.construction.window_reading import kept_turns, read_windows, shortcomings, window_detail
from backread.strategies.base import Context
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.types import Degradation, Session, Turn

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def window(*texts: str, hits: dict[int, int]) -> Stretch:
    """A window of these texts; `hits` has the place of those that were found."""
    turns = tuple(
        Turn(f"{texts[0]}{number}", "s", number, "user", text, NOON, speaker="Ann", said_at=NOON)
        for number, text in enumerate(texts)
    )
    return Stretch(turns, {turns[number].turn_id: place for number, place in hits.items()})


TEA = window("Tea.", "Black tea.", hits={1: 3})
JAM = window("Jam.", "Plum jam.", hits={0: 0})
KEPT = {"Black tea.": "Ann drinks black tea.", "Jam.": "Ann likes jam."}


def test_windows_keep_their_numbers_and_the_order_given() -> None:
    chat = FunctionChat(lambda request: decided(request, KEPT))
    sessions = {"s": Session("s", 2, NOON, NOON)}
    read = list(read_windows(chat, "What?", None, sessions, [(7, JAM), (2, TEA)], Context(), response_tokens=99))
    assert [made.window for made in read if made is not None] == [7, 2]
    assert {item.max_tokens for item in chat.requests} == {99}
    assert all("Date of the conversation: 2024-05-01" in item.question for item in chat.requests)
    assert read[1] is not None
    detail = window_detail(read[1], TEA)
    assert (detail["window"], detail["session"], detail["turns"], detail["kept"], detail["dropped"]) == (
        2,
        "s",
        2,
        1,
        1,
    )


def test_what_is_kept_stands_best_window_first() -> None:
    chat = FunctionChat(lambda request: decided(request, KEPT))
    read = list(read_windows(chat, "What?", None, {}, [(0, TEA), (1, JAM)], Context()))
    kept = kept_turns([TEA, JAM], read, keep_hits=False)
    assert [(turn.text, text) for turn, text in kept] == [
        ("Jam.", "Ann likes jam."),
        ("Black tea.", "Ann drinks black tea."),
    ]
    assert shortcomings(read, keep_hits=False) == ()


def test_what_could_not_be_read_is_counted_and_its_hits_are_kept_where_asked() -> None:
    cancel = threading.Event()

    def reply(request: ChatRequest) -> str:
        cancel.set()
        return "I can't."

    windows = [JAM, TEA]
    work = Context(cancel=cancel, concurrency=1)
    read = list(read_windows(FunctionChat(reply), "What?", None, {}, list(enumerate(windows)), work))
    assert [made is None for made in read] == [False, True]
    assert [(turn.text, text) for turn, text in kept_turns(windows, read, keep_hits=True)] == [
        ("Jam.", None),
        ("Black tea.", None),
    ]
    assert kept_turns(windows, read, keep_hits=False) == []
    assert shortcomings(read, keep_hits=False) == (
        Degradation("windows", "windows got no valid decisions at two tries: nothing of them is shown", 1),
        Degradation("windows", "windows were not read, as the call was to end: nothing of them is shown", 1),
    )
