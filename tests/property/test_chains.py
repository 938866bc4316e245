"""Whatever happens to chains of corrections, the newest wording that is left of each one is current, and no other."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from backread import Memory
from backread.cli.loading import load
from backread.importers.jsonl import read_jsonl
from backread.settings import Settings
from backread.store.history import Scope
from backread.text.tokens import EstimateCounter
from backread.types import TurnDraft

USERS = st.sampled_from(["ann", "bo", "eve"])
SESSIONS = st.sampled_from(["s1", "s2", "s3"])
MINUTES = st.none() | st.integers(0, 6)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@dataclass
class Model:
    """One user's record as the rules have it: wordings that are there, by name, and the chain each belongs to."""

    there: set[str] = field(default_factory=set)
    chain: dict[str, str] = field(default_factory=dict)

    def learn(self, name: str, older: str | None) -> None:
        """A wording came in, with what it replaces if that is here."""
        self.there.add(name)
        self.chain.setdefault(name, name)
        if older in self.there:
            mine, its = self.chain[name], self.chain[str(older)]
            self.chain.update((key, its) for key, value in self.chain.items() if value == mine)

    def forget(self, names: Iterable[str]) -> None:
        """Erased wordings leave their chain as it is."""
        for name in names:
            self.there.discard(name)
            self.chain.pop(name, None)


class Chains(RuleBasedStateMachine):
    """Random corrections, erasures, exports and imports of three users."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="backread-chains-"))
        settings = Settings(path=self.folder / "memory.db", embedder="none")
        self.memory = Memory.open(counter=EstimateCounter(), settings=settings)
        self.models: defaultdict[str, Model] = defaultdict(Model)
        self.older: dict[str, str | None] = {}  # of every wording there ever was, the one it was said to replace
        self.minute: dict[str, int | None] = {}
        self.exports: list[list[dict[str, Any]]] = []

    def teardown(self) -> None:
        self.memory.close()
        shutil.rmtree(self.folder)

    @rule(user=USERS, session=SESSIONS, minute=MINUTES, which=st.integers(0), named=st.booleans())
    def say(self, user: str, session: str, minute: int | None, which: int, named: bool) -> None:
        """A new wording of something that is there, or of nothing; it may have been said before what it comes after."""
        model = self.models[user]
        choices = [None, *sorted(model.there)]
        older = choices[which % len(choices)]
        name = f"kettle{len(self.older)}"
        turns = {turn.text: turn for turn in self.memory.turns(user_id=user)}
        draft = TurnDraft(
            session,
            "user",
            name,
            external_id=f"id-{name}" if named else None,
            said_at=None if minute is None else NOON + timedelta(minutes=minute),
            supersedes=None if older is None else turns[older].turn_id,
        )
        assert self.memory.add_turns([draft], user_id=user).stored == 1
        self.older[name], self.minute[name] = older, minute
        model.learn(name, older)

    @precondition(lambda self: any(model.there for model in self.models.values()))
    @rule(user=USERS, which=st.lists(st.integers(0, 20), max_size=3))
    def erase(self, user: str, which: list[int]) -> None:
        turns = list(self.memory.turns(user_id=user))
        chosen = {turns[number % len(turns)].turn_id: turns[number % len(turns)].text for number in which if turns}
        for turn_id in chosen:
            assert self.memory.delete(user_id=user, turn_id=turn_id, scrub=False).turns == 1
        self.models[user].forget(chosen.values())

    @rule(user=USERS, session=SESSIONS)
    def erase_session(self, user: str, session: str) -> None:
        gone = [turn.text for turn in self.memory.turns(user_id=user) if turn.session_id == session]
        self.memory.delete(user_id=user, session_id=session, scrub=False)
        self.models[user].forget(gone)

    @precondition(lambda self: any(model.there for model in self.models.values()))
    @rule(user=USERS)
    def export(self, user: str) -> None:
        self.exports.append(list(self.memory.export(user_id=user)))

    @precondition(lambda self: self.exports)
    @rule(user=USERS, which=st.integers(0))
    def bring(self, user: str, which: int) -> None:
        """An earlier export comes to a user, its own or another, twice."""
        messages = self.exports[which % len(self.exports)]
        fresh = not self.models[user].there
        self._load(messages, user)
        names = {message["id"]: message["content"] for message in messages}
        for _ in range(2):  # what replaces a wording of a later session is linked at the end
            for message in messages:
                self.models[user].learn(message["content"], names.get(message.get("supersedes", "")))
        current = self.current(user)
        assert self._load(messages, user) == 0
        assert self.current(user) == current
        if fresh:
            again = list(self.memory.export(user_id=user))
            links = [[message.get(key) for key in ("id", "content", "supersedes")] for message in again]
            wanted = [[message.get(key) for key in ("id", "content", "supersedes")] for message in messages]
            assert sorted(links, key=str) == sorted(wanted, key=str)

    def _load(self, messages: list[dict[str, Any]], user: str) -> int:
        file = self.folder / "export.jsonl"
        file.write_text("".join(json.dumps({**message, "user_id": user}) + "\n" for message in messages))
        loaded = load(self.memory, read_jsonl(file))
        assert not loaded.rejected
        return loaded.stored

    def current(self, user: str, as_of: datetime | None = None) -> set[str]:
        view = self.memory.history(user, as_of=as_of)
        return {turn.text for turn in view.turns(Scope())}

    def _above(self, user: str, name: str, there: set[str]) -> list[str]:
        """The wordings that a wording replaces, near ones first, as far as they are there."""
        found, older = [], self.older[name]
        while older is not None:
            found += [older] if older in there else []
            older = self.older[older]
        return found

    @invariant()
    def the_newest_of_each_chain_is_current(self) -> None:
        for user, model in self.models.items():
            assert {turn.text for turn in self.memory.turns(user_id=user)} == model.there
            self._check(user, model, model.there, self.current(user))
            for minute in (0, 3, 6):
                then = {name for name in model.there if (at := self.minute[name]) is not None and at <= minute}
                self._check(user, model, then, self.current(user, NOON + timedelta(minutes=minute)))

    def _check(self, user: str, model: Model, there: set[str], current: set[str]) -> None:
        chains: defaultdict[str, set[str]] = defaultdict(set)
        for name in there:
            chains[model.chain[name]].add(name)
        assert len(current) == len(chains)
        for chain in chains.values():
            (stands,) = current & chain
            above = {
                name: [
                    older for older in self._above(user, name, model.there) if model.chain[older] == model.chain[name]
                ]
                for name in chain
            }
            replaced = {older for name in chain for older in above[name]}
            assert stands not in replaced
            last = {
                name: max([-1, *(at for key in (name, *above[name]) if (at := self.minute[key]) is not None)])
                for name in chain - replaced
            }
            assert last[stands] == max(last.values())

    @invariant()
    def search_finds_what_is_current(self) -> None:
        for user in self.models:
            current = self.current(user)
            found = self.memory.search(" ".join(["kettle", *sorted(self.older)]), user_id=user, top_k=100)
            assert {hit.turn.text for hit in found} == current
            lines = self.memory.recall(" ".join(sorted(self.older)) or "kettle", user_id=user, budget=None).evidence
            assert {line.text for line in lines} <= current

    @invariant()
    def the_store_is_sound(self) -> None:
        assert self.memory.verify().faults == ()


TestChains = Chains.TestCase
TestChains.settings = settings(max_examples=12, stateful_step_count=16, deadline=None)
