"""`Memory`: reading, deleting, exporting and opening, over a real store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from memory_samples import TALK, opened, texts
from numpy.typing import NDArray

from backread import Memory
from backread.errors import (
    ContextWindowError,
    InvalidInputError,
    ModelNotAvailableError,
    NotFoundError,
    StoreError,
)
from backread.importers import read_jsonl
from backread.memory import SearchMode
from backread.models.openai import OpenAIChat
from backread.models.roles import ChatRoles
from backread.secret import Address
from backread.settings import Settings
from backread.store.sqlite import SqliteStore
from backread.testing.fakes import ChatRequest, FakeChat, FunctionChat, HashEmbedder


class TestReading:
    def test_get_by_either_id(self, talked: Memory) -> None:
        turn = talked.get("m1", user_id="ann")
        assert talked.get(turn.turn_id, user_id="ann") == turn
        for turn_id in ("m9", "", turn.turn_id):
            with pytest.raises(NotFoundError, match="no turn"):
                talked.get(turn_id, user_id="eve" if turn_id else "ann")

    def test_turns_of_a_session(self, talked: Memory) -> None:
        assert [turn.external_id for turn in talked.turns(user_id="ann", session_id="s2")] == ["m4"]
        with pytest.raises(NotFoundError, match="s9"):
            talked.turns(user_id="ann", session_id="s9")
        with pytest.raises(InvalidInputError, match="session_id"):
            talked.turns(user_id="ann", session_id="")
        assert list(talked.turns(user_id="nobody")) == []

    def test_sessions_users_and_counts(self, talked: Memory) -> None:
        assert [(session.session_id, session.turns) for session in talked.sessions(user_id="ann")] == [
            ("s1", 3),
            ("s2", 1),
        ]
        assert talked.users() == ["ann"]
        stats = talked.stats(user_id="ann")
        assert (stats.turns, stats.sessions, stats.pending) == (4, 2, 4)
        assert talked.stats(user_id="nobody").turns == 0
        assert talked.verify().ok


class TestDelete:  # DEL-03
    def test_a_turn_a_session_and_everything(self, talked: Memory) -> None:
        talked.add(TALK, user_id="vic", session_id="s1")
        talked.search("kettle", user_id="ann")
        assert talked.delete(user_id="ann", turn_id="m1").turns == 1
        assert len(talked.search("kettle", user_id="ann", mode="bm25")) == 0
        receipt = talked.delete(user_id="ann", session_id="s1")
        assert (receipt.turns, receipt.sessions) == (2, 1)
        assert texts(talked) == ["My lamp is green."]
        assert talked.delete(user_id="ann").turns == 1
        assert talked.users() == ["vic"]
        assert len(talked.search("kettle", user_id="vic")) >= 1
        assert talked.verify().ok

    @pytest.mark.parametrize("scope", [{"session_id": None}, {"session_id": ""}, {"turn_id": None}, {"turn_id": " "}])
    def test_none_is_never_all(self, talked: Memory, scope: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError, match="must be a non-empty text"):
            talked.delete(user_id="ann", **scope)
        assert len(texts(talked)) == 4

    def test_ids_of_nothing_erase_nothing(self, talked: Memory) -> None:
        assert talked.delete(user_id="nobody").turns == 0
        assert talked.delete(user_id="ann", session_id="s9").turns == 0
        assert talked.delete(user_id="ann", turn_id="m9").turns == 0
        assert talked.delete(user_id="ann", turn_id="m1", session_id="s2").turns == 0
        assert len(texts(talked)) == 4


class TestExport:
    MESSAGES: tuple[dict[str, Any], ...] = (
        {"role": "user", "content": "plain"},
        {
            "role": "user",
            "content": "café \x00 \ud800 \u2028\n",
            "name": "Zoë\n",
            "id": "a/1",
            "timestamp": "2024-05-01T09:00",
        },
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}], "timestamp": "2024-05-01T09:00:01.5+05:30"},
        {"role": "user", "content": "better", "supersedes": "a/1", "timestamp": 1714554000},
        {"role": "participant", "content": "spring", "caption": "a hill", "said_text": "last spring"},
    )

    def test_an_export_comes_back_as_it_was(self, memory: Memory, tmp_path: Path) -> None:
        memory.add(list(self.MESSAGES), user_id="ann", session_id="s/1")
        memory.add(
            {"role": "user", "content": "plain", "timestamp": "2020-01-01T00:00Z"}, user_id="ann", session_id="s0"
        )
        exported = list(memory.export(user_id="ann"))
        file = tmp_path / "ann.jsonl"
        file.write_text("".join(json.dumps(message) + "\n" for message in exported), encoding="utf-8")
        imported = read_jsonl(file)
        (tmp_path / "other").mkdir()
        with opened(tmp_path / "other") as other:
            for session in imported.sessions:
                assert not other.add_turns(session.turns, user_id=session.user_id).rejected
            mine, theirs = list(memory.turns(user_id="ann")), list(other.turns(user_id="ann"))
            for old, new in zip(mine, theirs, strict=True):
                for name in ("session_id", "position", "role", "text", "speaker", "caption", "attachments", "said_at"):
                    assert getattr(new, name) == getattr(old, name), name
                assert (new.said_text, new.offset_known) == (old.said_text, old.offset_known)
                assert new.external_id == (old.external_id or old.turn_id)
            assert [turn.text for turn in theirs if turn.supersedes] == ["better"]
        for session in imported.sessions:  # and into the same store: nothing new
            receipt = memory.add_turns(session.turns, user_id=session.user_id)
            assert (receipt.stored, receipt.known, receipt.rejected) == (0, len(session.turns), ())
        assert list(memory.export(user_id="ann")) == exported


class TestOpening:
    def test_arguments_go_before_everything(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        config = tmp_path / "config.toml"
        config.write_text('embedder = "none"\nbudget = 11\nzone = "Europe/Paris"\n', encoding="utf-8")
        monkeypatch.setenv("BACKREAD_CONFIG", str(config))
        monkeypatch.setenv("BACKREAD_BUDGET", "22")
        monkeypatch.setenv("BACKREAD_PATH", str(tmp_path / "environment.db"))
        with Memory.open() as memory:
            settings = memory.settings
            assert (settings.embedder, settings.budget, settings.zone) == ("none", 22, "Europe/Paris")
            assert settings.path == tmp_path / "environment.db"
        with Memory.open(tmp_path / "argument.db") as memory:
            assert memory.settings.path == tmp_path / "argument.db"
        assert (tmp_path / "argument.db").exists()

    def test_arguments_go_before_settings(self, tmp_path: Path) -> None:
        settings = Settings(path=tmp_path / "a.db", embedder="nonsense", model="m")
        chat = FunctionChat(lambda request: "x")
        with Memory.open(tmp_path / "b.db", embedder="none", model=chat, settings=settings) as memory:
            assert memory.settings.path == tmp_path / "b.db"
            assert (memory.embedder, memory.chat) == (None, chat)
        assert not (tmp_path / "a.db").exists()

    def test_weights_that_are_missing_are_a_degradation(self, tmp_path: Path) -> None:
        with Memory.open(tmp_path / "m.db") as memory:
            memory.add(TALK, user_id="ann")
            hits = memory.search("kettle", user_id="ann")
            assert hits[0].turn.external_id == "m1"
            (said,) = hits.degraded
            assert said.part == "dense"
            assert "backread models fetch" in said.reason
            assert memory.recall("kettle", user_id="ann").degraded == (said,)
            with pytest.raises(ModelNotAvailableError):
                memory.search("kettle", user_id="ann", mode="dense")
            with pytest.raises(ModelNotAvailableError, match="models fetch"):
                memory.index()

    def test_a_chat_model_without_an_endpoint_stops_only_what_needs_it(self, tmp_path: Path) -> None:  # CFG-01
        with Memory.open(tmp_path / "m.db", embedder="none", model="m") as memory:
            memory.add({"role": "user", "content": "The kettle is copper."}, user_id="ann")
            assert len(memory.search("kettle", user_id="ann")) == 1
            with pytest.raises(ModelNotAvailableError) as caught:
                memory.ask("What is the kettle made of?", user_id="ann")
            assert "OPENAI_BASE_URL" in (caught.value.hint or "")
        settings = Settings(
            path=tmp_path / "m.db", embedder="none", model="m", base_url=Address("http://127.0.0.1:9/v1")
        )
        with Memory.open(settings=settings) as memory:
            assert isinstance(memory.chat, OpenAIChat)
            assert memory.chat.name == "m"

    def test_each_role_has_its_model(self, tmp_path: Path) -> None:
        replies = FakeChat({"kettle": "It is copper [1]."}, name="answers")
        roles = ChatRoles(recall=FakeChat({}, name="recalls"), answer=replies)
        settings = Settings(path=tmp_path / "m.db", embedder="none")
        with Memory(SqliteStore(settings.path), settings, chat=roles) as memory:
            memory.add({"role": "user", "content": "The kettle is copper."}, user_id="ann")
            answer = memory.ask("What is the kettle made of?", user_id="ann")
        assert (answer.model, [usage.purpose for usage in answer.usage]) == ("answers", ["answer"])

    def test_a_small_window_gets_the_best_half_of_the_evidence(self, tmp_path: Path) -> None:  # LLM-08
        asked: list[str] = []

        def reply(request: ChatRequest) -> str:
            asked.append(request.messages[-1].content)
            if len(asked) == 1:
                raise ContextWindowError("too long")
            return "It is copper [1]."

        with Memory.open(tmp_path / "m.db", embedder="none", model=FunctionChat(reply)) as memory:
            for text in ("The kettle is copper.", "A kettle whistles.", "Kettle one.", "My kettle fell."):
                memory.add({"role": "user", "content": text}, user_id="ann")
            answer = memory.ask("What is the kettle made of?", user_id="ann")
        assert (asked[0].count("\n["), asked[1].count("\n[")) == (4, 2)
        assert [(item.part, item.count) for item in answer.degraded] == [("window", 2)]
        assert len(answer.recall.evidence) == 2

    def test_an_unknown_embedder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match="nonsense"):
            Memory.open(tmp_path / "m.db", embedder="nonsense")

    def test_a_part_that_is_none_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="embedder is a name or an instance of Embedder, not dict"):
            Memory.open(tmp_path / "m.db", embedder={})  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="model is a name or an instance of ChatModel, not HashEmbedder"):
            Memory.open(tmp_path / "m.db", model=HashEmbedder())  # type: ignore[arg-type]

    def test_a_store_that_is_no_store(self, tmp_path: Path) -> None:
        (tmp_path / "m.db").write_bytes(b"not a database at all, but long enough to look at" * 100)
        with pytest.raises(StoreError):
            Memory.open(tmp_path / "m.db", embedder="none")

    def test_closing(self, tmp_path: Path) -> None:
        with opened(tmp_path) as memory:
            memory.add(TALK, user_id="ann")
        memory.close()
        with pytest.raises(StoreError):
            memory.search("kettle", user_id="ann")
        with pytest.raises(ZeroDivisionError), opened(tmp_path) as memory:
            raise ZeroDivisionError
        with pytest.raises(StoreError):
            memory.users()


class Deleting(HashEmbedder):
    """Another thread deletes a turn while the query is embedded, after the corpus was read."""

    def __init__(self) -> None:
        super().__init__(2048)
        self.memory: Memory | None = None

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[Any]:
        if kind == "query" and self.memory is not None:
            self.memory.delete(user_id="ann", turn_id="m1")
        return super().embed(texts, kind=kind)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "rrf", "interpolation"])
def test_a_turn_that_is_deleted_during_a_search_is_left_out(tmp_path: Path, mode: SearchMode) -> None:
    embedder = Deleting()
    with opened(tmp_path, embedder) as memory:
        memory.add([*TALK, {"role": "user", "content": "Another kettle."}], user_id="ann")
        memory.index()
        embedder.memory = memory
        hits = memory.search("kettle", user_id="ann", mode=mode)
        assert [hit.turn.text for hit in hits][:1] == ["Another kettle."]


def test_a_turn_that_is_deleted_during_a_question_is_left_out(tmp_path: Path) -> None:
    embedder = Deleting()
    with opened(tmp_path, embedder) as memory:
        memory.add([*TALK, {"role": "user", "content": "Another kettle."}], user_id="ann")
        memory.index()
        embedder.memory = memory
        answer = memory.ask("kettle", user_id="ann")
        assert answer.text.startswith("“Another kettle.”")
        assert all(memory.get(citation.turn_id, user_id="ann") for citation in answer.citations)


def test_many_threads(tmp_path: Path) -> None:
    with opened(tmp_path, HashEmbedder()) as memory, ThreadPoolExecutor(8) as pool:

        def work(number: int) -> list[str]:
            user = f"u{number % 3}"
            memory.add({"role": "user", "content": f"kettle number{number}", "id": f"m{number}"}, user_id=user)
            memory.recall("kettle", user_id=user)
            hits = memory.search(f"number{number}", user_id=user, mode="bm25")
            return [hit.turn.text for hit in hits]

        assert list(pool.map(work, range(60))) == [[f"kettle number{number}"] for number in range(60)]
        memory.index()
        assert memory.stats().turns == 60
        assert memory.verify().ok
