"""Conversations that clients send again and again: each turn is kept once, and goes where it belongs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_samples import opened

from backread import InvalidInputError, Memory
from backread.server.chat_messages import name_of
from backread.server.conversations import Conversations, Taken, chain, last_user_place, text_of

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SYSTEM = {"role": "system", "content": "Be kind."}


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def said(text: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


class Client:
    """A chat client: it sends everything every time, and gets its replies kept."""

    def __init__(self, memory: Memory, session_id: str | None = None) -> None:
        self.memory, self.session_id = memory, session_id
        self.kept = Conversations(memory)
        self.now = NOON

    def take(self, *messages: dict[str, Any]) -> Taken:
        self.now += timedelta(minutes=1)
        return self.kept.take("ann", self.session_id, messages, self.now)

    def chat(self, *messages: dict[str, Any], reply: str) -> Taken:
        taken = self.take(*messages)
        self.kept.reply(taken, said(reply), self.now + timedelta(seconds=5))
        return taken

    def sessions(self) -> dict[str, list[str]]:
        """The texts of each session, in order."""
        found: dict[str, list[str]] = {}
        for turn in self.memory.turns(user_id="ann"):
            found.setdefault(turn.session_id, []).append(turn.text)
        return found


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def client(memory: Memory) -> Client:
    return Client(memory)


class TestChain:
    def test_an_id_stands_for_all_that_led_to_it(self) -> None:
        first = chain([user("a"), said("b"), user("c")], "")
        assert len(set(first)) == 3
        assert chain([user("a"), said("b")], "") == first[:2]
        assert chain([user("x"), said("b"), user("c")], "")[2] != first[2]
        assert chain([user("a")], "other") != first[:1]

    @pytest.mark.parametrize(
        "again",
        [
            said("Hi."),
            said(" Hi.\n"),
            said("<think>a greeting</think>Hi."),
            {**said([{"type": "text", "text": "Hi."}]), "refusal": None, "annotations": [], "audio": None},  # type: ignore[arg-type]
            said("Hi.", tool_calls=[], function_call=None, reasoning_content="a greeting", name=""),
        ],
        ids=str,
    )
    def test_what_clients_do_to_a_reply_changes_nothing(self, again: dict[str, Any]) -> None:
        assert chain([user("a"), again], "") == chain([user("a"), said("Hi.")], "")

    @pytest.mark.parametrize(
        "other",
        [
            said("Hi!"),
            user("Hi."),
            said("Hi.", name="Bo"),
            said("Hi.", tool_calls=[{"id": "t", "function": {"name": "f", "arguments": "{}"}}]),
            {"role": "tool", "content": "Hi.", "tool_call_id": "t1"},
            user([{"type": "text", "text": "Hi."}, {"type": "image_url", "image_url": {"url": "u"}}]),  # type: ignore[arg-type]
        ],
        ids=str,
    )
    def test_what_makes_another_message(self, other: dict[str, Any]) -> None:
        assert chain([user("a"), other], "")[1] != chain([user("a"), said("Hi.")], "")[1]

    def test_arguments_of_a_call_are_compared_by_what_they_say(self) -> None:
        def calling(arguments: str) -> dict[str, Any]:
            return said(
                None, tool_calls=[{"id": "t", "type": "function", "function": {"name": "f", "arguments": arguments}}]
            )

        assert chain([calling('{"a": 1, "b": 2}')], "") == chain([calling('{"b":2,"a":1}')], "")
        assert chain([calling('{"a": 1')], "") != chain([calling('{"a": 2')], "")


class TestTake:
    def test_only_what_is_new_is_kept(self, client: Client, memory: Memory) -> None:
        first = client.chat(SYSTEM, user("My cat is Pixel."), reply="A fine name.")
        second = client.chat(
            {"role": "system", "content": "Be kind. It is 12:02."},
            user("My cat is Pixel."),
            said("A fine name."),
            user("She is grey."),
            reply="Noted.",
        )
        assert (len(first.stored), len(second.stored)) == (1, 1)
        assert first.session_id == second.session_id
        assert client.sessions() == {first.session_id: ["My cat is Pixel.", "A fine name.", "She is grey.", "Noted."]}
        turns = list(memory.turns(user_id="ann"))
        assert [turn.said_at for turn in turns] == [
            NOON + timedelta(minutes=1),
            NOON + timedelta(minutes=1, seconds=5),
            NOON + timedelta(minutes=2),
            NOON + timedelta(minutes=2, seconds=5),
        ]
        assert [turn.turn_id for turn in turns[:3]] == list(second.turn_ids)

    def test_the_same_request_again_keeps_nothing(self, client: Client) -> None:
        client.chat(user("a"), reply="b")
        before = client.sessions()
        again = client.chat(user("a"), reply="b")
        assert (again.stored, client.sessions()) == ((), before)
        assert len(again.later) == 1  # the reply it had
        other = client.chat(user("a"), reply="c")  # asked for another reply
        assert client.sessions() == {other.session_id: ["a", "b", "c"]}

    def test_an_edit_begins_a_branch_and_repeats_nothing(self, client: Client) -> None:
        trunk = client.chat(user("a"), reply="b")
        client.chat(user("a"), said("b"), user("c"), reply="d")
        branch = client.chat(user("a"), said("b"), user("C"), reply="D")
        client.chat(user("a"), said("b"), user("C"), said("D"), user("e"), reply="f")
        assert client.sessions() == {trunk.session_id: ["a", "b", "c", "d"], branch.session_id: ["C", "D", "e", "f"]}
        assert len(branch.turn_ids) == 3
        first = client.chat(user("A"), reply="b")
        assert client.sessions()[first.session_id or ""] == ["A", "b"]

    def current(self, memory: Memory) -> list[str]:
        turns = list(memory.turns(user_id="ann"))
        old = {turn.supersedes for turn in turns}
        return [turn.text for turn in turns if turn.turn_id not in old]

    # PXY-03
    def test_what_an_edit_left_is_not_current(self, client: Client, memory: Memory) -> None:
        client.chat(user("a"), reply="b")
        client.chat(user("a"), said("b"), user("c"), reply="d")
        client.chat(user("a"), said("b"), user("c"), said("d"), user("e"), reply="f")
        client.chat(user("a"), said("b"), user("C"), reply="D")
        assert self.current(memory) == ["a", "b", "e", "f", "C", "D"]  # nothing is in the place of the last two yet
        client.chat(user("a"), said("b"), user("C"), said("D"), user("E"), reply="F")
        assert self.current(memory) == ["a", "b", "C", "D", "E", "F"]
        assert len(list(memory.turns(user_id="ann"))) == 10

    def test_what_was_left_and_is_gone_on_from_is_current_again(self, client: Client, memory: Memory) -> None:
        talk = [user("a"), said("b")]
        client.chat(*talk[:1], reply="b")
        client.chat(*talk, user("c"), reply="d")
        client.chat(*talk, user("C"), reply="D")
        client.chat(*talk, user("c"), said("d"), user("e"), reply="f")
        assert sorted(self.current(memory)) == ["a", "b", "c", "d", "e", "f"]
        before = len(list(memory.turns(user_id="ann")))
        client.chat(*talk, user("c"), said("d"), user("e"), reply="f")
        assert len(list(memory.turns(user_id="ann"))) == before

    @pytest.mark.parametrize("goes_on", ["one", "two", "three"])
    def test_of_many_drafts_the_one_gone_on_from_is_current(self, client: Client, memory: Memory, goes_on: str) -> None:
        for reply in ("one", "two", "three", "two"):
            client.chat(user("a"), reply=reply)
        assert self.current(memory) == ["a", "two"]
        client.chat(user("a"), said(goes_on), user("b"), reply="c")
        assert self.current(memory) == ["a", goes_on, "b", "c"]

    def test_parallel_talks_that_begin_with_the_same_words_stay(self, client: Client, memory: Memory) -> None:
        """One reply each, or the same: neither is taken for the other's draft or edit."""
        for first, second in (("r", "r"), ("r1", "r2")):
            opening = user(f"Hi {first}{second}")
            client.chat(opening, reply=first)
            client.chat(opening, reply=second)
            client.chat(opening, said(first), user("my train is at six"), reply="ok1")
            client.chat(opening, said(second), user("my train is at nine"), reply="ok2")
            client.chat(opening, said(first), user("my train is at six"), said("ok1"), user("x"), reply="y")
            expected = {opening["content"], first, second, "my train is at six", "my train is at nine", "ok1", "ok2"}
            sessions = {turn.session_id for turn in memory.turns(user_id="ann")}
            current = self.current(memory)
            assert sorted(current) == sorted([*expected, "x", "y"])
            for session in sessions:
                memory.delete(user_id="ann", session_id=session)

    def test_the_same_opening_on_another_day_hides_nothing(self, client: Client, memory: Memory) -> None:
        client.chat(user("Hi"), reply="Hello!")
        client.chat(user("Hi"), said("Hello!"), user("My flight is on Tuesday."), reply="Noted.")
        client.kept = Conversations(memory)  # the server was started anew
        client.chat(user("Hi"), reply="Hello!")
        client.chat(user("Hi"), said("Hello!"), user("Is it cold?"), reply="Yes.")
        assert {"My flight is on Tuesday.", "Noted.", "Is it cold?", "Yes."} <= set(self.current(memory))

    def test_examples_that_every_request_begins_with_make_no_edits(self, client: Client, memory: Memory) -> None:
        examples = [user("2+2"), said("4"), user("3+3"), said("6")]
        for text in ("my son is Tom", "my dog is Rex", "my cat is Pixel"):
            client.chat(*examples, user(text), reply=f"Noted: {text}")
        assert [text for text in self.current(memory) if text.startswith("my")] == [
            "my son is Tom",
            "my dog is Rex",
            "my cat is Pixel",
        ]

    def test_what_was_corrected_by_other_means_stays_corrected(self, client: Client, memory: Memory) -> None:
        client.chat(user("My train is at six."), reply="Noted.")
        old = next(iter(memory.turns(user_id="ann")))
        memory.add(user("My train is at nine.", supersedes=old.turn_id), user_id="ann")
        client.chat(user("My train is at six."), said("Noted."), user("Thanks."), reply="Welcome.")
        assert sorted(self.current(memory)) == ["My train is at nine.", "Noted.", "Thanks.", "Welcome."]

    def test_a_session_that_has_a_name(self, memory: Memory) -> None:
        client, other = Client(memory, "monday"), Client(memory, "tuesday")
        for each in (client, other):
            each.chat(user("a"), reply="b")
            each.chat(user("a"), said("b"), user("c"), reply="d")
        client.chat(user("a"), said("b"), user("C"), reply="D")  # a branch stays in it
        assert client.sessions() == {"monday": ["a", "b", "c", "d", "C", "D"], "tuesday": ["a", "b", "c", "d"]}

    def test_repetitions_are_turns_of_their_own(self, client: Client) -> None:
        talk: list[dict[str, Any]] = []
        for _ in range(4):
            talk += [user("ping")]
            client.chat(*talk, reply="pong")
            talk += [said("pong")]
        assert list(client.sessions().values()) == [["ping", "pong"] * 4]

    def test_a_talk_that_began_elsewhere_has_no_times(self, client: Client, memory: Memory) -> None:
        client.chat(user("a"), said("b"), user("c"), said("d"), user("e"), reply="f")
        turns = list(memory.turns(user_id="ann"))
        assert [turn.text for turn in turns] == ["a", "b", "c", "d", "e", "f"]
        assert [turn.said_at is None for turn in turns] == [True, True, True, True, False, False]

    def test_one_of_several_replies_is_kept_when_it_is_gone_on_from(self, client: Client) -> None:
        client.take(user("a"))
        taken = client.chat(user("a"), said("b2"), user("c"), reply="d")
        assert client.sessions() == {taken.session_id: ["a", "b2", "c", "d"]}

    def test_tools(self, client: Client, memory: Memory) -> None:
        calls = [{"id": "t1", "type": "function", "function": {"name": "find", "arguments": '{"q": "key"}'}}]
        asked = [user("Where is the key?"), said(None, tool_calls=calls)]
        taken = client.take(asked[0])
        client.kept.reply(taken, asked[1], client.now)
        answer = {"role": "tool", "tool_call_id": "t1", "content": "under the pot"}
        taken = client.chat(*asked, answer, reply="Under the pot.")
        turns = list(memory.turns(user_id="ann"))
        assert [(turn.role, turn.text) for turn in turns] == [
            ("user", "Where is the key?"),
            ("assistant", ""),
            ("tool", "under the pot"),
            ("assistant", "Under the pot."),
        ]
        assert turns[1].attachments == ({"type": "tool_calls", "tool_calls": calls},)
        assert turns[2].attachments == ({"type": "tool_call_id", "tool_call_id": "t1"},)
        assert taken.degraded == ()

    def test_what_tools_gave_in_any_order_or_left_out(self, client: Client, memory: Memory) -> None:
        calls = [
            {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in ("t2", "t1")
        ]
        given = [{"role": "tool", "tool_call_id": name, "content": f"result {name}"} for name in ("t1", "t2")]
        taken = client.take(user("Where is the key?"))
        client.kept.reply(taken, said(None, tool_calls=calls), client.now)
        asked = [user("Where is the key?"), said(None, tool_calls=calls)]
        client.chat(*asked, *given, reply="Under the pot.")
        client.chat(*asked, *reversed(given), reply="Under the pot.")
        client.chat(*asked, given[1], given[0], said("Under the pot."), user("Thanks."), reply="Welcome.")
        talk = [asked[0], said("Under the pot."), user("Thanks."), said("Welcome.")]  # without what tools gave
        client.chat(*talk, user("One more."), reply="Yes?")
        client.chat(*talk[:2], *given, *talk[2:], user("One more."), said("Yes?"), user("No."), reply="Fine.")
        assert [turn.text for turn in memory.turns(user_id="ann")] == [
            "Where is the key?",
            "",
            "result t2",
            "result t1",
            "Under the pot.",
            "Thanks.",
            "Welcome.",
            "One more.",
            "Yes?",
            "No.",
            "Fine.",
        ]

    def test_parts_that_are_no_text_are_attachments(self, client: Client, memory: Memory) -> None:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        content: Any = [{"type": "text", "text": "What is this?"}, image]
        client.take(user(content))
        (turn,) = memory.turns(user_id="ann")
        assert (turn.text, turn.attachments) == ("What is this?", (image,))

    @pytest.mark.parametrize("content", ["", " \n", None, [], [{"type": "text", "text": ""}]], ids=repr)
    def test_a_message_that_says_nothing_is_passed_over(self, client: Client, content: Any) -> None:
        taken = client.chat(user(content), said("Hello?"), user("a"), reply="b")
        assert (client.sessions(), taken.degraded) == ({taken.session_id: ["Hello?", "a", "b"]}, ())

    def test_keys_that_are_not_known_don_t_keep_a_message_out(self, client: Client) -> None:
        taken = client.take(user("a", cache_control={"type": "ephemeral"}, name=""), said("b", reasoning_content="…"))
        assert (client.sessions(), taken.degraded) == ({taken.session_id: ["a", "b"]}, ())

    def test_what_can_t_be_kept_is_said(self, client: Client) -> None:
        taken = client.take(user("a"), {"role": "oracle", "content": "b"}, user("c"))
        assert client.sessions() == {taken.session_id: ["a", "c"]}
        assert [(item.part, item.count) for item in taken.degraded] == [("store", 1)]
        assert "unknown role 'oracle'" in taken.degraded[0].reason
        alone = client.take(user("x" * 9_000_000))
        assert "is over the limit" in alone.degraded[0].reason
        assert alone.turn_ids == ()

    @pytest.mark.parametrize("messages", [["x"], [{"content": "x"}], [{"role": 3}], [None]], ids=repr)
    def test_what_are_no_messages(self, client: Client, messages: list[Any]) -> None:
        with pytest.raises(InvalidInputError, match="a message is an object with a role"):
            client.take(*messages)

    def test_instructions_alone_are_nothing(self, client: Client) -> None:
        taken = client.take(SYSTEM, {"role": "developer", "content": "Be brief."})
        assert (taken.session_id, taken.turn_ids) == (None, ())
        assert client.kept.reply(taken, said("Hello."), NOON) is None
        assert client.sessions() == {}

    def test_lone_surrogates(self, client: Client) -> None:
        client.chat(user("a \ud800"), reply="b \udc00")
        client.chat(user("a \ud800"), said("b \udc00"), user("c"), reply="d")
        assert list(client.sessions().values()) == [["a \ud800", "b \udc00", "c", "d"]]

    def test_users_are_apart(self, client: Client, memory: Memory) -> None:
        client.take(user("a"))
        other = client.kept.take("bo", None, [user("a")], NOON)
        assert len(other.stored) == 1
        assert [len(list(memory.turns(user_id=name))) for name in ("ann", "bo")] == [1, 1]

    def test_twice_at_once_is_once(self, client: Client) -> None:
        with ThreadPoolExecutor(8) as pool:
            taken = list(
                pool.map(
                    lambda step: client.kept.take("ann", None, [user("a")], NOON + timedelta(seconds=step)), range(8)
                )
            )
        assert sorted(len(each.stored) for each in taken) == [0] * 7 + [1]
        assert list(client.sessions().values()) == [["a"]]

    def test_two_processes_at_once_are_once(self, client: Client, memory: Memory) -> None:
        class Slower(Conversations):
            """Another process stores the same request between its look and its add."""

            def _session(self, *given: Any) -> str:
                Conversations(memory).take("ann", None, [user("a")], NOON)
                return super()._session(*given)

        taken = Slower(memory).take("ann", None, [user("a")], NOON + timedelta(seconds=1))
        assert (len(taken.turn_ids), taken.degraded) == (1, ())
        assert list(client.sessions().values()) == [["a"]]

    def test_what_was_deleted_stays_deleted(self, client: Client, memory: Memory) -> None:
        client.chat(user("my PIN is 1234"), reply="Noted.")
        memory.delete(user_id="ann", turn_id=next(iter(memory.turns(user_id="ann"))).turn_id)
        client.chat(user("my PIN is 1234"), said("Noted."), user("Thanks."), reply="Welcome.")
        assert list(client.sessions().values()) == [["Noted.", "Thanks.", "Welcome."]]


TALK = [user("a1"), said("reply one"), user("a2"), said("reply two"), user("a3"), said("reply three")]


class TestCuts:
    def grown(self, client: Client) -> str:
        for end in (1, 3, 5):
            taken = client.chat(*TALK[:end], reply=str(TALK[end]["content"]))
        return taken.session_id or ""

    @pytest.mark.parametrize("named", [False, True])
    @pytest.mark.parametrize("cut", [1, 2, 3, 4])
    def test_a_beginning_that_was_cut_off_is_no_new_talk(self, memory: Memory, cut: int, named: bool) -> None:
        client = Client(memory, "monday" if named else None)
        session = self.grown(client)
        window = [SYSTEM, *TALK[cut:]]
        taken = client.chat(*window, user("a4"), reply="reply four")
        after = client.chat(*window[2:], user("a4"), said("reply four"), user("a5"), reply="reply five")
        again = client.chat(*window[2:], user("a4"), said("reply four"), user("a5"), reply="reply five")
        expected = [str(message["content"]) for message in TALK]
        assert client.sessions() == {session: [*expected, "a4", "reply four", "a5", "reply five"]}
        assert (len(taken.stored), len(after.stored), len(again.stored)) == (1, 1, 0)
        assert len(taken.turn_ids) == len(TALK) - cut + 1  # the ones that are in the request, and no others

    def test_a_reply_that_was_said_elsewhere_too_is_not_enough(self, client: Client) -> None:
        self.grown(client)
        other = client.chat(user("never said"), said("reply three"), user("x"), reply="y")
        assert client.sessions()[other.session_id or ""] == ["never said", "reply three", "x", "y"]

    def test_a_client_that_went_on_from_a_part_of_a_reply(self, client: Client) -> None:
        session = self.grown(client)
        taken = client.take(*TALK[2:4], user("a3"), said("reply th"), user("Go on."))
        assert client.sessions()[session][:6] == [str(message["content"]) for message in TALK]
        assert len(taken.stored) == 3 - 1  # "a3" is there already


LETTERS = st.sampled_from(["a", "b"])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), LETTERS, LETTERS), min_size=1, max_size=8))
def test_every_way_through_a_talk_keeps_each_turn_once(steps: list[tuple[int, str, str]]) -> None:
    """Each step goes back some rounds, says something and gets a reply; a path is a list of texts."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as memory:
        client = Client(memory)
        path: list[str] = []
        seen: set[tuple[str, ...]] = set()
        for back, text, reply in steps:
            path = path[: max(0, len(path) - 2 * back)]
            talk = [(user if place % 2 == 0 else said)(each) for place, each in enumerate(path)]
            client.chat(*talk, user(text), reply=reply)
            path = [*path, text, reply]
            seen |= {tuple(path[:-1]), tuple(path)}
        turns = list(memory.turns(user_id="ann"))
        assert len([turn for turn in turns if "~" not in (turn.external_id or "")]) == len(seen)
        # The way that the client is on is current, each turn of it once.
        old = {turn.supersedes for turn in turns}
        names = chain([(user if place % 2 == 0 else said)(each) for place, each in enumerate(path)], "")
        current = [name_of(turn) for turn in turns if turn.turn_id not in old]
        assert [current.count(name) for name in names] == [1] * len(path)


def test_texts_and_places() -> None:
    parts: Any = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}, "x"]
    assert text_of(user(parts)) == "a\nb"
    assert text_of({"role": "user"}) == ""
    assert last_user_place([user("a"), said("b"), user("c"), {"role": "tool"}]) == 2
    assert last_user_place([SYSTEM]) is None
