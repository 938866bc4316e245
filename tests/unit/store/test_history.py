"""What a user's view of the record shows: scopes, replaced turns, the record as it stood."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from store_samples import NOON, draft, entry

from backread.errors import InvalidInputError, NotFoundError
from backread.store.history import History, Scope
from backread.store.sqlite import SqliteStore
from backread.types import EntryDraft, Turn

HOUR = timedelta(hours=1)
ODD = [
    "O'Neil",
    "x') OR true --",
    'd"q',
    "new\nline",
    "7f3c9a10-0000-4b1e-9c55-1d2e3f405162",
    "main",
    "%",
    "\0",
    "\ud800",
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        yield store


def texts(turns: Iterator[Turn]) -> list[str]:
    return [turn.text for turn in turns]


def in_scope(store: SqliteStore, user: str = "ann", as_of: datetime | None = None, **scope: object) -> list[str]:
    """Texts of the turns a search with this scope ranks."""
    history = History(store, user, as_of=as_of)
    corpus = history.corpus("turn", Scope(**scope) if scope else None)  # type: ignore[arg-type]
    found = [turn.text for unit in range(corpus.size) for turn in corpus.turns(unit)]
    if scope:
        assert texts(history.turns(Scope(**scope))) == found  # type: ignore[arg-type]
    return found


def ids(store: SqliteStore, user: str = "ann") -> dict[str, str]:
    """Turn ids by text."""
    return {turn.text: turn.turn_id for turn in History(store, user).turns()}


# --- scopes


@pytest.mark.parametrize("value", ODD)
def test_a_filter_gives_exactly_the_turns_with_that_value(store: SqliteStore, value: str) -> None:  # ISO-03
    for odd in ODD:
        store.append("ann", [draft(f"said by {odd!r}", f"in {odd}", odd, speaker=f"Ms {odd}", external_id=odd)])
        store.append(odd, [draft(f"of {odd!r}", odd, speaker=odd)])
    assert in_scope(store, speakers={f"Ms {value}"}) == [f"said by {value!r}"]
    assert in_scope(store, session_ids={f"in {value}"}) == [f"said by {value!r}"]
    assert in_scope(store, roles={value}) == [f"said by {value!r}"]
    assert in_scope(store, value) == [f"of {value!r}"]
    assert [turn.text for turn in History(store, "ann").turns_by_id([value])] == [f"said by {value!r}"]
    assert store.delete(value, session_id=value).turns == 1
    assert store.delete("ann", turn_ids=[value]).turns == 1
    assert store.stats("ann").turns == len(ODD) - 1
    assert set(store.users()) == {"ann", *ODD} - {value}
    assert store.verify().ok


def test_a_filter_of_speakers_returns_only_their_turns(store: SqliteStore) -> None:  # SEM-01
    store.append(
        "ann",
        [
            draft("Here is my plan. I never eat olives. I grew up in Porto.", role="assistant"),
            draft("I grew up in Turku. My cousin Petra hates skiing.", speaker="Dana"),
            draft("I am allergic to cats.", speaker="Milo"),
            draft("Named like a role", speaker="assistant"),
            draft("Nobody's name"),
        ],
    )
    assert in_scope(store, speakers={"Dana"}) == ["I grew up in Turku. My cousin Petra hates skiing."]
    assert in_scope(store, speakers={"user"}) == ["Nobody's name"]
    assert len(in_scope(store, speakers={"assistant"})) == 2
    assert in_scope(store, speakers={"assistant"}, roles={"user"}) == ["Named like a role"]
    assert in_scope(store, speakers={"dana"}) == []
    assert in_scope(store, speakers=set()) == []
    assert len(in_scope(store, speakers=["Dana", "Milo", "absent"])) == 2


def test_times_are_half_open_and_unknown_ones_left_out(store: SqliteStore) -> None:
    store.append("ann", [draft(f"at {n}", said_at=NOON + n * HOUR) for n in range(4)] + [draft("whenever")])
    assert in_scope(store, after=NOON + HOUR) == ["at 1", "at 2", "at 3"]
    assert in_scope(store, before=NOON + HOUR) == ["at 0"]
    assert in_scope(store, after=NOON + HOUR, before=NOON + 3 * HOUR) == ["at 1", "at 2"]
    assert in_scope(store, as_of=NOON + HOUR) == ["at 0", "at 1"]
    assert in_scope(store, after=NOON + HOUR + timedelta(microseconds=1)) == ["at 2", "at 3"]


@pytest.mark.parametrize("name", ["after", "before", "as_of"])
def test_a_time_without_a_zone_is_refused(store: SqliteStore, name: str) -> None:
    naive = NOON.replace(tzinfo=None)
    store.append("ann", [draft("a")])
    with pytest.raises(InvalidInputError, match=name):
        in_scope(store, **{name: naive})  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="as_of"):
        History(store, "ann", as_of=naive)
    if name == "as_of":
        with pytest.raises(InvalidInputError, match="as_of"):
            History(store, "ann", as_of=NOON).corpus("turn", Scope(as_of=naive))


def test_an_unknown_unit_is_refused(store: SqliteStore) -> None:
    with pytest.raises(InvalidInputError, match="paragraph") as caught:
        History(store, "ann").corpus("paragraph")  # type: ignore[arg-type]
    assert "user_turn" in (caught.value.hint or "")


def test_user_turns_are_those_of_people_unless_roles_are_given(store: SqliteStore) -> None:
    roles = ("user", "assistant", "participant", "tool")
    store.append("ann", [draft(role, role=role) for role in roles])
    history = History(store, "ann")

    def found(scope: Scope | None) -> list[str]:
        corpus = history.corpus("user_turn", scope)
        return [turn.text for unit in range(corpus.size) for turn in corpus.turns(unit)]

    assert found(None) == ["user", "participant"]
    assert found(Scope(speakers={"user", "assistant"})) == ["user"]
    assert found(Scope(roles={"tool"})) == ["tool"]


def test_turns_are_read_page_by_page(store: SqliteStore) -> None:
    store.append("ann", [draft(f"turn {n}") for n in range(1203)])
    assert texts(History(store, "ann").turns()) == [f"turn {n}" for n in range(1203)]
    first = next(History(store, "ann").turns())
    assert first.text == "turn 0"


def test_turns_by_id_are_all_there_or_an_error(store: SqliteStore) -> None:
    store.append("ann", [draft("one", external_id="m-1"), draft("two")])
    store.append("bo", [draft("theirs", external_id="b-1")])
    history = History(store, "ann")
    assert [turn.text for turn in history.turns_by_id([ids(store)["two"], "m-1", "m-1"])] == ["two", "one", "one"]
    assert history.turns_by_id([]) == []
    for missing in ("b-1", ids(store, "bo")["theirs"], "absent", "\ud800"):
        with pytest.raises(NotFoundError, match="no turn"):
            history.turns_by_id(["m-1", missing])


# --- replaced turns and the record as it stood


@pytest.fixture
def moved(store: SqliteStore) -> SqliteStore:
    """Ann moves twice; each time the old turn is replaced. One turn has no time."""
    store.append("ann", [draft("lives in Ghent", "s1", external_id="g", said_at=NOON)])
    store.append("ann", [draft("lives in Turku", "s2", external_id="t", said_at=NOON + HOUR, supersedes="g")])
    store.append("ann", [draft("lives in Porto", "s2", external_id="p", said_at=NOON + 2 * HOUR, supersedes="t")])
    store.append("ann", [draft("owns a lamp", "s3")])
    return store


def test_a_replaced_turn_leaves_search_and_stays_in_the_record(moved: SqliteStore) -> None:
    assert in_scope(moved) == ["lives in Porto", "owns a lamp"]
    assert texts(History(moved, "ann").turns()) == ["lives in Ghent", "lives in Turku", "lives in Porto", "owns a lamp"]
    assert texts(History(moved, "ann").turns(Scope())) == ["lives in Porto", "owns a lamp"]


@pytest.mark.parametrize(
    ("hours", "searched", "there"),
    [
        (-1, [], []),
        (0, ["lives in Ghent"], ["lives in Ghent"]),
        (1, ["lives in Turku"], ["lives in Ghent", "lives in Turku"]),
        (2, ["lives in Porto"], ["lives in Ghent", "lives in Turku", "lives in Porto"]),
    ],
)
def test_as_of_a_turn_is_replaced_only_once_its_successor_is_said(
    moved: SqliteStore, hours: int, searched: list[str], there: list[str]
) -> None:
    as_of = NOON + hours * HOUR
    view = History(moved, "ann", as_of=as_of)
    assert in_scope(moved, as_of=as_of) == searched
    assert in_scope(moved, as_of=as_of, speakers={"user"}) == searched
    assert texts(view.turns()) == there
    assert view.undated() == 1
    for text, turn_id in ids(moved).items():
        if text in there:
            assert view.turns_by_id([turn_id])[0].text == text
        else:
            with pytest.raises(NotFoundError):
                view.turns_by_id([turn_id])


def test_replaced_turns_can_be_asked_for(moved: SqliteStore) -> None:
    everything = ["lives in Ghent", "lives in Turku", "lives in Porto", "owns a lamp"]
    assert in_scope(moved, superseded=True) == everything
    assert in_scope(moved, as_of=NOON + HOUR, superseded=True) == everything[:2]
    people = History(moved, "ann").corpus("user_turn", Scope(superseded=True))
    assert people.size == 4


def test_arrivals_are_in_the_order_they_came_and_of_the_view(store: SqliteStore) -> None:
    for number in (3, 1, 2):
        store.append("ann", [draft(f"at {number}", said_at=NOON + number * HOUR)])
    store.append("ann", [draft("whenever")])
    assert texts(History(store, "ann").arrivals()) == ["at 3", "at 1", "at 2", "whenever"]
    assert texts(History(store, "ann", as_of=NOON + 2 * HOUR).arrivals()) == ["at 1", "at 2"]


def test_the_earlier_of_two_as_of_counts(moved: SqliteStore) -> None:
    early, late = NOON, NOON + 2 * HOUR
    for view, scope in ((early, late), (late, early)):
        corpus = History(moved, "ann", as_of=view).corpus("turn", Scope(as_of=scope))
        assert [turn.text for turn in corpus.turns(0)] == ["lives in Ghent"]
        assert corpus.size == 1


def test_a_turn_replaced_by_one_of_unknown_time_is_not_replaced_as_of(store: SqliteStore) -> None:
    store.append("ann", [draft("old", external_id="o", said_at=NOON), draft("new", supersedes="o")])
    assert in_scope(store) == ["new"]
    assert in_scope(store, as_of=NOON) == ["old"]


def test_sessions_as_of_know_only_what_was_said_by_then(moved: SqliteStore) -> None:
    assert [session.session_id for session in History(moved, "ann").sessions()] == ["s1", "s2", "s3"]
    first, second = History(moved, "ann", as_of=NOON + HOUR).sessions()
    assert (first.session_id, first.turns, first.started_at, first.ended_at) == ("s1", 1, NOON, NOON)
    assert (second.session_id, second.turns) == ("s2", 1)
    assert (second.started_at, second.ended_at) == (NOON + HOUR, NOON + HOUR)
    assert History(moved, "ann", as_of=NOON - HOUR).sessions() == []
    moved.append("ann", [draft("opened without a time", "s4"), draft("late", "s4", said_at=NOON + 5 * HOUR)])
    assert [session.session_id for session in History(moved, "ann", as_of=NOON + 4 * HOUR).sessions()] == ["s1", "s2"]


def test_statistics_as_of_are_those_of_the_view(moved: SqliteStore) -> None:
    as_of = NOON + HOUR
    view = History(moved, "ann", as_of=as_of).corpus().text_scores({"live": 1.0})
    alone = SqliteStore(moved.path.with_name("alone.db"))
    with closing(alone):
        alone.append("ann", [draft("lives in Turku", said_at=NOON)])
        assert History(alone, "ann").corpus().text_scores({"live": 1.0}).tobytes() == view.tobytes()


# --- entries


def test_entries_as_of_rest_on_turns_of_that_time_only(moved: SqliteStore) -> None:
    """What counts is when the sources were said: an entry may be of an earlier or of a later time itself."""
    by_text = ids(moved)

    def note(name: str, said_at: datetime | None, *sources: str) -> EntryDraft:
        made = entry(name, f"note {name}", *(by_text[text] for text in sources))
        return EntryDraft(made.entry_id, "lean", "event", {}, made.index_text, made.sources, said_at)

    notes = [
        note("ghent", NOON, "lives in Ghent"),
        note("plan", NOON + 9 * HOUR, "lives in Ghent"),
        note("undated", None, "lives in Ghent"),
        note("hindsight", NOON - HOUR, "lives in Ghent", "lives in Porto"),
        note("lamp", NOON, "owns a lamp"),
    ]
    moved.commit("ann", "lean", 0, notes)
    now = History(moved, "ann")
    assert [item.entry_id for item in now.entries("lean")] == ["hindsight", "ghent", "lamp", "plan", "undated"]
    for hours in (0, 1):
        view = History(moved, "ann", as_of=NOON + hours * HOUR)
        assert [item.entry_id for item in view.entries("lean")] == ["ghent", "plan", "undated"]
        corpus = view.corpus(("lean", "event"))
        assert corpus.unit_ids(range(corpus.size)) == ["ghent", "plan", "undated"]
    assert now.corpus(("lean", "event")).size == 5
    assert History(moved, "ann", as_of=NOON - HOUR).entries("lean") == []
    assert History(moved, "bo", as_of=NOON).entries("lean") == []


def test_a_view_commits_and_reads_state(moved: SqliteStore) -> None:
    history = History(moved, "ann")
    turn_id = ids(moved)["lives in Ghent"]
    other = ids(moved)["owns a lamp"]
    assert history.strategy_state("lean") == (0, None)
    assert history.commit("lean", 0, [entry("e", "both", turn_id, other)], state=b"1") == 1
    moved.delete("ann", turn_ids=[turn_id])
    assert history.turns_to_rebuild("lean") == [other]
    assert history.strategy_state("lean") == (2, b"1")
    assert history.entries("lean") == []


def test_large_turns_are_read_one_after_the_other(tmp_path: Path) -> None:
    size = 400_000
    with closing(SqliteStore(tmp_path / "m.db")) as store:
        for number in range(30):
            store.append("ann", [draft("·" * (size // 2 * (number % 3)) + f"turn {number}")])
        tracemalloc.start()
        try:
            texts = [turn.text[-7:].strip("·") for turn in History(store, "ann").turns()]
            arrived = [turn.text[-7:].strip("·") for turn in History(store, "ann").arrivals()]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert texts == arrived == [f"turn {number}" for number in range(30)]
    assert peak < 20 * size  # all together have 30 times the size
