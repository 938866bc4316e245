"""Any text comes back as it went in; any sequence of calls leaves a sound store in the order that the rule says."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from backread.errors import TimeError
from backread.store.base import TURNS, Progress
from backread.store.sqlite import SqliteStore
from backread.types import EntryDraft, Source, TurnDraft

ANY = st.text(st.characters(), max_size=40)  # surrogates and NUL included
OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(timezones=OFFSETS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(
    user_id=ANY,
    session_id=ANY,
    role=ANY,
    text=ANY,
    speaker=st.none() | ANY,
    caption=st.none() | ANY,
    external_id=st.none() | ANY,
    said_text=st.none() | ANY,
    said_at=st.none() | TIMES,
    attachments=st.lists(st.dictionaries(ANY, JSON, max_size=3), max_size=2),
)
def test_whatever_goes_in_comes_back(
    user_id: str,
    session_id: str,
    role: str,
    text: str,
    speaker: str | None,
    caption: str | None,
    external_id: str | None,
    said_text: str | None,
    said_at: datetime | None,
    attachments: list[dict[str, object]],
) -> None:
    given_draft = TurnDraft(
        session_id, role, text, speaker, external_id, caption, tuple(attachments), said_at, said_text
    )
    with tempfile.TemporaryDirectory() as folder, closing(SqliteStore(Path(folder) / "memory.db")) as store:
        store.append("someone else", [given_draft])
        (item,) = store.append(user_id, [given_draft])
        if isinstance(item.problem, TimeError):
            assert said_at is not None
            assert said_at.year in (1, 9999)
            return
        assert item.turn_id is not None
        (turn,) = store.turns_by_doc(user_id, store.layout(user_id).docs.tolist())
        for name in ("session_id", "role", "text", "speaker", "external_id", "caption", "said_at", "said_text"):
            assert getattr(turn, name) == getattr(given_draft, name), name
        assert turn.attachments == given_draft.attachments
        assert said_at is None or (turn.said_at is not None and turn.said_at.utcoffset() == said_at.utcoffset())
        layout = store.layout(user_id)
        assert layout.session_ids == (session_id,)
        assert layout.roles == (role,)
        assert layout.speakers == (speaker or role,)
        assert set(store.users()) == {user_id, "someone else"}
        assert store.docs_of_turns(user_id, [item.turn_id]) == {item.turn_id: int(layout.docs[0])}
        if external_id is not None:
            (again,) = store.append(user_id, [given_draft])
            assert (again.turn_id, again.new) == (item.turn_id, False)
        assert store.verify().ok
        assert store.delete(user_id, session_id=session_id).turns == 1
        assert store.verify().ok


@dataclass
class Said:
    """A turn of the model."""

    turn_id: str
    session: int
    text: str
    said_at: datetime | None
    batch: int


@dataclass
class Record:
    """One user of the model: turns in order of arrival; a session's number is given when it is begun."""

    turns: list[Said] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)

    def ordered(self) -> list[str]:
        """Texts in history order, by the rule of the design: derived from nothing but what is left."""
        found = []
        for number in self.sessions.values():
            turns = [turn for turn in self.turns if turn.session == number]
            known = [turn.said_at for turn in turns if turn.said_at is not None]
            # A session of unknown time stands where it was stored: after 2002 and before 2093.
            starts = (0, min(known)) if known else (0, datetime(2050, 1, 1, tzinfo=UTC) + turns[0].batch * STEP)
            place = datetime.min.replace(tzinfo=UTC)
            rows = []
            for arrival, turn in enumerate(turns):
                place = turn.said_at or place
                rows.append(((*starts, number), place, arrival, turn.text))
            found += rows
        return [row[-1] for row in sorted(found)]

    def forget(self, gone: set[str]) -> None:
        self.turns = [turn for turn in self.turns if turn.turn_id not in gone]
        left = {turn.session for turn in self.turns}
        self.sessions = {name: number for name, number in self.sessions.items() if number in left}


STEP = timedelta(seconds=1)
SAID = st.none() | st.sampled_from(
    [datetime(year, 5, 1, 12, minute, tzinfo=UTC) for year in (2001, 2002, 2093) for minute in (0, 1)]
)
USERS = st.sampled_from(["ann", "bo"])
SESSIONS = st.sampled_from(["s1", "s2", "s3"])


class Machine(RuleBasedStateMachine):
    """A store beside a model that keeps lists."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="backread-property-"))
        self.store = SqliteStore(self.folder / "memory.db")
        self.records: defaultdict[str, Record] = defaultdict(Record)
        self.count = 0

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @initialize(user=USERS)
    def begin(self, user: str) -> None:
        self.append(user, [("s1", None, True), ("s2", datetime(2001, 5, 1, 12, 1, tzinfo=UTC), False)], 0)

    @rule(
        user=USERS, given=st.lists(st.tuples(SESSIONS, SAID, st.booleans()), min_size=1, max_size=4), old=st.integers(0)
    )
    def append(self, user: str, given: list[tuple[str, datetime | None, bool]], old: int) -> None:
        record = self.records[user]
        supersedes = record.turns[old % len(record.turns)].turn_id if old % 3 == 2 and record.turns else None
        drafts = []
        for session, said_at, named in given:
            self.count += 1
            text = f"turn {self.count} about lamp {self.count % 7}"
            name = f"m-{self.count}" if named else None
            drafts.append(TurnDraft(session, "user", text, None, name, said_at=said_at, supersedes=supersedes))
        batch = self.count
        for draft, item in zip(drafts, self.store.append(user, drafts), strict=True):
            assert item.new
            number = record.sessions.setdefault(draft.session_id, self.count)
            self.count += 1
            record.turns.append(Said(item.turn_id or "", number, draft.text, draft.said_at, batch))

    @precondition(lambda self: any(record.turns for record in self.records.values()))
    @rule(user=USERS, which=st.sets(st.integers(0, 30), max_size=4))
    def delete_turns(self, user: str, which: set[int]) -> None:
        record = self.records[user]
        gone = {turn.turn_id for number, turn in enumerate(record.turns) if number in which}
        assert self.store.delete(user, turn_ids=sorted(gone)).turns == len(gone)
        record.forget(gone)

    @rule(user=USERS, session=SESSIONS)
    def delete_session(self, user: str, session: str) -> None:
        record = self.records[user]
        number = record.sessions.get(session)
        gone = {turn.turn_id for turn in record.turns if turn.session == number}
        receipt = self.store.delete(user, session_id=session)
        assert (receipt.turns, receipt.sessions) == (len(gone), int(bool(gone)))
        record.forget(gone)

    @rule(user=USERS)
    def delete_user(self, user: str) -> None:
        assert self.store.delete(user).turns == len(self.records[user].turns)
        self.records[user] = Record()

    @rule(
        user=USERS, which=st.lists(st.integers(0, 30), min_size=1, max_size=3), name=st.sampled_from(["e1", "e2", "e3"])
    )
    def commit(self, user: str, which: list[int], name: str) -> None:
        turns = self.records[user].turns
        if turns:
            sources = tuple(Source(turns[number % len(turns)].turn_id) for number in which)
            version, _ = self.store.strategy_state(user, "lean")
            entry = EntryDraft(name, "lean", "event", {}, f"{name} on lamps", sources)
            assert self.store.commit(user, "lean", version, [entry]) == version + 1

    @rule(user=USERS, embedder=st.sampled_from(["m", "n"]), limit=st.integers(1, 5))
    def embed(self, user: str, embedder: str, limit: int) -> None:
        for _, corpus in self.store.corpora(user):
            docs = [pending.doc for pending in self.store.pending(user, corpus, embedder, limit)]
            if docs:
                reached = self.store.progress(user, corpus, embedder)
                args = (np.array(docs), np.ones((len(docs), 4), np.float32), Progress(docs[-1] + 1, 0))
                assert self.store.put_vectors(user, TURNS if corpus == TURNS else corpus, embedder, reached, *args)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteStore(self.folder / "memory.db")

    @rule(user=st.none() | USERS)
    def rebuild(self, user: str | None) -> None:
        self.store.rebuild_text_index(user)

    @invariant()
    def the_order_is_that_of_the_rule(self) -> None:
        for user, record in self.records.items():
            turns = self.store.turns_by_doc(user, self.store.layout(user).docs.tolist())
            assert [turn.text for turn in turns] == record.ordered()

    @invariant()
    def the_store_is_sound(self) -> None:
        report = self.store.verify()
        assert report.faults == ()
        assert report.checked.get("turns", 0) == sum(len(record.turns) for record in self.records.values())


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=12, stateful_step_count=16)
