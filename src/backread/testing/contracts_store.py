"""The contract of a `TurnStore` as tests: inherit the class, override the fixture `store`, and run it with pytest."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from backread.errors import ConflictError, NotFoundError, StaleVersionError, StoreError, TurnTooLargeError
from backread.store.base import TURNS, Progress, TurnStore
from backread.store.layout import UNKNOWN_TIME
from backread.types import EntryDraft, Source, TurnDraft

__all__ = ["TurnStoreContract", "draft"]

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def draft(text: str, **values: object) -> TurnDraft:
    """A draft with the fields a test doesn't care about filled in."""
    return TurnDraft(**{"session_id": "s1", "role": "user", "text": text, **values})  # type: ignore[arg-type]


class TurnStoreContract:
    """What every engine must do. `store` gives an open, empty store."""

    @pytest.fixture
    def store(self) -> TurnStore:
        """An open, empty store; override it."""
        raise NotImplementedError("override the fixture `store`")

    def texts(self, store: TurnStore, user_id: str = "ann") -> list[str]:
        """The user's texts in history order."""
        return [turn.text for turn in store.turns_by_doc(user_id, store.layout(user_id).docs.tolist())]

    # --- the record

    @pytest.mark.parametrize(
        "text",
        [
            'Config:\n\n\tretry:  3\n    token = "AbC-12__zZ=="\n```py\nif a:\n        b()\n```\n  trailing  '
            "\r\nline\u2028end",
            "nul \0 inside",
            "lone \ud800 surrogate",
            "\u202egnirts\u202c 👩‍👩‍👧 e\u0301",
            "x" * 1_200_000,
        ],
    )
    def test_text_comes_back_as_it_went_in(self, store: TurnStore, text: str) -> None:  # VER-02, VER-03
        store.append("ann", [draft(text, speaker=text[:50], caption=text[:50], external_id=text[:50])])
        (turn,) = store.turns_by_doc("ann", store.layout("ann").docs.tolist())
        assert (turn.text, turn.speaker, turn.caption, turn.external_id) == (text, *[text[:50]] * 3)

    def test_every_field_comes_back(self, store: TurnStore) -> None:
        said = datetime(2024, 3, 9, 7, 5, 1, 250, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))
        (first,) = store.append("ann", [draft("old", external_id="m-1")])
        given = draft(
            "new",
            session_id="s2",
            role="assistant",
            speaker="Bo",
            external_id="m-2",
            caption="a kayak",
            attachments=({"type": "image", "url": "x", "n": [1, None]},),
            said_at=said,
            said_text="early",
            supersedes="m-1",
        )
        (second,) = store.append("ann", [given])
        docs = store.docs_of_turns("ann", ["m-2", second.turn_id or ""])
        assert docs["m-2"] == docs[second.turn_id or ""]
        (turn,) = store.turns_by_doc("ann", [docs["m-2"]])
        (size,) = store.turn_sizes("ann", [docs["m-2"], 10**9])
        words = len(turn.text.encode()) + len("a kayak")
        assert (size.turn_id, size.bytes) == (turn.turn_id, words + len('[{"n":[1,null],"type":"image","url":"x"}]'))
        assert [item.bytes for item in store.turn_sizes("ann", [docs["m-2"]], attachments="named")] == [words]
        assert store.turn_sizes("bo", [docs["m-2"]]) == []
        assert turn.turn_id == second.turn_id
        assert turn.supersedes == first.turn_id
        assert turn.said_at == said
        assert turn.said_at is not None
        assert turn.said_at.utcoffset() == said.utcoffset()
        for name in ("session_id", "role", "speaker", "text", "caption", "said_text", "attachments", "offset_known"):
            assert getattr(turn, name) == getattr(given, name), name

    def test_ids_are_the_same_when_the_same_calls_are_made(self, store: TurnStore) -> None:
        store.append("ann", [draft("a"), draft("b", external_id="x")])
        before = [turn.turn_id for turn in store.turns_by_doc("ann", store.layout("ann").docs.tolist())]
        store.delete("ann")
        again = [item.turn_id for item in store.append("ann", [draft("a"), draft("b", external_id="x")])]
        assert again == before

    def test_an_id_with_the_same_content_is_known(self, store: TurnStore) -> None:  # VER-05
        (first,) = store.append("ann", [draft("The lift code is 4411#", external_id="m-1")])
        (again,) = store.append("ann", [draft("The lift code is 4411#", external_id="m-1")])
        assert (again.turn_id, again.new) == (first.turn_id, False)
        assert self.texts(store) == ["The lift code is 4411#"]

    def test_an_id_with_other_content_is_a_conflict_and_keeps_the_first(self, store: TurnStore) -> None:  # VER-05
        store.append("ann", [draft("one", external_id="m-1")])
        kept, clash = store.append("ann", [draft("two"), draft("other", external_id="m-1")])
        assert kept.new
        assert isinstance(clash.problem, ConflictError)
        assert "text" in str(clash.problem)
        assert self.texts(store) == ["one", "two"]

    def test_equal_text_without_an_id_is_two_turns(self, store: TurnStore) -> None:  # VER-05
        store.append("ann", [draft("again"), draft("again")])
        assert self.texts(store) == ["again", "again"]

    def test_equal_external_ids_of_two_users_are_two_turns(self, store: TurnStore) -> None:
        store.append("ann", [draft("stamps", external_id="m-1")])
        store.append("bo", [draft("coins", external_id="m-1")])
        assert self.texts(store, "ann") == ["stamps"]
        assert self.texts(store, "bo") == ["coins"]

    def test_user_ids_are_compared_exactly(self, store: TurnStore) -> None:  # TOK-03
        store.append("Zo\u00eb", [draft("composed")])
        store.append("Zoe\u0308", [draft("decomposed")])
        assert self.texts(store, "Zo\u00eb") == ["composed"]
        assert store.users() == sorted(["Zo\u00eb", "Zoe\u0308"])

    def test_a_text_over_the_limit_is_refused_before_anything_is_stored(self, store: TurnStore) -> None:  # VER-03
        (item,) = store.append("ann", [draft("x" * 20_000_000)])
        assert isinstance(item.problem, TurnTooLargeError)
        assert store.layout("ann").size == 0

    def test_sizes_are_told_and_attachments_named(self, store: TurnStore) -> None:
        given = ({"type": "image", "url": "x" * 50}, {"type": "call", "n": "ü"})
        store.append("ann", [draft("ü\ud800", caption="cap", attachments=given), draft("plain")])
        docs = store.layout("ann").docs.tolist()
        first, second = store.turn_sizes("ann", [docs[0], docs[1], 10**9])
        named, plain = store.turns_by_doc("ann", docs, attachments="named")
        assert (first.turn_id, first.doc) == (named.turn_id, docs[0])
        assert second == (docs[1], plain.turn_id, 5)
        words = store.turn_sizes("ann", docs, attachments="named")
        assert [item.bytes for item in words] == [5 + 3, 5]
        assert [set(item) for item in named.attachments] == [{"type", "bytes", "sha256"}] * 2
        assert first.bytes == 5 + 3 + sum(item["bytes"] for item in named.attachments) + len("[,]")
        assert [item["type"] for item in named.attachments] == ["image", "call"]
        assert store.turn_sizes("bo", docs) == []
        assert [turn.attachments for turn in store.turns_by_doc("ann", docs, attachments="none")] == [(), ()]

    def test_supersedes_must_name_a_turn_of_the_same_user(self, store: TurnStore) -> None:
        (mine,) = store.append("ann", [draft("mine")])
        (theirs,) = store.append("bo", [draft("theirs", supersedes=mine.turn_id)])
        assert theirs.problem is not None
        assert store.layout("bo").size == 0

    # --- order

    def test_late_turns_go_where_they_belong(self, store: TurnStore) -> None:  # DAT-05
        zone = timezone(timedelta(hours=2))
        turns = [
            draft("three", said_at=datetime(2024, 5, 1, 10, 0, 2, tzinfo=UTC)),
            draft("one", said_at=datetime(2024, 5, 1, 10, 0, 0, tzinfo=UTC)),
            draft("two a", said_at=datetime(2024, 5, 1, 10, 0, 1, tzinfo=UTC), offset_known=False),
            draft("two b", said_at=datetime(2024, 5, 1, 12, 0, 1, tzinfo=zone)),
            draft("future", said_at=datetime(2093, 1, 1, tzinfo=UTC)),
        ]
        for turn in turns:
            store.append("ann", [turn])
        assert self.texts(store) == ["one", "two a", "two b", "three", "future"]
        store.append("bo", turns[::-1])
        assert self.texts(store, "bo") == ["one", "two b", "two a", "three", "future"]

    def test_a_turn_of_unknown_time_follows_the_one_that_arrived_before_it(self, store: TurnStore) -> None:
        for text, at in (("opening", None), ("b", NOON), ("after b", None), ("a", NOON - timedelta(hours=1))):
            store.append("ann", [draft(text, said_at=at)])
        assert self.texts(store) == ["opening", "a", "b", "after b"]

    def test_a_size_counts_sessions_and_turns(self, store: TurnStore) -> None:
        """Of one user; of nobody it is nothing."""
        store.append(
            "ann", [draft("One.", session_id="a"), draft("Two.", session_id="a"), draft("Three.", session_id="b")]
        )
        store.append("bob", [draft("Four.", session_id="a")])
        assert (store.size("ann"), store.size("bob"), store.size("nobody")) == ((2, 3), (1, 1), (0, 0))

    def test_sessions_are_ordered_by_their_start_also_when_late(self, store: TurnStore) -> None:
        store.append("ann", [draft("second", session_id="b", said_at=NOON)])
        store.append("ann", [draft("undated", session_id="c")])
        store.append("ann", [draft("first", session_id="a", said_at=NOON - timedelta(days=1))])
        assert self.texts(store) == ["first", "second", "undated"]
        assert [s.session_id for s in store.sessions("ann")] == ["a", "b", "c"]
        assert [s.started_at for s in store.sessions("ann")] == [NOON - timedelta(days=1), NOON, None]

    def test_position_is_the_place_in_the_session(self, store: TurnStore) -> None:
        store.append("ann", [draft("x", session_id="a"), draft("late", said_at=NOON)])
        store.append("ann", [draft("early", said_at=NOON - timedelta(days=400))])
        turns = store.turns_by_doc("ann", store.layout("ann").docs.tolist())
        assert {turn.text: turn.position for turn in turns} == {"x": 0, "early": 0, "late": 1}

    def test_layout_tells_roles_speakers_times_and_lengths(self, store: TurnStore) -> None:
        store.append("ann", [draft("one two three", said_at=NOON, speaker="Ann"), draft("four", role="assistant")])
        layout = store.layout("ann")
        assert [layout.speakers[code] for code in layout.speaker] == ["Ann", "assistant"]
        assert [layout.roles[code] for code in layout.role] == ["user", "assistant"]
        assert layout.said_us.tolist() == [int(NOON.timestamp()) * 1_000_000, UNKNOWN_TIME]
        assert layout.length.tolist() == [4.0, 1.0]  # the speaker's name is indexed too

    # --- the text index

    def test_postings_are_of_one_user_and_corpus(self, store: TurnStore) -> None:
        store.append("ann", [draft("kettle kettle blue"), draft("lamp")])
        store.append("bo", [draft("kettle")])
        kettle, lamp, none = store.postings("ann", TURNS, ["kettl", "lamp", "absent"])
        docs = store.layout("ann").docs
        assert (kettle.docs.tolist(), kettle.tf.tolist()) == ([docs[0]], [2.0])
        assert lamp.docs.tolist() == [docs[1]]
        assert none.docs.tolist() == []
        assert store.document_frequencies("ann", TURNS, ["kettl", "absent"]) == [1, 0]
        assert store.lookup("ann", TURNS, "kettl", docs).tolist() == [2.0, 0.0]

    def test_rebuilding_the_text_index_changes_nothing(self, store: TurnStore) -> None:
        store.append("ann", [draft("kettle kettle blue"), draft("lamp")])
        before = store.postings("ann", TURNS, ["kettl", "blue", "lamp"])
        assert store.rebuild_text_index() == 2
        after = store.postings("ann", TURNS, ["kettl", "blue", "lamp"])
        assert [(p.docs.tolist(), p.tf.tolist()) for p in before] == [(p.docs.tolist(), p.tf.tolist()) for p in after]
        assert store.verify().ok

    # --- vectors

    def test_vectors_come_back_with_their_docs(self, store: TurnStore) -> None:
        rng = np.random.default_rng(7)
        store.append("ann", [draft(f"turn {n}") for n in range(100)])
        docs = np.sort(store.layout("ann").docs)
        matrix = rng.standard_normal((150, 8)).astype(np.float32)
        owners = np.concatenate([docs, docs[:50]])
        assert store.put_vectors("ann", TURNS, "m", Progress(0, 0), owners[:3], matrix[:3], Progress(int(docs[3]), 0))
        done = Progress(int(docs[-1]) + 1, 0)
        assert store.put_vectors("ann", TURNS, "m", Progress(int(docs[3]), 0), owners[3:], matrix[3:], done)
        found, stored = store.vectors("ann", TURNS, "m")
        assert found.tolist() == owners.tolist()
        assert np.array_equal(stored, matrix)
        assert store.progress("ann", TURNS, "m") == done
        assert store.pending_count("ann", "m") == 0
        assert store.vectors("bo", TURNS, "m")[0].tolist() == []

    def test_cosines_are_those_of_the_vectors(self, store: TurnStore) -> None:
        store.append("ann", [draft("a"), draft("b")])
        docs = np.sort(store.layout("ann").docs)
        matrix = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
        done = Progress(int(docs[-1]) + 1, 0)
        assert store.put_vectors("ann", TURNS, "m", Progress(0, 0), docs[[0, 0, 1]], matrix, done)
        query = np.array([0.8, 0.6], np.float32)
        for wanted in (None, 1):  # a small corpus is always compared in full
            found = store.cosines("ann", TURNS, "m", query, wanted=wanted)
            assert found.docs.tolist() == docs[[0, 0, 1]].tolist()
            assert found.values == pytest.approx([0.8, 0.6, 0.96])
            assert (found.total, found.notes) == (3, ())
        for user, embedder in (("ann", "other"), ("bo", "m")):
            assert store.cosines(user, TURNS, embedder, query).docs.tolist() == []
        assert store.build_ann("ann", TURNS, "m") is None

    def test_pending_follows_progress(self, store: TurnStore) -> None:
        store.append("ann", [draft("a", speaker="Ann"), draft("b", caption="a cat"), draft("c")])
        docs = sorted(store.layout("ann").docs.tolist())
        assert store.pending_count(None, "m") == 3
        empty = np.empty((0, 4), np.float32)
        none = np.empty(0, np.int64)
        store.put_vectors("ann", TURNS, "m", Progress(0, 0), none, empty, Progress(docs[0], 1))
        assert [(p.header, p.text) for p in store.pending("ann", TURNS, "m", 10)] == [
            ("Ann: ", "a"),
            ("", "b [image: a cat]"),
            ("", "c"),
        ]
        store.put_vectors("ann", TURNS, "m", Progress(docs[0], 1), none, empty, Progress(docs[1], 0))
        assert [p.text for p in store.pending("ann", TURNS, "m", 1)] == ["b [image: a cat]"]

    def test_vectors_of_a_stale_reader_are_not_written(self, store: TurnStore) -> None:
        store.append("ann", [draft("a")])
        (doc,) = store.layout("ann").docs.tolist()
        args = (np.array([doc]), np.ones((1, 4), np.float32), Progress(doc + 1, 0))
        assert store.put_vectors("ann", TURNS, "m", Progress(0, 0), *args)
        assert not store.put_vectors("ann", TURNS, "m", Progress(0, 0), *args)
        assert len(store.vectors("ann", TURNS, "m")[0]) == 1

    def test_vectors_of_a_turn_deleted_meanwhile_are_dropped(self, store: TurnStore) -> None:
        first, _ = store.append("ann", [draft("a"), draft("b")])
        docs = np.sort(store.layout("ann").docs)
        store.delete("ann", turn_ids=[first.turn_id or ""])
        store.put_vectors("ann", TURNS, "m", Progress(0, 0), docs, np.ones((2, 4), np.float32), Progress(10**6, 0))
        assert store.vectors("ann", TURNS, "m")[0].tolist() == [int(docs[1])]

    def test_two_embedders_are_kept_apart_until_one_is_chosen(self, store: TurnStore) -> None:  # EMB-03
        store.append("ann", [draft("a")])
        (doc,) = store.layout("ann").docs.tolist()
        for name, width in (("old", 4), ("new", 6)):
            ones = np.ones((1, width), np.float32)
            assert store.put_vectors("ann", TURNS, name, Progress(0, 0), np.array([doc]), ones, Progress(doc + 1, 0))
        assert store.active_embedder == "old"
        assert store.vectors("ann", TURNS, "new")[1].shape == (1, 6)
        store.activate_embedder("new")
        assert store.active_embedder == "new"
        assert store.vectors("ann", TURNS, "old")[0].tolist() == []
        with pytest.raises(NotFoundError):
            store.activate_embedder("old")

    def two_embedders(self, store: TurnStore) -> int:
        """One turn of ann with a vector of "old", which is active, and one of "new"; its doc."""
        store.append("ann", [draft("a")])
        (doc,) = store.layout("ann").docs.tolist()
        for name, width in (("old", 4), ("new", 6)):
            ones = np.ones((1, width), np.float32)
            assert store.put_vectors("ann", TURNS, name, Progress(0, 0), np.array([doc]), ones, Progress(doc + 1, 0))
        return int(doc)

    def test_the_previous_embedder_is_kept_to_go_back_to(self, store: TurnStore) -> None:
        doc = self.two_embedders(store)
        store.activate_embedder("new", keep_previous=True)
        for active, previous in (("new", "old"), ("old", "new"), ("new", "old")):
            assert (store.active_embedder, store.previous_embedder) == (active, previous)
            assert [store.vectors("ann", TURNS, name)[0].tolist() for name in ("old", "new")] == [[doc], [doc]]
            assert store.verify().ok
            store.activate_embedder(active, keep_previous=True)  # changes nothing
            store.activate_embedder(previous, keep_previous=True)
        assert store.drop_previous_embedder()
        assert not store.drop_previous_embedder()
        assert (store.active_embedder, store.previous_embedder) == ("old", None)
        assert store.vectors("ann", TURNS, "new")[0].tolist() == []
        assert store.verify().ok

    def test_only_one_embedder_is_the_previous_one(self, store: TurnStore) -> None:
        doc = self.two_embedders(store)
        store.activate_embedder("new", keep_previous=True)
        store.activate_embedder("third", dimension=3, keep_previous=True)  # nothing was embedded with it yet
        assert (store.active_embedder, store.previous_embedder) == ("third", "new")
        assert store.pending_count("ann", "third") == 1
        assert store.vectors("ann", TURNS, "old")[0].tolist() == []
        assert store.vectors("ann", TURNS, "new")[0].tolist() == [doc]
        store.activate_embedder("third")
        assert store.previous_embedder is None
        assert store.verify().ok

    def test_a_deleted_turn_goes_from_the_previous_vectors_too(self, store: TurnStore) -> None:
        self.two_embedders(store)
        store.activate_embedder("new", keep_previous=True)
        (turn,) = store.turns_by_doc("ann", store.layout("ann").docs.tolist())
        assert store.delete("ann", turn_ids=[turn.turn_id]).vectors == 2
        assert [store.vectors("ann", TURNS, name)[0].tolist() for name in ("old", "new")] == [[], []]
        assert store.verify().ok

    # --- entries

    def entry(self, name: str, *turn_ids: str | None, text: str = "likes tea") -> EntryDraft:
        """An entry over turns."""
        sources = tuple(Source(turn_id or "", 0, 1) for turn_id in turn_ids)
        return EntryDraft(name, "lean", "event", {"n": 1}, text, sources, NOON, "model", "abc")

    def test_entries_come_back_and_are_searchable_by_themselves(self, store: TurnStore) -> None:
        (turn,) = store.append("ann", [draft("I like tea")])
        assert store.commit("ann", "lean", 0, [self.entry("e1", turn.turn_id)], state=b"s") == 1
        (entry,) = store.entries("ann", "lean", "event")
        assert (entry.entry_id, entry.data, entry.sources) == ("e1", {"n": 1}, (Source(turn.turn_id or "", 0, 1),))
        assert (entry.said_at, entry.model, entry.prompt_hash, entry.version) == (NOON, "model", "abc", 1)
        assert store.strategy_state("ann", "lean") == (1, b"s")
        assert (
            store.postings("ann", "lean/event", ["tea"])[0].docs.tolist()
            == store.layout("ann", "lean/event").docs.tolist()
        )
        assert store.document_frequencies("ann", TURNS, ["tea"]) == [1]
        assert store.entries("bo", "lean") == []

    def test_a_commit_on_an_old_version_writes_nothing(self, store: TurnStore) -> None:
        (turn,) = store.append("ann", [draft("I like tea")])
        store.commit("ann", "lean", 0, [self.entry("e1", turn.turn_id)])
        with pytest.raises(StaleVersionError):
            store.commit("ann", "lean", 0, [self.entry("e2", turn.turn_id)], drop=["e1"])
        assert [entry.entry_id for entry in store.entries("ann", "lean")] == ["e1"]

    def test_an_entry_is_replaced_by_its_id_and_dropped_by_it(self, store: TurnStore) -> None:
        (turn,) = store.append("ann", [draft("I like tea")])
        store.commit("ann", "lean", 0, [self.entry("e1", turn.turn_id), self.entry("e2", turn.turn_id)], state=b"s")
        store.commit("ann", "lean", 1, [self.entry("e1", turn.turn_id, text="likes coffee")], drop=["e2"])
        assert [entry.index_text for entry in store.entries("ann", "lean")] == ["likes coffee"]
        assert store.strategy_state("ann", "lean") == (2, b"s")
        assert store.verify().ok

    def test_an_entry_must_rest_on_turns_of_the_user(self, store: TurnStore) -> None:
        (theirs,) = store.append("bo", [draft("theirs")])
        store.append("ann", [draft("mine")])
        with pytest.raises(NotFoundError):
            store.commit("ann", "lean", 0, [self.entry("e1", theirs.turn_id)])
        assert store.strategy_state("ann", "lean") == (0, None)

    # --- deleting

    def fill(self, store: TurnStore) -> list[str]:
        """Two users with vectors and entries; ann's turn ids."""
        ids = []
        for user, count in (("ann", 3), ("bo", 2)):
            items = store.append(user, [draft(f"secret {user} {n}", session_id=f"s{n % 2}") for n in range(count)])
            ids.append([item.turn_id or "" for item in items])
            docs = np.sort(store.layout(user).docs)
            ones = np.ones((count, 4), np.float32)
            store.put_vectors(user, TURNS, "m", Progress(0, 0), docs, ones, Progress(int(docs[-1]) + 1, 0))
        store.commit("ann", "lean", 0, [self.entry("e1", ids[0][0], ids[0][1]), self.entry("e2", ids[0][2])])
        return ids[0]

    def test_deleting_a_turn_takes_all_that_rests_on_it(self, store: TurnStore) -> None:
        ids = self.fill(store)
        receipt = store.delete("ann", turn_ids=[ids[0]])
        assert (receipt.turns, receipt.sessions, receipt.entries, receipt.vectors) == (1, 0, 1, 1)
        assert receipt.postings > 0
        assert receipt.to_rebuild == 1
        assert store.turns_to_rebuild("ann", "lean") == [ids[1]]
        assert [entry.entry_id for entry in store.entries("ann", "lean")] == ["e2"]
        assert store.strategy_state("ann", "lean")[0] == 2  # a build that read the old record can't commit
        assert len(store.vectors("ann", TURNS, "m")[0]) == 2
        assert store.verify().ok
        store.commit("ann", "lean", 2, rebuilt=[ids[1]])
        assert store.turns_to_rebuild("ann", "lean") == []

    def test_an_entry_goes_with_a_turn_its_model_saw_and_does_not_cite_it(self, store: TurnStore) -> None:
        cited, shown, other = (item.turn_id or "" for item in store.append("ann", [draft(f"turn {n}") for n in "abc"]))
        seen = replace(self.entry("e1", cited), shown=(cited, shown))
        store.commit("ann", "lean", 0, [seen, self.entry("e2", other)])
        (entry,) = (entry for entry in store.entries("ann", "lean") if entry.entry_id == "e1")
        assert (entry.sources, entry.shown) == ((Source(cited, 0, 1),), (shown,))
        assert store.verify().ok
        receipt = store.delete("ann", turn_ids=[shown])
        assert (receipt.entries, receipt.to_rebuild) == (1, 1)
        assert [entry.entry_id for entry in store.entries("ann", "lean")] == ["e2"]
        assert store.turns_to_rebuild("ann", "lean") == [cited]
        assert store.verify().ok

    def test_a_session_that_is_gone_leaves_the_states(self, store: TurnStore) -> None:
        ids = self.fill(store)
        rows = {"s0": ["f0", ["event:s0:1"]], "s1": ["f1", ["event:s1:1"]]}
        state = {
            "sessions": {"built": rows, "failed": {"s0": ["ModelError", 1]}},
            "more": {"alone": {"event:s0:1": "x"}},
        }
        store.commit("ann", "lean", 1, state=json.dumps(state).encode())
        store.delete("ann", turn_ids=[ids[0]])
        assert json.loads(store.strategy_state("ann", "lean")[1] or b"") == state  # s0 has another turn
        store.delete("ann", turn_ids=[ids[2]])
        left = {"sessions": {"built": {"s1": rows["s1"]}, "failed": {}}, "more": {"alone": {}}}
        assert json.loads(store.strategy_state("ann", "lean")[1] or b"") == left
        assert store.verify().ok

    def test_deleting_a_session_or_user_leaves_the_others(self, store: TurnStore) -> None:  # DEL-03
        self.fill(store)
        assert store.delete("ann", session_id="s0").turns == 2
        assert self.texts(store) == ["secret ann 1"]
        receipt = store.delete("ann")
        assert (receipt.turns, receipt.sessions) == (1, 1)
        assert store.users() == ["bo"]
        assert self.texts(store, "bo") == ["secret bo 0", "secret bo 1"]
        assert store.document_frequencies("bo", TURNS, ["secret"]) == [2]
        assert store.verify().ok

    def test_deleting_nothing_deletes_nothing(self, store: TurnStore) -> None:  # DEL-03
        ids = self.fill(store)
        assert store.delete("nobody").turns == 0
        assert store.delete("bo", turn_ids=[ids[0]]).turns == 0
        assert store.delete("ann", session_id="absent").turns == 0
        assert store.delete("ann", turn_ids=[]).turns == 0
        assert store.stats().turns == 5

    def test_a_superseding_turn_outlives_the_one_it_replaced(self, store: TurnStore) -> None:
        (old,) = store.append("ann", [draft("old")])
        store.append("ann", [draft("new", supersedes=old.turn_id)])
        store.delete("ann", turn_ids=[old.turn_id or ""])
        (turn,) = store.turns_by_doc("ann", store.layout("ann").docs.tolist())
        assert (turn.text, turn.supersedes) == ("new", None)
        assert store.verify().ok

    def test_a_chain_of_corrections_outlives_each_of_its_turns(self, store: TurnStore) -> None:
        for name, older in (("a", None), ("b", "a"), ("c", "b"), ("d", "a")):
            store.append("ann", [draft(name, external_id=name, supersedes=older)])
        docs = store.docs_of_turns("ann", ["a", "b", "c", "d"])
        assert store.layout("ann").supersedes == {docs["b"]: docs["a"], docs["c"]: docs["b"], docs["d"]: docs["a"]}
        store.delete("ann", turn_ids=["b"])
        assert store.layout("ann").supersedes == {docs["c"]: docs["a"], docs["d"]: docs["a"]}
        store.delete("ann", turn_ids=["a"])
        assert store.layout("ann").supersedes == {docs["d"]: docs["c"]}
        assert store.verify().ok

    def test_a_known_turn_is_linked_to_what_came_back(self, store: TurnStore) -> None:
        drafts = [draft(name, external_id=name, supersedes=older) for name, older in (("a", None), ("b", "a"))]
        store.append("ann", drafts)
        store.delete("ann", turn_ids=["a"])
        assert [item.new for item in store.append("ann", drafts)] == [True, False]
        docs = store.docs_of_turns("ann", ["a", "b"])
        assert store.layout("ann").supersedes == {docs["b"]: docs["a"]}
        assert store.verify().ok

    def test_a_time_of_receipt_is_no_time_of_saying(self, store: TurnStore) -> None:
        zone = timezone(timedelta(hours=-5))
        received = draft("a", external_id="a", received_at=NOON.astimezone(zone))
        store.append("ann", [received, draft("b", said_at=NOON - timedelta(days=1)), draft("c")])
        layout = store.layout("ann")
        assert layout.said_us.tolist().count(UNKNOWN_TIME) == 1
        a, b, c = store.turns_by_doc("ann", layout.docs.tolist())
        assert [turn.text for turn in (a, b, c)] == [
            "a",
            "b",
            "c",
        ]  # nobody said when a was said: it stays where it came
        assert (a.said_at, a.received_at, b.received_at, c.received_at) == (None, NOON, None, None)
        assert store.offsets("ann", TURNS, layout.docs).tolist() == [-300, 0, 0]
        assert store.offsets("bo", TURNS, layout.docs).tolist() == [0, 0, 0]
        again = replace(received, received_at=NOON + timedelta(days=1))
        assert not store.append("ann", [again])[0].new
        assert store.verify().ok

    def test_deleting_keeps_the_order_of_what_is_left(self, store: TurnStore) -> None:
        known = store.append("ann", [draft("b", said_at=NOON)])
        for text, at in (("after b", None), ("c", NOON + timedelta(hours=1))):
            store.append("ann", [draft(text, said_at=at)])
        store.delete("ann", turn_ids=[known[0].turn_id or ""])
        assert self.texts(store) == ["after b", "c"]
        assert store.verify().ok

    # --- the whole

    def test_an_unknown_user_is_an_empty_history(self, store: TurnStore) -> None:
        assert store.layout("nobody").size == 0
        assert store.sessions("nobody") == []
        assert store.postings("nobody", TURNS, ["x"])[0].docs.tolist() == []
        assert store.pending("nobody", TURNS, "m", 5) == []
        assert store.docs_of_turns("nobody", ["x"]) == {}

    def test_stats_count_what_is_there(self, store: TurnStore) -> None:
        self.fill(store)
        stats = store.stats()
        assert (stats.users, stats.sessions, stats.turns, stats.entries, stats.vectors) == (2, 4, 5, 2, 5)
        assert store.stats("bo").turns == 2
        assert stats.bytes > 0
        assert store.corpora("ann") == [("ann", "lean/event"), ("ann", "turn")]

    def test_threads_lose_nothing(self, store: TurnStore) -> None:  # CON-01
        errors: list[Exception] = []

        def write(number: int) -> None:
            try:
                for n in range(25):
                    store.append("ann", [draft(f"{number} {n}", external_id=f"{number}-{n}")])
                    store.postings("ann", TURNS, [str(n)])
            except StoreError as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sorted(self.texts(store)) == sorted(f"{number} {n}" for number in range(8) for n in range(25))

    def test_a_closed_store_says_so(self, store: TurnStore) -> None:
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.layout("ann")
