"""LangGraph: a store over the record, for what graphs remember across threads. Needs the extra `langgraph`.

A namespace is a session, by default of a user of its own (`("memories", "ann")` is of the user "memories.ann"). An item
is a turn whose speaker is the item's key: the text is what search sees of the value, an attachment holds the value.
Putting a key again is a new turn that supersedes the old one; deleting a key erases all its turns.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Final

from backread.errors import ConflictError
from backread.integrations.filters import fits, matches
from backread.integrations.shared import keep, missing, noted
from backread.memory import Memory
from backread.messages import draft_from_message
from backread.store.history import Scope
from backread.types import Turn, TurnDraft

try:
    from langgraph.store import base
    from langgraph.store.base.embed import get_text_at_path
except ModuleNotFoundError as error:
    raise missing("langgraph", "langgraph") from error

__all__ = ["BackreadStore"]

Namespace = tuple[str, ...]

_SESSION: Final = "langgraph:"
_ITEM: Final = "langgraph_item"
_TRIES: Final = 5


def _joined(namespace: Namespace) -> str:
    return ".".join(namespace)  # labels have no period


class BackreadStore(base.BaseStore):
    """LangGraph's `BaseStore`: give it to `compile(store=…)`.

    A search with a query ranks each namespace below the prefix on its own, since scores compare within one only, and
    takes from them in turn; what matches neither by word nor by vector is not found. Without a query items come by
    namespace, then in the order they were put. Items don't expire.

    Args:
        memory: where the record is.
        fields: paths into a value, as LangGraph writes them, that search sees where `put` names none; "$" is the whole
            value as JSON.
        user_of: whose history a namespace belongs to, where `Memory.ask` is to find its items beside what that user
            said, such as `lambda namespace: namespace[-1]`.
        mode: how to rank; see `Memory.search`.
        scrub: whether deleting writes the file anew; see `Memory.delete`.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        fields: Sequence[str] = ("$",),
        user_of: Callable[[Namespace], str] = _joined,
        mode: str = "hybrid",
        scrub: bool = True,
    ) -> None:
        self._memory, self._fields, self._user_of = memory, tuple(fields), user_of
        self._mode, self._scrub = mode, scrub
        self._writing = threading.Lock()

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """The result of each operation, done one after the other in the order given.

        Raises:
            InvalidNamespaceError: a label that is empty or holds a period; nothing was done.
            InvalidInputError: a value that JSON can't carry, an empty key, or an unknown operator in a filter.
        """
        given = list(ops)
        for op in given:
            base.validate_op_namespace(op)
        return [self._done(op) for op in given]

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """As `batch`, in a thread."""
        return await asyncio.to_thread(self.batch, ops)

    def _done(self, op: base.Op) -> base.Result:
        if isinstance(op, base.GetOp):
            found = self._turns(op.namespace, op.key)
            return _item(op.namespace, found[-1]) if found else None
        if isinstance(op, base.SearchOp):
            return self._search(op)
        if isinstance(op, base.ListNamespacesOp):
            return self._list(op)
        with self._writing:
            if op.value is None:
                self._erase(op)
            else:
                self._put(op, op.value)
        return None

    def _turns(self, namespace: Namespace, key: str | None = None, *, superseded: bool = False) -> list[Turn]:
        """The turns of a namespace's items, or of the item called `key`, in the order they were put."""
        speakers = None if key is None else [key]
        scope = Scope(session_ids=[_SESSION + _joined(namespace)], speakers=speakers, superseded=superseded)
        return [turn for turn in self._memory.history(self._user_of(namespace)).turns(scope) if _data(turn)]

    def _put(self, op: base.PutOp, value: Mapping[str, Any]) -> None:
        for left in reversed(range(_TRIES)):
            try:
                keep(self._memory, [self._draft(op, value)], user_id=self._user_of(op.namespace))
            except ConflictError:  # another process put this version first: put the next one
                if not left:
                    raise
            else:
                return

    def _draft(self, op: base.PutOp, value: Mapping[str, Any]) -> TurnDraft:
        session_id = _SESSION + _joined(op.namespace)
        data = {"type": _ITEM, "value": dict(value), "version": 1}
        message: dict[str, Any] = {"role": "assistant", "name": op.key, "attachments": [data]}
        if found := self._turns(op.namespace, op.key):
            message["supersedes"], before = found[-1].turn_id, _data(found[-1])
            data["version"] = before["version"] + 1
            data["created_at"] = before.get("created_at") or found[-1].stored_at.isoformat()
        message["id"] = f"{session_id}/{op.key}#{data['version']}"  # so that each version is put once
        draft = draft_from_message(message, session_id=session_id)
        fields = () if op.index is False else self._fields if op.index is None else op.index
        return replace(draft, text="\n".join(text for field in fields for text in get_text_at_path(value, field)))

    def _erase(self, op: base.PutOp) -> None:
        user_id, turns = self._user_of(op.namespace), self._turns(op.namespace, op.key, superseded=True)
        for turn in turns:
            scrub = self._scrub and turn is turns[-1]  # once, at the end
            self._memory.delete(user_id=user_id, turn_id=turn.turn_id, scrub=scrub)

    def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        lists = [list(self._found(namespace, op)) for namespace in self._namespaces(tuple(op.namespace_prefix))]
        rows = zip_longest(*lists) if op.query else lists
        items = [item for row in rows for item in row if item is not None]
        return items[op.offset : op.offset + op.limit]

    def _found(self, namespace: Namespace, op: base.SearchOp) -> Iterator[base.SearchItem]:
        """The items of one namespace that pass the filter, best first."""
        found: list[tuple[Turn, float | None]]
        if op.query:
            top_k = len(self._turns(namespace)) if op.filter else op.offset + op.limit
            hits = self._memory.search(
                op.query,
                user_id=self._user_of(namespace),
                session_id=_SESSION + _joined(namespace),
                top_k=max(1, top_k),
                mode=self._mode,
            )
            found = [(hit.turn, hit.score) for hit in noted(hits) if _data(hit.turn)]
        else:
            found = [(turn, None) for turn in self._turns(namespace)]
        for turn, score in found:
            item = _item(namespace, turn)
            if matches(item.value, op.filter or {}):
                yield base.SearchItem(namespace, item.key, item.value, item.created_at, item.updated_at, score)

    def _list(self, op: base.ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        found = [name for name in self._namespaces(()) if all(fits(name, kind, path) for kind, path in conditions)]
        return sorted({name[: op.max_depth] for name in found})[op.offset : op.offset + op.limit]

    def _namespaces(self, prefix: Namespace) -> list[Namespace]:
        """Every namespace with items that begins with `prefix`, sorted."""
        found = set()
        for user_id in self._memory.users():
            if self._user_of is _joined and tuple(user_id.split("."))[: len(prefix)] != prefix:
                continue
            for session in self._memory.sessions(user_id=user_id):
                namespace = tuple(session.session_id.removeprefix(_SESSION).split("."))
                ours = session.session_id.startswith(_SESSION) and self._user_of(namespace) == user_id
                if ours and namespace[: len(prefix)] == prefix:
                    found.add(namespace)
        return sorted(found)


def _data(turn: Turn) -> Mapping[str, Any]:
    """What is kept of an item beside its text; empty for a turn that is none."""
    return next((data for data in turn.attachments if data.get("type") == _ITEM), {})


def _item(namespace: Namespace, turn: Turn) -> base.Item:
    data = _data(turn)
    return base.Item(
        value=data["value"],
        key=turn.name,
        namespace=namespace,
        created_at=data.get("created_at") or turn.stored_at,
        updated_at=turn.stored_at,
    )
