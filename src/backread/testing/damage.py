"""Flipped bytes: what every way of reading a damaged store gives, compared with what the sound one gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path

from backread.errors import BackreadError
from backread.memory import Memory
from backread.settings import Settings
from backread.store.history import History, Scope
from backread.text.tokens import EstimateCounter
from backread.types import Stats, Turn

__all__ = ["flip", "is_only_less", "read_all", "wrong_reads"]

_TOPS = 50


def flip(content: bytes, offset: int, mask: int, path: Path) -> None:
    """Write a store's bytes to `path` with one of them changed, and no log beside it."""
    damaged = bytearray(content)
    damaged[offset] ^= mask
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    path.write_bytes(damaged)


def read_all(path: Path, users: Sequence[str], strategies: Sequence[str], query: str) -> dict[str, object]:
    """What every way of reading gives, by name; the error where it raised one of this package.

    An error of another kind comes out. A store that can't be opened gives the same error for "open" alone.
    """
    try:
        memory = Memory.open(settings=Settings(path=path, embedder="none"), counter=EstimateCounter())
    except BackreadError as error:
        return {"open": error}
    with memory:
        values: dict[str, object] = {}
        for name, read in _reads(memory, users, strategies, query).items():
            values[name] = None
            try:
                values[name] = read()
            except BackreadError as error:
                values[name] = error
    return values


def wrong_reads(values: Mapping[str, object], sound: Mapping[str, object]) -> list[str]:
    """Names of the reads that gave something else than the sound store and said nothing of it.

    What is found may come in another order, or not at all: postings are derived and have no checksums, `verify`
    compares them. What comes must be what was said, by whom it was asked for.
    """
    wrong = []
    for name, value in values.items():
        if isinstance(value, BackreadError):
            continue
        good = sound[name]
        if name.startswith("found"):
            assert isinstance(value, list)
            assert isinstance(good, list)
            right = all(turn in good for turn in value)
        else:
            right = value == good
        if not right:
            wrong.append(name)
    return wrong


def is_only_less(value: object, good: object) -> bool:
    """Whether a read only lacks something, or has it in another order: a row that no index leads to can't say so.

    `verify` must find a fault then. Nothing that comes may be other than what was stored.
    """
    if isinstance(value, list) and isinstance(good, list):
        return all(item in good for item in value)
    if isinstance(value, Stats) and isinstance(good, Stats):
        return all(mine <= theirs for mine, theirs in zip(astuple(value), astuple(good), strict=True) if mine != theirs)
    return value == (0, None)  # the state of a strategy that never ran


def _reads(
    memory: Memory, users: Sequence[str], strategies: Sequence[str], query: str
) -> dict[str, Callable[[], object]]:
    reads: dict[str, Callable[[], object]] = {"users": memory.users, "stats": partial(_counts, memory)}
    for user in users:
        history = memory.history(user)
        mine: dict[str, Callable[[], object]] = {
            "sessions": history.sessions,
            "turns": partial(_turns, history),
            "turns by id": partial(_by_id, history),
            "turns of a role": partial(_turns, history, Scope(roles=["user"])),
            "current turns": partial(_turns, history, Scope()),
            "export": partial(_export, memory, user),
            "stats": partial(_counts, memory, user),
            "found": partial(_found, memory, user, query),
            "found of a role": partial(_found, memory, user, query, ["user"]),
            "asked": partial(_ask, memory, user, query),
        }
        for strategy in strategies:
            mine[f"entries by {strategy}"] = partial(memory.entries, user_id=user, strategy=strategy)
            mine[f"state by {strategy}"] = partial(history.strategy_state, strategy)
        reads |= {f"{name} ({user})": read for name, read in mine.items()}
    return reads


def _turns(history: History, scope: Scope | None = None) -> list[Turn]:
    return list(history.turns(scope))


def _by_id(history: History) -> list[Turn]:
    turns = list(history.turns())
    return history.turns_by_id([name for turn in turns for name in (turn.turn_id, turn.external_id) if name])


def _export(memory: Memory, user: str) -> list[dict[str, object]]:
    return list(memory.export(user_id=user))


def _counts(memory: Memory, user: str | None = None) -> Stats:
    return replace(memory.stats(user_id=user), postings=0, vectors=0, bytes=0)


def _found(memory: Memory, user: str, query: str, roles: Sequence[str] | None = None) -> list[Turn]:
    hits = memory.search(query, user_id=user, mode="bm25", top_k=_TOPS, roles=roles).items
    return [turn for hit in hits for turn in (hit.turn, *hit.also)]


def _ask(memory: Memory, user: str, query: str) -> None:
    """Only that nothing but an error of this package comes out: an answer rests on what is found."""
    with suppress(BackreadError):
        memory.ask(query, user_id=user)
