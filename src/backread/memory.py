"""`Memory`: the only place that wires store, retrieval, models and a strategy together."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from backread.arguments import NOT_GIVEN, NotGiven, check_part, named
from backread.errors import CancelledError, InvalidInputError, NotFoundError
from backread.finding import exported, grouped_hits, turns_still_there
from backread.messages import drafts_of, receipt_of
from backread.models.base import ChatModel, Embedder, Reranker
from backread.models.chats import open_roles
from backread.models.context_window import with_smaller_prompts
from backread.models.llmlingua import installed_compressor
from backread.models.pricing import load_prices
from backread.models.roles import ChatRoles
from backread.parts import configured_embedder, configured_reranker, configured_sparse
from backread.rendering import shortened
from backread.retrieval.base import Retriever, compares_vectors
from backread.retrieval.registry import create_retriever, retriever_spec
from backread.retrieval.sparse import MemorySparseIndex
from backread.settings import Settings, resolve
from backread.store.base import TurnStore
from backread.store.history import History, Scope
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context, Parts, Strategy
from backread.strategies.registry import create, strategy_spec
from backread.text.times import parse_time
from backread.text.tokens import TokenCounter, default_counter
from backread.types import (
    AddReceipt,
    Answer,
    Attachments,
    BackupReceipt,
    BuildReport,
    Degradation,
    DeleteReceipt,
    Entry,
    Hits,
    Recall,
    Session,
    Stats,
    Step,
    Turn,
    TurnDraft,
    Usage,
    VerifyReport,
)
from backread.vectors import Vectors, stale_index

__all__ = ["DEFAULT_MODE", "Memory"]

DEFAULT_MODE: Final = "hybrid"
"""The retriever of a search that names none."""

Time = datetime | str | int | float


class Memory:
    """Long-term memory over one store.

    Thread-safe. Made by `Memory.open`; the constructor takes instances for those who bring their own parts.

    Args:
        store: where the record is.
        settings: resolved settings.
        embedder: makes vectors; None searches by text only.
        chat: the chat model of each role, or one for all; None answers by quoting.
        counter: counts budgets; the best one available when None.
        reranker: reads the best turns of a search once more.
        sparse: the learned sparse index behind the mode "sparse".
        missing: why there is no embedder, shown with every search it degrades.
    """

    def __init__(
        self,
        store: TurnStore,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
        chat: ChatModel | ChatRoles | None = None,
        counter: TokenCounter | None = None,
        reranker: Reranker | None = None,
        sparse: MemorySparseIndex | None = None,
        missing: Degradation | None = None,
    ) -> None:
        self._store = store
        self.settings = settings
        self._vectors = Vectors(store, settings, embedder, missing)
        self._roles = chat if isinstance(chat, ChatRoles) else ChatRoles.of(chat)
        self._prices = load_prices(settings.prices) if settings.prices else {}
        self._counter = counter or default_counter()
        self._reranker = reranker
        self._sparse = sparse
        self._zone = settings.zone_info

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        embedder: str | Embedder | None = None,
        model: str | ChatModel | ChatRoles | None = None,
        counter: TokenCounter | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """Open a store, made when missing.

        Args:
            path: the file; the settings' path when None.
            embedder: a name, or an instance; the settings' when None.
            model: name of a chat model of the configured endpoint, an instance, or one for each role; the settings'
                when None.
            counter: counts budgets.
            settings: resolved settings, from file and environment when None; the other arguments go before them.

        Weights that were not fetched don't keep a store from opening: search works by text and says so.

        Raises:
            StoreError: the file can't be used.
            NotFoundError: no embedder of that name.
            InvalidInputError: an instance that is no embedder or no chat model.
        """
        check_part(embedder, Embedder, "embedder")
        if not isinstance(model, ChatRoles):
            check_part(model, ChatModel, "model")
        given: dict[str, Any] = {
            "path": None if path is None else Path(path).expanduser(),
            "embedder": embedder if isinstance(embedder, str) else None,
            "model": model if isinstance(model, str) else None,
        }
        if settings is None:
            settings = resolve(**given)
        else:
            settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
        # Files are opened when they are needed, which may be after a change of folder.
        models = settings.models_dir
        settings = replace(settings, path=settings.path.absolute(), models_dir=models and models.absolute())
        opened, missing = (embedder, None) if isinstance(embedder, Embedder) else configured_embedder(settings)
        if isinstance(model, ChatRoles):
            chat = model
        else:
            chat = ChatRoles.of(model) if isinstance(model, ChatModel) else open_roles(settings)
        store = SqliteStore(
            settings.path,
            vector_cache_bytes=settings.vector_cache_mb << 20,
            turn_bytes=settings.turn_mb << 20,
            user_bytes=settings.user_mb << 20,
        )
        return cls(
            store,
            settings,
            embedder=opened,
            chat=chat,
            counter=counter,
            reranker=configured_reranker(settings, chat),
            sparse=configured_sparse(settings),
            missing=missing,
        )

    # --- writing

    def add(
        self,
        messages: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        user_id: str,
        session_id: str | None = None,
    ) -> AddReceipt:
        """Keep messages verbatim: one durable transaction, searchable by text when it returns, no model is called.

        Messages come in live: one without a time gets the time of receipt, marked as that (`Turn.received_at`). Old
        messages whose time nobody knows are for `add_turns`, which leaves it unknown.

        Args:
            messages: in the OpenAI format, with optional `id`, `name` and `timestamp`; see `messages`.
            user_id: whose history.
            session_id: the sitting they belong to; a new one when None.

        A message with an `id` that is already there with the same content is known, not stored twice. Messages that
        can't be kept (blank text, a time that can't be read, an id that names other content) are listed in the
        receipt's `rejected`; when no message is left, the first problem is raised.

        Raises:
            InvalidInputError: no message could be kept, or an id is empty. Nothing was stored.
        """
        session_id = f"s-{uuid.uuid4().hex[:12]}" if session_id is None else named(session_id, "session_id")
        drafts, problems = drafts_of(messages, session_id=session_id, zone=self._zone)
        return self._append(named(user_id, "user_id"), session_id, drafts, problems)

    def add_turns(self, drafts: Sequence[TurnDraft], *, user_id: str) -> AddReceipt:
        """As `add`, for drafts as importers make them: they name their sessions, and no time of receipt is added."""
        first = drafts[0].session_id if drafts else ""
        return self._append(named(user_id, "user_id"), first, list(enumerate(drafts)), [])

    def _append(
        self,
        user_id: str,
        session_id: str,
        drafts: Sequence[tuple[int, TurnDraft]],
        problems: list[tuple[int, InvalidInputError]],
    ) -> AddReceipt:
        results = self._store.append(user_id, [draft for _, draft in drafts]) if drafts else []
        refused = ((at, result.problem) for (at, _), result in zip(drafts, results, strict=True))
        problems.extend((position, problem) for position, problem in refused if problem is not None)
        turn_ids = tuple(result.turn_id for result in results if result.turn_id is not None)
        return receipt_of(session_id, turn_ids, sum(result.new for result in results), problems)

    def delete(
        self,
        *,
        user_id: str,
        session_id: str | NotGiven = NOT_GIVEN,
        turn_id: str | NotGiven = NOT_GIVEN,
        scrub: bool = True,
    ) -> DeleteReceipt:
        """Erase one turn, one session, or, with `user_id` alone, everything of that user.

        All that is derived from the turns goes with them. Ids of nothing erase nothing; another user's turns are never
        touched.

        Args:
            user_id: whose turns.
            session_id: only this session.
            turn_id: only this turn, by turn id or external id.
            scrub: write the file anew so that no byte of them is left in it; takes about a second for every 30 MB.
                Without it rows are overwritten in place, and copies that the database made when it moved rows can stay
                behind until the next `scrub`: delete many, then scrub once.

        What is erased is durably gone when it returns. Where the file could not be written anew, or a reader keeps its
        log, the receipt says `pending_scrub`, and it is finished later; other writers never wait for a reader.

        Raises:
            InvalidInputError: an empty id, or None where an id was meant: that is never taken for "all".
        """
        user_id = named(user_id, "user_id")
        session = None if isinstance(session_id, NotGiven) else named(session_id, "session_id")
        turns = None if isinstance(turn_id, NotGiven) else [named(turn_id, "turn_id")]
        if self._sparse is not None:
            self._sparse.forget(user_id)
        return self._store.delete(user_id, turn_ids=turns, session_id=session, scrub=scrub)

    def scrub(self) -> None:
        """Write the file anew, so that no byte of what was deleted is left: also what a delete had to leave.

        Raises:
            StoreBusyError: a reader keeps the log, which may still hold some. The scrub stays due, as `verify` says,
                and is finished when the reader is gone, by the next delete or scrub, or when the store is opened.
        """
        self._store.scrub()

    # --- finding

    def history(self, user_id: str, *, as_of: Time | None = None) -> History:
        """One user's view of the record, as it stood at `as_of` when given."""
        return History(self._store, named(user_id, "user_id"), as_of=self._time(as_of))

    def search(
        self,
        query: str,
        *,
        user_id: str,
        top_k: int = 10,
        mode: str = DEFAULT_MODE,
        roles: Collection[str] | None = None,
        speaker: str | None = None,
        session_id: str | None = None,
        after: Time | None = None,
        before: Time | None = None,
        as_of: Time | None = None,
        most_bytes: int | None = None,
        attachments: Attachments = "full",
    ) -> Hits:
        """Turns that match, best first, at most `top_k` different ones.

        Turns of one speaker with the same text take one place: the best one, the others in its `also`. A query is
        words, never syntax; one without a term finds nothing. Scores compare within one search only.

        Args:
            query: what to look for.
            user_id: whose history.
            top_k: hits at most.
            mode: name of a retriever, see `retrieval.registry.RETRIEVERS`, or "module:Class".
            roles: only turns of these roles.
            speaker: only turns of this name, compared exactly.
            session_id: only turns of this session.
            after: only turns said then or later; a day alone is its midnight in the history's zone, here and below.
            before: only turns said earlier.
            as_of: the record as it stood then. Turns that nobody said the time of count from when they were received;
                those of unknown time are left out by these last three.
            most_bytes: of text, and of attachments given in full. What is ranked lower once so much was read is left
                out, which is said in `degraded`.
            attachments: how they are given; "named" is the type, the bytes and the SHA-256 of each.

        Raises:
            InvalidInputError: a blank query, an empty id, `top_k` below 1, a mode that there isn't, or a time that
                can't be read.
        """
        if not query.strip():
            raise InvalidInputError("the query is blank", hint="ask for at least one word")
        if top_k < 1:
            raise InvalidInputError(f"top_k must be at least 1, not {top_k}")
        history = self.history(user_id, as_of=as_of)
        scope = Scope(
            roles=[roles] if isinstance(roles, str) else roles,
            speakers=None if speaker is None else [speaker],
            session_ids=None if session_id is None else [named(session_id, "session_id")],
            after=self._time(after),
            before=self._time(before),
        )
        retriever = self.retriever(mode)
        degraded, pending = self._caught_up(history.user_id, by_words=not compares_vectors(retriever))
        deep = self._reranker is None
        found = grouped_hits(
            history, scope, retriever, query, top_k, deep=deep, most_bytes=most_bytes, attachments=attachments
        )
        return Hits(found.items, (*degraded, *found.degraded), pending)

    def recall(
        self,
        question: str,
        *,
        user_id: str,
        budget: int | Literal["default"] | None = "default",
        strategy: str | Strategy | None = None,
        retriever: str | Retriever | None = None,
        asked_at: Time | None = None,
        as_of: Time | None = None,
        on_step: Callable[[Step], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> Recall:
        """Evidence for a question, made by a strategy, within `budget` tokens (None: no limit).

        Args:
            question: what is asked.
            user_id: whose history.
            budget: tokens of rendered evidence at most; "default" is the settings'.
            strategy: a name, or an instance; the settings' when None.
            retriever: what the strategy searches with, in place of its own; a mode, or an instance.
            asked_at: when it is now, for the answer; filters nothing.
            as_of: the record as it stood then.
            on_step: told of every step while it happens, from the calling thread.
            cancel: set it when nobody waits for this any longer: no model is called from then on, and a reply that is
                being streamed is broken off.

        Raises:
            CancelledError: `cancel` was set.
            InvalidInputError: a blank question, an empty user id, a budget below 0, or a time that can't be read.
            NotFoundError: no strategy of that name.
        """
        if not question.strip():
            raise InvalidInputError("the question is blank", hint="ask something")
        limit = self.settings.budget if budget == "default" else budget
        if limit is not None and limit < 0:
            raise InvalidInputError(f"a budget is a number of tokens from 0 on, not {limit}")
        history = self.history(user_id, as_of=as_of)
        ctx = Context(counter=self._counter, on_step=on_step, cancel=cancel, concurrency=self.settings.concurrency)
        made, degraded = self._strategy(history.user_id, strategy, retriever, ctx, abandoned=cancel)
        recall = made.recall(history, question, limit, ctx, asked_at=self._time(asked_at))
        return replace(recall, degraded=(*degraded, *recall.degraded), usage=tuple(ctx.meter) or recall.usage)

    def ask(
        self,
        question: str,
        *,
        user_id: str,
        budget: int | Literal["default"] | None = "default",
        strategy: str | Strategy | None = None,
        retriever: str | Retriever | None = None,
        asked_at: Time | None = None,
        as_of: Time | None = None,
        on_step: Callable[[Step], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> Answer:
        """An answer with checked citations: by the chat model when one is configured, else by quoting the record.

        Arguments are those of `recall`. When the model's context window can't hold the evidence, it is asked again with
        the best half of it, and that is noted in the answer's `degraded`.

        Raises:
            ModelError: the configured model could not answer; the answer is never quietly made another way.
        """
        recall = self.recall(
            question,
            user_id=user_id,
            budget=budget,
            strategy=strategy,
            retriever=retriever,
            asked_at=asked_at,
            as_of=as_of,
            on_step=on_step,
            cancel=cancel,
        )
        return self.answer(recall, user_id=user_id, cancel=cancel)

    def answer(self, recall: Recall, *, user_id: str, cancel: threading.Event | None = None) -> Answer:
        """As `ask`, for evidence that is there already; citations are checked against the turns of `user_id`."""
        from backread.answering import answer, quote_answer

        if cancel is not None and cancel.is_set():
            raise CancelledError("nobody waits for this any longer")
        named = dict.fromkeys(source.turn_id for line in recall.evidence for source in line.sources)
        turns = turns_still_there(self.history(user_id), list(named), attachments="none")
        meter: list[Usage] = []
        chat = self._roles.watched(meter, prices=self._prices, abandoned=cancel).answer
        if chat is None or not recall.evidence:  # from nothing a model could only make something up
            return quote_answer(recall, turns, self._vectors.usable)
        made = with_smaller_prompts(lambda share: answer(shortened(recall, share, self._counter), turns, chat))
        return replace(made, usage=(*recall.usage, *meter))

    # --- building

    def build(
        self,
        *,
        user_id: str,
        strategy: str | Strategy | None = None,
        flush: bool = False,
        maintain: bool = False,
        on_step: Callable[[Step], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> BuildReport:
        """A strategy's write-time work on what is new since its last build; takes up an interrupted one where it was.

        Adding never waits for it, and it never waits for adding. What it wrote is embedded too. Nothing to do for
        designs that work when the question comes.

        Args:
            user_id: whose history.
            strategy: a name, or an instance; the settings' when None.
            flush: also the work that is still open, such as the latest session.
            maintain: the design's offline passes after it.
            on_step: told of every finished piece of work, from the calling thread.
            cancel: set to stop after the piece at hand; what is done is kept.

        Raises:
            NotFoundError: no strategy of that name.
        """
        history = self.history(user_id)
        ctx = Context(counter=self._counter, on_step=on_step, cancel=cancel, concurrency=self.settings.concurrency)
        made, degraded = self._strategy(history.user_id, strategy, None, ctx)
        reports = [made.build(history, ctx, flush=flush)]
        if maintain:
            reports.append(made.maintain(history, ctx))
        if self._vectors.usable is not None:
            self._vectors.index([history.user_id], on_progress=None)
        return BuildReport(
            made.name,
            put=sum(report.put for report in reports),
            dropped=sum(report.dropped for report in reports),
            failed=tuple(failure for report in reports for failure in report.failed),
            usage=tuple(ctx.meter) or tuple(usage for report in reports for usage in report.usage),
            degraded=(*degraded, *(item for report in reports for item in report.degraded)),
        )

    def entries(self, *, user_id: str, strategy: str, kind: str | None = None) -> list[Entry]:
        """What a strategy built for a user, by kind, time and arrival; nothing when it built nothing."""
        return self.history(user_id).entries(strategy, kind)

    # --- reading

    def turns(self, *, user_id: str, session_id: str | None = None) -> Iterator[Turn]:
        """All turns of a user, or of one session, in history order, superseded ones included.

        Raises:
            NotFoundError: the user has no such session.
        """
        history = self.history(user_id)
        if session_id is None:
            return history.turns()
        if all(session.session_id != named(session_id, "session_id") for session in history.sessions()):
            raise NotFoundError(f"user {user_id!r} has no session {session_id!r}", hint="list them: backread sessions")
        return history.turns(Scope(session_ids=[session_id], superseded=True))

    def sessions(self, *, user_id: str) -> list[Session]:
        """All sessions of a user in history order."""
        return self.history(user_id).sessions()

    def size(self, *, user_id: str) -> tuple[int, int]:
        """How many sessions and turns a user has; (0, 0) for one who has none."""
        return self._store.size(named(user_id, "user_id"))

    def users(self) -> list[str]:
        """Everyone who has turns, by id."""
        return self._store.users()

    def get(self, turn_id: str, *, user_id: str) -> Turn:
        """A turn by turn id or external id, in full.

        Raises:
            NotFoundError: this user has no such turn; another user's looks just the same.
        """
        return self.history(user_id).turns_by_id([turn_id])[0]

    def export(self, *, user_id: str) -> Iterator[dict[str, Any]]:
        """Every turn of a user, in order of arrival, as a message that the JSONL importer takes back unchanged."""
        return exported(self.history(user_id))

    # --- keeping

    def index(self, *, user_id: str | None = None, on_progress: Callable[[int], None] | None = None) -> int:
        """Embed everything that is pending, of one user or of everyone; returns turns still pending.

        Can be stopped anywhere and goes on from there.

        Raises:
            ModelNotAvailableError: there is no embedder.
            ModelMismatchError: the stored vectors are of another embedder.
        """
        users = self.users() if user_id is None else [named(user_id, "user_id")]
        return self._vectors.index(users, on_progress=on_progress)

    def reindex(
        self,
        to: str | None = None,
        *,
        text: bool = False,
        keep_previous: bool = True,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Embed the whole record, then search by those vectors; returns turns still pending.

        The vectors in use serve until the new ones are complete, and resuming after an interruption loses nothing.
        Those that were in use are kept for `rollback`, until the next change of embedder or `drop_previous`.

        Args:
            to: name of an embedder, which this memory then goes on with; name it in the settings too, for the next
                time the store is opened. None is the open one.
            text: derive the text index again as well.
            keep_previous: False drops all vectors but those that are then in use.
            on_progress: called with the number of turns finished since the last call.

        Raises:
            ModelNotAvailableError: there is no embedder, or its weights are missing.
            NotFoundError: no embedder is called `to`.
        """
        if text:
            self._store.rebuild_text_index()
            if to is None and self._vectors.embedder is None:
                return 0
        return self._vectors.reindex(to, keep_previous=keep_previous, on_progress=on_progress)

    def maintain(
        self, *, user_id: str | None = None, newer: float = 0.05, on_progress: Callable[[int], None] | None = None
    ) -> int:
        """Build the nearest-neighbour index of each corpus so large that comparing all its vectors takes too long.

        Small histories need none and cost nothing here. An index that lacks at most the share `newer` of the vectors is
        left as it is: what it lacks is compared one by one. It is derived, and may be deleted at any time.

        Args:
            user_id: whose; None is everyone.
            newer: 0 builds anew whenever a vector is missing, and replaces a damaged file.
            on_progress: called with the number of vectors added each time some were.

        Returns:
            How many indexes were built.

        Raises:
            MissingExtraError: there is a corpus that large and the package is not installed.
        """
        owner = None if user_id is None else named(user_id, "user_id")
        return self._vectors.build_ann(owner, newer=newer, on_progress=on_progress)

    def rollback(self, *, on_progress: Callable[[int], None] | None = None) -> int:
        """Search by the vectors that were in use before the last change of embedder; returns turns pending for them.

        The two change places, so a second call goes forward again. Turns that were added since are embedded now when
        the embedder is the open one, or was before `reindex(to=…)`; else open the store with it.

        Raises:
            NotFoundError: no vectors of an embedder before this one are kept.
        """
        return self._vectors.roll_back(on_progress=on_progress)

    def drop_previous(self) -> bool:
        """Free the vectors kept for `rollback`; False when there are none. The file is written anew to be smaller."""
        dropped = self._store.drop_previous_embedder()
        if dropped:
            self._store.scrub()
        return dropped

    @property
    def previous_embedder(self) -> str | None:
        """Fingerprint of the embedder that `rollback` goes back to; None when there is none."""
        return self._store.previous_embedder

    def pending(self, *, user_id: str | None = None) -> int:
        """Turns without a vector of the open embedder, of one user or of everyone; 0 when there is no embedder."""
        return self._vectors.pending(user_id)

    def backup(self, path: str | Path, *, overwrite: bool = False) -> BackupReceipt:
        """Copy the whole store, while it is in use, into one file with mode 0600; see `TurnStore.backup`.

        Raises:
            InvalidInputError: the file is there already, or is the store itself.
            StoreCorruptError: the copy, which is verified, has faults: nothing is left at `path`.
        """
        return self._store.backup(Path(path).expanduser(), overwrite=overwrite)

    def verify(self, *, user_id: str | None = None) -> VerifyReport:
        """Derive everything again from the record and name every fault."""
        return self._store.verify(user_id)

    def stats(self, *, user_id: str | None = None) -> Stats:
        """Counts and bytes of the store, or of one user."""
        return replace(self._store.stats(user_id), pending=self.pending(user_id=user_id))

    def close(self) -> None:
        """Release the store and the models that were opened for it. Closing twice is fine."""
        self._roles.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- parts

    @property
    def chat(self) -> ChatModel | None:
        """The chat model, None when questions are answered by quoting."""
        return self._roles.answer

    @property
    def embedder(self) -> Embedder | None:
        """The embedder, None when search is by text only."""
        return self._vectors.embedder

    def metered(self, meter: MutableSequence[Usage]) -> ChatRoles:
        """The chat model of each role, trying again what may pass; every attempt's usage goes into `meter`."""
        return self._roles.watched(meter, prices=self._prices)

    def retriever(self, mode: str = DEFAULT_MODE) -> Retriever:
        """The retriever of a mode with the parts that are there; for strategies made by hand.

        Raises:
            InvalidInputError: no such mode.
            ModelNotAvailableError, ModelMismatchError: a mode that needs vectors, without a usable embedder.
        """
        embedder = self._vectors.usable
        if embedder is None and (mismatch := self._vectors.mismatch) and retriever_spec(mode).vectors == "yes":
            raise mismatch
        return create_retriever(
            mode, embedder, sparse=self._sparse, reranker=self._reranker, depth=self.settings.rerank_depth
        )

    def _strategy(
        self,
        user_id: str,
        chosen: str | Strategy | None,
        retriever: str | Retriever | None,
        ctx: Context,
        *,
        abandoned: threading.Event | None = None,
    ) -> tuple[Strategy, tuple[Degradation, ...]]:
        """The strategy for one call, its models metered in `ctx`, and what it has to do without."""
        if isinstance(chosen, Strategy):
            return chosen, self._caught_up(user_id, by_words=False)[0]
        spec = strategy_spec(name := self.settings.strategy if chosen is None else chosen)
        own = retriever if isinstance(retriever, Retriever) else self.retriever(retriever or DEFAULT_MODE)
        degraded: tuple[Degradation, ...] = ()
        if "vectors" in spec.needs:
            degraded, _ = self._caught_up(user_id, by_words=not compares_vectors(own))
        chats = self._roles.watched(
            ctx.meter, prices=self._prices, deadline=ctx.deadline, cancel=ctx.cancel, abandoned=abandoned
        )
        parts = Parts(
            own,
            chats.recall,
            build_chat=chats.build,
            embedder=self._vectors.usable,
            reranker=self._reranker,
            compressor=installed_compressor() if "compressor" in spec.needs else None,
            fixed_retriever=retriever is not None,
        )
        return create(name, parts), degraded

    def _caught_up(self, user_id: str, *, by_words: bool) -> tuple[tuple[Degradation, ...], int]:
        """What a search has to do without, and pending turns; vectors are caught up as far as time allows."""
        lacking, pending = self._vectors.catch_up(user_id, by_words=by_words)
        return (*lacking, *stale_index(self._store.stale_analyzer)), pending

    def _time(self, value: Time | None) -> datetime | None:
        return said.at if (said := parse_time(value, zone=self._zone)) else None
