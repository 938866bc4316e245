"""The tools of the MCP server: each a few calls of `Memory`, with what it takes, what it gives back and how that reads.

Nothing here knows the protocol.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter

from backread.errors import BackreadError, InvalidInputError, NotFoundError, StoreError
from backread.memory import Memory
from backread.server.paging import cut_page, read, written
from backread.server.tool_arguments import (
    MAX_CHARACTERS,
    MAX_LISTED,
    MAX_TOP_K,
    AddArguments,
    Arguments,
    AskArguments,
    DeleteArguments,
    GetArguments,
    ListArguments,
    RecallArguments,
    SearchArguments,
    flat_schema,
    of_any_user,
)
from backread.server.tool_results import (
    Answered,
    Found,
    Recalled,
    Sessions,
    Turns,
    added_text,
    answered,
    answered_text,
    deleted_text,
    fitting,
    found,
    found_text,
    recalled,
    recalled_text,
    sessions_text,
    turns_text,
)
from backread.store.history import Scope
from backread.text.fencing import quote
from backread.types import AddReceipt, Degradation, DeleteReceipt

__all__ = ["TOOLS", "Tool", "told"]

_log = logging.getLogger(__name__)

SEARCHED_BYTES: Final = 32 * 1024 * 1024
"""Of texts that a search reads to make its excerpts."""

A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[A]):
    """Something a model may do.

    Attributes:
        name: what it is called by.
        title: what people see.
        description: what a model is told.
        arguments: what it takes.
        gives: the type of its value.
        run: (memory, user id, arguments) -> (value, text); one that waits also takes an event that is set when nobody
            waits for it any longer.
        reads: True when it changes nothing.
        erases: True when it takes something away.
        waits: True when it may wait for a chat model.
    """

    name: str
    title: str
    description: str
    arguments: type[A]
    gives: type
    run: Callable[..., tuple[object, str]]
    reads: bool = True
    erases: bool = False
    waits: bool = False

    def takes(self, *, any_user: bool) -> type[Arguments]:
        """The arguments, with a `user_id` for a server that is not bound to one user."""
        return of_any_user(self.arguments) if any_user else self.arguments

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """JSON schema of the value."""
        return flat_schema(TypeAdapter(self.gives).json_schema(mode="serialization"), nulls=True)


def told(error: Exception) -> str:
    """An error for a model, with what to do next. What names files, or is unexpected, is logged and not told."""
    if not isinstance(error, BackreadError):
        _log.error("unexpected error", exc_info=error)
        return "error: one that was not expected, a bug of the server\nhint: the log of the server says more"
    message, hint = str(error), error.hint
    if isinstance(error, StoreError):
        _log.error("%s: %s", type(error).__name__, error)
        message, hint = (type(error).__doc__ or "").split("\n", maxsplit=1)[0], "the log of the server says more"
    return quote(f"error: {message}") + (f"\nhint: {quote(hint)}" if hint else "")


def _add(memory: Memory, user_id: str, given: AddArguments) -> tuple[AddReceipt, str]:
    messages = [message.model_dump(exclude_none=True) for message in given.messages]
    receipt = memory.add(messages, user_id=user_id, session_id=given.session_id)
    return receipt, added_text(receipt)


def _search(memory: Memory, user_id: str, given: SearchArguments) -> tuple[Found, str]:
    hits = memory.search(
        given.query,
        user_id=user_id,
        top_k=min(given.top_k, MAX_TOP_K),
        mode=given.mode,
        roles=given.roles,
        speaker=given.speaker,
        session_id=given.session_id,
        after=given.after,
        before=given.before,
        as_of=given.as_of,
        most_bytes=SEARCHED_BYTES,
        attachments="named",
    )
    if given.top_k > MAX_TOP_K:
        cut = Degradation("top_k", f"{given.top_k} turns were asked for, and {MAX_TOP_K} are the most there are")
        hits = replace(hits, degraded=(*hits.degraded, cut))
    value = found(hits, given.query)
    return value, found_text(value)


def _recall(memory: Memory, user_id: str, given: RecallArguments, cancel: threading.Event) -> tuple[Recalled, str]:
    recall = memory.recall(
        given.question,
        user_id=user_id,
        budget="default" if given.budget is None else given.budget,
        asked_at=given.asked_at,
        as_of=given.as_of,
        cancel=cancel,
    )
    return recalled(recall), recalled_text(recall)


def _ask(memory: Memory, user_id: str, given: AskArguments, cancel: threading.Event) -> tuple[Answered, str]:
    answer = memory.ask(
        given.question,
        user_id=user_id,
        budget="default" if given.budget is None else given.budget,
        asked_at=given.asked_at,
        as_of=given.as_of,
        cancel=cancel,
    )
    return answered(answer), answered_text(answer)


def _get(memory: Memory, user_id: str, given: GetArguments) -> tuple[Turns, str]:
    history = memory.history(user_id)
    room = min(given.max_characters, MAX_CHARACTERS)
    if given.turn_ids is not None:
        if given.session_id is not None or given.cursor is not None:
            raise InvalidInputError("turn_ids names the turns already", hint="leave session_id and cursor out")
        named = (history.turns_by_id([turn_id], attachments="named")[0] for turn_id in given.turn_ids)
        turns = fitting(named, room, given.offset)
        value = Turns(turns, None, tuple(given.turn_ids[len(turns) :]))
        return value, turns_text(value)
    scope = None if given.session_id is None else Scope(session_ids=[given.session_id], superseded=True)
    size, most_bytes = min(given.limit, MAX_LISTED), 4 * room  # a character has four bytes at most
    page, after = history.page(size, cursor=read(given.cursor), scope=scope, most_bytes=most_bytes, attachments="named")
    if given.session_id is not None and not page and after is None:
        raise NotFoundError(f"there is no session {given.session_id!r}", hint="list_sessions lists them")
    turns = fitting(page, room, given.offset)
    if len(turns) < len(page):
        after = (turns[-1].turn_id, page[len(turns)].turn_id)
    value = Turns(turns, written(after), ())
    return value, turns_text(value)


def _list(memory: Memory, user_id: str, given: ListArguments) -> tuple[Sessions, str]:
    sessions = memory.sessions(user_id=user_id)
    page, after = cut_page(sessions, lambda item: item.session_id, min(given.limit, MAX_LISTED), given.cursor)
    value = Sessions(tuple(page), written(after))
    return value, sessions_text(value)


def _delete(memory: Memory, user_id: str, given: DeleteArguments) -> tuple[DeleteReceipt, str]:
    match given.turn_id, given.session_id:
        case str(turn_id), None:
            receipt, missing = memory.delete(user_id=user_id, turn_id=turn_id), f"there is no turn {turn_id!r}"
        case None, str(session_id):
            receipt = memory.delete(user_id=user_id, session_id=session_id)
            missing = f"there is no session {session_id!r}"
        case _:
            raise InvalidInputError("give one of turn_id and session_id; nothing was erased")
    if not receipt.turns:
        raise NotFoundError(missing, hint="it may be erased already")
    return receipt, deleted_text(receipt)


_ALL: Final[tuple[Tool[Any], ...]] = (
    Tool(
        "add_memory",
        "Keep messages",
        "Keep messages of a conversation, word for word. They can be searched when this returns. A message sent again"
        " with the same id is not stored twice; one that can't be kept is named, and the others are kept.",
        AddArguments,
        AddReceipt,
        _add,
        reads=False,
    ),
    Tool(
        "search_memories",
        "Search turns",
        "Find turns by words and by meaning, best first, with who said them, when, and in which session. Long turns are"
        " cut around the match. For a question, recall is better.",
        SearchArguments,
        Found,
        _search,
    ),
    Tool(
        "recall",
        "Recall evidence",
        "Find the evidence for a question: numbered lines with speaker and time, in the order they were said, within a"
        " budget of tokens. Use it before you answer anything that may rest on earlier conversations.",
        RecallArguments,
        Recalled,
        _recall,
        waits=True,
    ),
    Tool(
        "ask",
        "Ask the record",
        "Answer a question from the record alone, with citations that were checked. Without a chat model behind the"
        " server the closest passages are quoted.",
        AskArguments,
        Answered,
        _ask,
        waits=True,
    ),
    Tool(
        "get_turns",
        "Read turns",
        "Read turns in full: some by their ids, those of one session in order, or all of them, page by page. A text"
        " that is too long is cut, and `rest_at` is the offset to read on from.",
        GetArguments,
        Turns,
        _get,
    ),
    Tool(
        "list_sessions",
        "List sessions",
        "List the sessions in the order of the history, with the number of turns and the times of each, page by page.",
        ListArguments,
        Sessions,
        _list,
    ),
    Tool(
        "delete_memory",
        "Erase a turn or a session",
        "Erase one turn or one session for good, with everything that was derived from it. It can't be undone: call it"
        " only when the user asked for it.",
        DeleteArguments,
        DeleteReceipt,
        _delete,
        reads=False,
        erases=True,
    ),
)

TOOLS: Final = MappingProxyType({tool.name: tool for tool in _ALL})
"""Every tool by its name."""
