"""The contract of a `ReplyCache` as tests: inherit the class, override the fixtures, and run it with pytest."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from backread.models.base import ChatReply
from backread.models.wrappers import ReplyCache
from backread.types import Usage

__all__ = ["ReplyCacheContract"]

FULL = ChatReply(
    "She said \u201cseven\u201d \0 \ud800 👩‍👩‍👧\r\n",
    "length",
    Usage("build", "org/m-1", 1, 812, 40, 512, 7, 0.1 + 0.2, 1 / 3),
    "first the ferry,\nthen the time",
)


def _reply(text: str) -> ChatReply:
    return ChatReply(text, "stop", Usage("build", "m"))


class ReplyCacheContract:
    """What every cache of replies must do. `cache` gives an empty one, `turns` the ids of turns that are there."""

    @pytest.fixture
    def cache(self) -> ReplyCache:
        """An empty cache; override it."""
        raise NotImplementedError("override the fixture `cache`")

    @pytest.fixture
    def turns(self) -> Mapping[str, Sequence[str]]:
        """Two turn ids each of the users "ann" and "bob"; override it where the cache knows the record."""
        return {"ann": ["t1", "t2"], "bob": ["t3", "t4"]}

    @pytest.fixture
    def filled(self, cache: ReplyCache, turns: Mapping[str, Sequence[str]]) -> ReplyCache:
        """Replies "a" on ann's first turn, "b" on the second, "ab" on both, "?" on any, "0" on none; "d" is bob's."""
        one, two = turns["ann"]
        on = {"a": [one], "b": [two], "ab": [one, two], "?": None, "0": []}
        for key, turn_ids in on.items():
            cache.put(key, _reply(key), user_id="ann", turn_ids=turn_ids)
        cache.put("d", _reply("d"), user_id="bob", turn_ids=None)
        return cache

    def kept(self, cache: ReplyCache) -> str:
        """The keys of `filled` that are there."""
        return " ".join(key for key in ("a", "b", "ab", "?", "0", "d") if cache.get(key) is not None)

    @pytest.mark.parametrize("reply", [FULL, _reply("plain")], ids=["full", "plain"])
    def test_a_reply_comes_back_as_it_went_in(
        self, cache: ReplyCache, turns: Mapping[str, Sequence[str]], reply: ChatReply
    ) -> None:
        cache.put("k", reply, user_id="ann", turn_ids=turns["ann"])
        assert cache.get("k") == reply
        assert cache.get("other") is None

    def test_the_last_reply_of_a_key_counts_with_its_turns(
        self, cache: ReplyCache, turns: Mapping[str, Sequence[str]]
    ) -> None:
        one, two = turns["ann"]
        cache.put("k", _reply("old"), user_id="ann", turn_ids=[one])
        cache.put("k", _reply("new"), user_id="ann", turn_ids=[two])
        assert cache.drop("ann", [one]) == 0
        assert cache.get("k") == _reply("new")
        assert cache.drop("ann", [two]) == 1

    def test_replies_go_with_a_turn_they_rest_on(self, filled: ReplyCache, turns: Mapping[str, Sequence[str]]) -> None:
        assert self.kept(filled) == "a b ab ? 0 d"
        assert filled.drop("ann", [turns["ann"][0]]) == 3
        assert self.kept(filled) == "b 0 d"

    def test_several_turns_take_each_reply_once(self, filled: ReplyCache, turns: Mapping[str, Sequence[str]]) -> None:
        assert filled.drop("ann", turns["ann"]) == 4
        assert self.kept(filled) == "0 d"

    def test_turns_of_another_user_take_nothing_but_their_own(
        self, filled: ReplyCache, turns: Mapping[str, Sequence[str]]
    ) -> None:
        assert filled.drop("bob", turns["bob"]) == 1
        assert self.kept(filled) == "a b ab ? 0"

    def test_a_user_takes_everything_of_theirs(self, filled: ReplyCache) -> None:
        assert filled.drop("ann") == 5
        assert filled.drop("ann") == 0
        assert filled.drop("nobody") == 0
        assert self.kept(filled) == "d"

    def test_threads_lose_nothing(self, cache: ReplyCache, turns: Mapping[str, Sequence[str]]) -> None:
        def work(name: str) -> None:
            for number in range(10):
                cache.put(f"{name}{number}", _reply(f"{name}{number}"), user_id="ann", turn_ids=turns["ann"])
                cache.get(f"{name}{number - 1}")

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keys = [f"{name}{number}" for name in "abcd" for number in range(10)]
        assert [cache.get(key) for key in keys] == [_reply(key) for key in keys]
