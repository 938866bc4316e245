"""Building session by session: what is pending, and what a build meets meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from session_samples import ALL, NOON, Maker, build, say, texts

from backread.construction.ledger import Ledger, Standing, standing, unbuilt_turns
from backread.construction.sessions import Made, build_sessions
from backread.errors import NotFoundError
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.types import BuildReport, Degradation, EntryDraft, Session, Source, Turn, TurnDraft


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    yield opened
    opened.close()


@pytest.fixture
def history(store: SqliteStore) -> History:
    """Three sessions of two turns: "a", "b", "c", one a day."""
    for day, session in enumerate("abc"):
        say(store, session, day, "first", "second")
    return History(store, "ann")


def test_only_what_a_later_session_seals_unless_flushed(history: History) -> None:
    make = Maker()
    assert build(history, make, flush=False).put == 2
    assert (make.asked, texts(history)) == (["a", "b"], ALL[:2])
    assert build(history, make).put == 1
    assert (make.asked, texts(history)) == (["a", "b", "c"], ALL)


def test_what_is_built_is_not_built_again(history: History) -> None:
    make = Maker()
    build(history, make)
    again = build(history, make)
    assert (again.put, again.dropped, again.usage, len(make.asked)) == (0, 0, (), 3)


def test_the_usage_of_all_sessions_is_reported(history: History) -> None:
    assert sum(usage.input_tokens or 0 for usage in build(history, Maker()).usage) == 6


def test_a_mark_that_names_no_turn_of_the_user_ends_the_look_at_it(
    store: SqliteStore, history: History, tmp_path: Path
) -> None:
    store.append("bo", [TurnDraft("z", "user", "not ann's")])
    with closing(sqlite3.connect(tmp_path / "m.db")) as db, db:  # as damage to the file may have it
        pk = "(SELECT user_pk FROM users WHERE user_id = CAST('ann' AS BLOB))"
        db.execute(f"INSERT INTO rebuilds SELECT {pk}, CAST('mine' AS BLOB), max(doc) FROM turns")
    assert len(history.turns_to_rebuild("mine")) == 1
    with pytest.raises(NotFoundError):
        standing(history, "mine")


def test_a_late_turn_makes_its_session_anew(store: SqliteStore, history: History) -> None:
    make = Maker()
    build(history, make)
    say(store, "a", 0, "late")
    assert standing(history, "mine").unbuilt == ("a",)
    report = build(history, make, flush=False)
    assert (report.put, report.dropped, make.asked[3:]) == (1, 0, ["a"])
    assert texts(history)[0] == "a first; a late; a second"  # same minute as the first, and it came later
    assert standing(history, "mine").unbuilt == ()


def test_a_deleted_turn_makes_its_session_anew(store: SqliteStore, history: History) -> None:
    build(history, Maker())
    store.delete("ann", turn_ids=[next(history.turns()).turn_id])
    assert texts(history) == ALL[1:]
    assert history.turns_to_rebuild("mine")
    build(history, Maker())
    assert texts(history) == ["a second", *ALL[1:]]
    assert not history.turns_to_rebuild("mine")


def test_a_superseded_turn_makes_both_sessions_anew(store: SqliteStore, history: History) -> None:
    make = Maker()
    build(history, make)
    say(store, "c", 2, "instead", supersedes=next(history.turns()).turn_id)
    build(history, make)
    assert make.asked[3:] == ["a", "c"]
    assert texts(history) == ["a second", ALL[1], "c first; c instead; c second"]


def test_entries_go_with_the_last_turn_of_their_session(store: SqliteStore, history: History) -> None:
    build(history, Maker())
    old = [turn.turn_id for turn in history.turns() if turn.session_id == "a"]
    for turn_id in old:
        say(store, "c", 2, f"for {turn_id}", supersedes=turn_id)
    make = Maker()
    report = build(history, make)
    assert (report.dropped, make.asked) == (1, ["c"])
    assert [entry.entry_id for entry in history.entries("mine")] == ["b-0", "c-0"]
    _, state = history.strategy_state("mine")
    assert sorted(Ledger.read(state).built) == ["b", "c"]


def test_old_entries_of_a_session_are_dropped(store: SqliteStore, history: History) -> None:
    build(history, Maker(parts=3))
    say(store, "a", 0, "late")
    report = build(history, Maker(parts=1))
    assert (report.put, report.dropped) == (1, 2)
    assert len(texts(history)) == 7


def test_another_recipe_makes_everything_anew(history: History) -> None:
    make = Maker()
    for recipe in ("one", "one", "two"):
        build_sessions(history, Context(concurrency=1), make, strategy="mine", recipe=recipe, flush=True)
    assert make.asked == ["a", "b", "c"] * 2
    assert standing(history, "mine", recipe="one").built == ()
    assert standing(history, "mine", recipe="two").unbuilt == ()


def test_ledgers_of_one_strategy_are_kept_apart(history: History) -> None:
    make = Maker()
    for ledger in ("pages", "lists"):
        build_sessions(history, Context(concurrency=1), make, strategy="mine", ledger=ledger, flush=True)
    assert len(make.asked) == 6
    assert standing(history, "mine", ledger="pages").built == standing(history, "mine", ledger="lists").built
    assert standing(history, "mine").built == ()


# --- meanwhile


def test_an_add_during_a_build_is_not_lost(store: SqliteStore, history: History) -> None:
    def add(session: Session, turns: Sequence[Turn]) -> None:
        if session.session_id == "b" and len(turns) == 2:
            say(store, "b", 1, "late")

    make = Maker(add)
    report = build(history, make)
    assert (report.put, report.failed) == (2, ())
    assert [(item.part, item.count) for item in report.degraded] == [("build", 1)]
    assert standing(history, "mine").unbuilt == ("b",)
    assert [turn.text for turn in unbuilt_turns(history, "mine")] == ["b first", "b late", "b second"]
    assert build(history, make).put == 1
    assert texts(history)[1] == "b first; b late; b second"


def test_a_new_session_during_a_build_waits_for_the_next(store: SqliteStore, history: History) -> None:
    def add(session: Session, turns: Sequence[Turn]) -> None:
        if session.session_id == "a":
            say(store, "d", 9, "new")

    build(history, Maker(add))
    assert standing(history, "mine").unbuilt == ("d",)
    assert build(history, Maker()).put == 1


@pytest.mark.parametrize("built_before", [False, True])
def test_a_turn_deleted_during_a_build_leaves_nothing_behind(
    store: SqliteStore, history: History, built_before: bool
) -> None:
    if built_before:
        build(history, Maker(), flush=False)
    canary = say(store, "c", 2, "locker 7719")[0]

    def delete(session: Session, turns: Sequence[Turn]) -> None:
        if session.session_id == "c":
            store.delete("ann", turn_ids=[canary])

    build(history, Maker(delete))
    assert all("7719" not in text for text in texts(history))
    build(history, Maker())
    assert texts(history) == ALL


def test_the_whole_user_may_go_during_a_build(store: SqliteStore, history: History) -> None:
    def delete(session: Session, turns: Sequence[Turn]) -> None:
        store.delete("ann")

    report = build(history, Maker(delete))
    assert report.put == 0
    assert texts(history) == []


def test_a_delete_elsewhere_costs_no_second_call(store: SqliteStore, history: History) -> None:
    last = list(history.turns())[-1].turn_id

    def delete(session: Session, turns: Sequence[Turn]) -> None:
        if session.session_id == "a":
            store.delete("ann", turn_ids=[last])

    make = Maker(delete)
    assert build(history, make).put == 3
    assert make.asked == ["a", "b", "c"]
    assert texts(history) == [*ALL[:2], "c first"]


def test_what_another_build_did_meanwhile_stays(history: History) -> None:
    def other(session: Session, turns: Sequence[Turn]) -> None:
        if session.session_id == "a":
            build(history, Maker())

    make = Maker(other)
    report = build(history, make)
    versions = [entry.version for entry in history.entries("mine")]
    assert (report.put, report.degraded) == (0, ())
    assert make.asked == ["a"]  # the others were done when their turn came
    assert versions == [2, 3, 4]
    assert texts(history) == ALL


def test_entries_on_turns_of_other_sessions_are_made_again(store: SqliteStore, history: History) -> None:
    first = next(history.turns())

    def make(session: Session, turns: Sequence[Turn]) -> Made:
        made = Maker()(session, turns)
        if session.session_id != "b" or all(turn.turn_id != first.turn_id for turn in history.turns()):
            return made
        (draft,) = made.entries
        sources = (*draft.sources, Source(first.turn_id))
        return Made((EntryDraft(draft.entry_id, "mine", "page", {}, draft.index_text, sources),))

    build(history, make)
    store.delete("ann", turn_ids=[first.turn_id])
    assert standing(history, "mine").unbuilt == ("a", "b")
    assert build(history, make).put == 2
    assert standing(history, "mine").unbuilt == ()


def test_a_view_of_the_past_is_built_as_the_whole_record(store: SqliteStore, history: History) -> None:
    build(History(store, "ann", as_of=NOON + timedelta(hours=1)), Maker())
    assert texts(history) == ALL


def test_a_view_of_the_past_knows_what_was_built_by_what_it_shows(store: SqliteStore, history: History) -> None:
    build(history, Maker())
    view = History(store, "ann", as_of=NOON + timedelta(days=1, seconds=1))  # "b" has one turn by then
    assert standing(view, "mine") == Standing(built=("a",), unbuilt=("b",))


def test_nothing_to_do_writes_nothing(store: SqliteStore, history: History) -> None:
    nobody = History(store, "nobody")
    assert build(nobody, Maker()) == BuildReport("mine")
    assert nobody.strategy_state("mine") == (0, None)


def test_what_sessions_lack_is_added_up(history: History) -> None:
    def make(session: Session, turns: Sequence[Turn]) -> Made:
        return Made(Maker()(session, turns).entries, (), (Degradation("build", "too long", 1),))

    assert build(history, make).degraded == (Degradation("build", "too long", 3),)
