"""Clients that stamp, wrap, resend, trim, edit and regenerate: the record holds one current copy of each turn."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from chat_samples import said, user
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_samples import opened

from backread import Memory
from backread.server.chat_messages import chain, timed, wrapped
from backread.server.conversations import Conversations, Taken

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
NEWEST = ("plain", "stamp", "time", "context", "footer")
EARLIER = ("plain", "stamp", "spaces")


def dressed(text: str, how: str, number: int) -> str:
    """The words of a user as a client sends them."""
    minute = f"12:{number % 60:02}"
    return {
        "plain": text,
        "stamp": f"[2026-05-01 {minute}] {text}",
        "time": f"2026-05-01 {minute}: {text}",
        "context": f"Open file: notes.md\nCursor: line {number}\n\n{text}",
        "footer": f"{text}\n\n<time>{minute}</time>",
        "spaces": f" {text.replace(' ', '  ')} \r\n",
    }[how]


def bare(text: str) -> str:
    """What was said in a dressed text."""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith(("Open", "Cursor", "<time>"))]
    return " ".join(word for word in lines[-1].split() if not word.startswith(("2026-", "[2026-", "12:")))


@dataclass
class Talk:
    """One conversation of a client, and what was truly said in it.

    Attributes:
        number: tells it from others.
        rounds: words of the user and the reply to them, on the way that the client is on.
        loose: words of a branch that was left and in whose place nothing need be yet.
        style: how the newest words were sent last.
        resent: True when its first reply came twice, so that two clients may have got it.
    """

    number: int
    rounds: list[tuple[str, str]] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    style: str = "plain"
    resent: bool = False


@dataclass(frozen=True)
class Sent:
    """How a client sends a request: how the newest words and the earlier ones look, and how many rounds it keeps."""

    newest: str
    earlier: str
    keep: int | None
    summary: bool


class World:
    """Clients of one user, in front of one memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.kept = memory, Conversations(memory)
        self.number = 0

    def send(self, talk: Talk, words: str, how: Sent, *, again: bool = False) -> Taken:
        self.number += 1
        messages: list[dict[str, Any]] = [{"role": "system", "content": f"It is number {self.number}."}]
        rounds = talk.rounds[:-1] if again else talk.rounds
        if how.keep is not None and how.keep < len(rounds):
            rounds = rounds[-how.keep :]
            messages += [user(f"Summary {self.number} of what was said so far.")] * how.summary
        for earlier, reply in rounds:
            messages += [user(dressed(earlier, how.earlier, self.number)), said(reply)]
        messages.append(user(dressed(words, how.newest, self.number)))
        return self.kept.take("ann", None, messages, NOON + timedelta(minutes=self.number))

    def reply(self, taken: Taken, text: str) -> None:
        self.kept.reply(taken, said(text), NOON + timedelta(minutes=self.number, seconds=5))

    def say(self, talk: Talk, how: Sent, words: str, reply: str, *, lost: bool) -> None:
        taken = self.send(talk, words, how)
        if lost:  # no answer came, or only to the server; it is sent again
            taken = self.send(talk, words, Sent(talk.style, how.earlier, how.keep, how.summary))
        self.reply(taken, reply)
        talk.rounds.append((words, reply))

    def again(self, talk: Talk, how: Sent, reply: str) -> None:
        """The same request, with another reply or the same."""
        words, before = talk.rounds[-1]
        style = "plain" if talk.style == "context" else talk.style
        self.reply(self.send(talk, words, Sent(style, how.earlier, how.keep, how.summary), again=True), reply)
        talk.rounds[-1] = (words, reply)
        talk.resent = talk.resent or (reply == before and len(talk.rounds) == 1)

    def edit(self, talk: Talk, how: Sent, place: int, words: str, reply: str) -> None:
        gone = [text for each in talk.rounds[place:] for text in each]
        talk.loose += gone[2:]
        del talk.rounds[place:]
        self.say(talk, how, words, reply, lost=False)

    def current(self) -> Counter[str]:
        turns = list(self.memory.turns(user_id="ann"))
        old = {turn.supersedes for turn in turns}
        return Counter(bare(turn.text) for turn in turns if turn.turn_id not in old)


HOW = st.builds(
    Sent,
    st.sampled_from(NEWEST),
    st.sampled_from(EARLIER),
    st.none() | st.integers(1, 2),
    st.booleans(),
)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from(["say", "short", "lost", "same", "other", "edit"]), HOW, st.integers(1, 3)
    ),
    min_size=1,
    max_size=9,
)


@settings(max_examples=40)
@given(STEPS)
def test_the_record_holds_one_current_copy_of_each_turn(steps: list[tuple[int, str, Sent, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as memory:
        world, talks = World(memory), (Talk(0), Talk(1))
        for number, (which, kind, how, place) in enumerate(steps):
            talk = talks[which]
            words, reply = f"say {number} of {which}", f"reply {number}"
            if kind in ("same", "other") and talk.rounds:
                world.again(talk, how, talk.rounds[-1][1] if kind == "same" else reply)
            elif kind == "edit" and place < len(talk.rounds) and not talk.resent:
                talk.style = how.newest
                world.edit(talk, how, place, words, reply)
            elif kind != "edit":
                short = kind == "short" and bool(talk.rounds)  # "yes", once more and once more
                lost = kind == "lost"
                talk.style = "plain" if lost and how.newest == "context" else how.newest
                world.say(talk, how, "yes" if short else words, reply, lost=lost)
        expected = Counter(text for talk in talks for each in talk.rounds for text in each)
        loose = Counter(text for talk in talks for text in talk.loose)
        current = world.current()
        assert expected - current == Counter()
        assert current - expected - loose == Counter()
        assert memory.verify().ok


@pytest.mark.parametrize("newest", NEWEST)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_talk_whose_newest_words_are_dressed(newest: str, restarted: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        world, talk = World(memory), Talk(0)
        for number in range(6):
            if restarted:
                world.kept = Conversations(memory)
            world.say(talk, Sent(newest, "plain", None, False), f"say {number}", f"reply {number}", lost=False)
        turns = list(memory.turns(user_id="ann"))
        assert [bare(turn.text) for turn in turns] == [text for each in talk.rounds for text in each]
        assert len({turn.session_id for turn in turns}) == 1


def test_a_request_that_begins_with_the_last_reply(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        world, talk = World(memory), Talk(0)
        for number in range(3):
            world.say(talk, Sent("plain", "plain", None, False), f"say {number}", f"reply {number}", lost=False)
        world.number += 1
        later = NOON + timedelta(minutes=world.number)
        world.reply(world.kept.take("ann", None, [said("reply 2"), user("say 3")], later), "reply 3")
        assert list(world.current().values()) == [1] * 8
        world.kept.take("ann", None, [said("reply 2"), user("elsewhere")], later)  # that is no longer the end
        assert world.current()["reply 2"] == 2


WORDS = "Where is my key?"


@pytest.mark.parametrize(
    "other",
    [dressed(WORDS, how, 7) for how in NEWEST if how != "plain"]
    + [f"Friday, 1 May 2026, 12:00 PM\n{WORDS}", f"(sent at noon) {WORDS}", f"<context>\nx\n</context>\n{WORDS}"],
)
def test_what_stands_around_a_message(other: str) -> None:
    assert wrapped(user(WORDS), user(other))
    assert wrapped(user(other), user(WORDS))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("yes", "yes please do it"),
        ("yes", "oh yes"),
        ("ok", "book"),
        ("works", "12:30 works"),
        ("12:30 works", "13:30 works"),
        ("[12:30]", "[12:45]"),
        ("", "[2026-05-01 12:00]"),
        ("Buy milk\n\nThanks", "Buy bread\n\nThanks"),
        ("my son is Tom", "my son is Tim"),
    ],
)
def test_two_messages_are_two(one: str, other: str) -> None:
    assert not timed(user(one), user(other))
    if one != "works":
        assert not wrapped(user(one), user(other))
    assert chain([user(one)], "") != chain([user(other)], "")


def test_a_time_in_brackets_is_no_part_of_a_message() -> None:
    plain = chain([user(WORDS)], "")
    for stamp in ("[2026-05-01 12:00]", "[Fri May 1 12:00 PM UTC]", "[12:07]", "[2026-05-01T12:00:00Z]"):
        assert chain([user(f"{stamp} {WORDS}")], "") == plain
        assert chain([user(f"{WORDS} {stamp}")], "") == plain
    for other in ("[urgent]", "[3 apples: cut]", "12:07"):
        assert chain([user(f"{other} {WORDS}")], "") != plain
