"""Keep or drop: a model reads a window of turns for a question, and rewrites in short what it keeps of them.

LazyMem, query-time stage 3, "construct selectively". The prompt is ours: the paper's is not published.
"""

from __future__ import annotations

import hashlib
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from backread.errors import ContextWindowError, InvalidInputError, ModelOutputError
from backread.models.base import ChatMessage, ChatModel
from backread.models.context_window import estimate_prompt, with_smaller_prompts
from backread.models.structured import complete_as
from backread.models.wrappers import MeteredChat
from backread.store.indexing import passage_text
from backread.text.analysis import query_terms
from backread.text.excerpts import excerpt
from backread.text.fencing import fence, quote
from backread.text.times import format_time
from backread.text.tokens import EstimateCounter
from backread.types import Decision, Session, Turn, Usage

if TYPE_CHECKING:
    from backread.construction.keep_drop_reply import WindowReply

__all__ = ["EXAMPLE", "PROMPT_TOKENS", "RESPONSE_TOKENS", "WindowDecisions", "keep_or_drop", "merge", "prompt_hash"]

PROMPT_TOKENS = 8192
RESPONSE_TOKENS = 3072

EXAMPLE = "Ivo sold the bike for 40 euros."
"""What the example in the prompt keeps; a small model may repeat it, and such a reply is invalid."""

_EXAMPLE_SIZE = 4

_MARK = " […cut]"
_SMALLEST_CUT = 8
_DECISION_TOKENS = 48
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class WindowDecisions:
    """What became of one window.

    Attributes:
        window: its number.
        decisions: one a turn, in the order of the turns; none when the reply was invalid, also at the second try.
        fault: why the reply was invalid, None when it wasn't; quotes nothing.
        cut: turns that were shown in part, because the prompt was too long.
        usage: of every call, in order.
        seconds: of all of it.
    """

    window: int
    decisions: tuple[Decision, ...]
    fault: str | None = None
    cut: int = 0
    usage: tuple[Usage, ...] = ()
    seconds: float = field(default=0.0, compare=False)


def keep_or_drop(
    chat: ChatModel,
    question: str,
    asked_at: datetime | None,
    session: Session | None,
    turns: Sequence[Turn],
    *,
    window: int = 0,
    prompt_tokens: int = PROMPT_TOKENS,
    response_tokens: int = RESPONSE_TOKENS,
) -> WindowDecisions:
    """Whether each turn of a window is kept for the question, and a compression of those that are.

    A reply is valid when it has exactly one decision for each turn, a kept turn has a text and a dropped one has none.
    One that isn't is asked for once more; a second one leaves the window without decisions. A prompt above the limit,
    or above the model's own window, has its longest turns cut around the words of the question, and marked.

    Args:
        chat: decides; its calls have the purpose "recall".
        question: what is asked.
        asked_at: when; shown as "Now", apart from the times of the turns.
        session: gives the date of the window; None where it is not known.
        turns: of one session, in order.
        window: number of the window, for the record.
        prompt_tokens: of a request at most, by the estimate of `text.tokens`.
        response_tokens: of a reply at most, reasoning included.

    Raises:
        InvalidInputError: there is no turn, or `response_tokens` is below 1.
        ContextWindowError: the prompt does not fit with its turns cut either.
        ModelError: the model can't be asked.
    """
    if not turns or response_tokens < 1:
        raise InvalidInputError(f"a window has turns and a reply has room: {len(turns)} and {response_tokens}")
    started = time.monotonic()
    meter: list[Usage] = []
    talk = _Talk(
        MeteredChat(chat, meter),
        lambda most: _request(question, asked_at, session, turns, most),
        prompt_tokens,
        response_tokens,
    )
    decisions: tuple[Decision, ...] = ()
    fault = None
    try:
        decisions = _decisions(talk.reply(len(turns)), turns, window)
    except ModelOutputError as error:
        fault = str(error)
    return WindowDecisions(window, decisions, fault, talk.cut, tuple(meter), time.monotonic() - started)


def merge(windows: Iterable[Sequence[Decision]]) -> tuple[Decision, ...]:
    """What is kept of all windows: one decision a turn, in the order of the windows.

    A turn that stands in two windows is kept when one of them keeps it; of two texts the first counts, unless the
    second is longer and holds the first. A text that says the same as an earlier one, but for case, white space and
    forms of letters (NFKC), is left out.

    Args:
        windows: decisions of each window, windows and decisions in the order of the history.
    """
    kept: dict[str, Decision] = {}
    for decision in (item for window in windows for item in window if item.kept):
        first = kept.setdefault(decision.turn_id, decision)
        if len(decision.text or "") > len(first.text or "") and _plain(first) in _plain(decision):
            kept[decision.turn_id] = decision
    said: dict[str, Decision] = {}
    for decision in kept.values():
        said.setdefault(_plain(decision), decision)
    return tuple(said.values())


def prompt_hash() -> str:
    """Hash of the prompt's text, for records."""
    return hashlib.sha256(_prompt().encode()).hexdigest()[:16]


@cache
def _prompt() -> str:
    text = files("backread.construction").joinpath("prompts/keep_drop.md").read_text(encoding="utf-8")
    return text.strip().replace("{example}", EXAMPLE)


class _Request(NamedTuple):
    """Messages, their tokens, how many turns were cut, and the tokens of a reply in no more words than the turns'."""

    messages: list[ChatMessage]
    tokens: int
    cut: int
    reply_tokens: int


class _Talk:
    """What is sent for one window: the whole of it, and where the model has no room for that, less.

    Args:
        chat: decides.
        make: the request with at most so many tokens.
        most: tokens of the first.
        room: tokens of a reply at most.
    """

    def __init__(self, chat: ChatModel, make: Callable[[int], _Request], most: int, room: int) -> None:
        self._chat, self._make, self._room = chat, make, room
        self._whole = make(most)
        self.cut = self._whole.cut

    def reply(self, size: int) -> WindowReply:
        """A valid reply for `size` turns.

        Raises:
            ModelOutputError: there was none, at two tries.
        """
        try:
            return self._ask(self._whole, self._room, size)
        except ContextWindowError:  # its window has less room than a reply may take at most
            return with_smaller_prompts(lambda share: self._smaller(share, size))

    def _smaller(self, share: float, size: int) -> WindowReply:
        request = self._whole if share == 1 else self._make(int(share * self._whole.tokens))
        self.cut = request.cut
        return self._ask(request, min(request.reply_tokens, self._room), size)

    def _ask(self, request: _Request, room: int, size: int) -> WindowReply:
        from backread.construction.keep_drop_reply import reply_type

        return complete_as(
            self._chat,
            request.messages,
            reply_type(size),
            purpose="recall",
            max_tokens=room,
            most_tokens=self._room,
            instruct=False,
        ).value


def _decisions(reply: WindowReply, turns: Sequence[Turn], window: int) -> tuple[Decision, ...]:
    said = {item.index: item.text for item in reply.decisions}
    texts = [said[number] for number in range(1, len(turns) + 1)]
    return tuple(
        Decision(turn.turn_id, text is not None, text, window) for turn, text in zip(turns, texts, strict=True)
    )


def _request(
    question: str, asked_at: datetime | None, session: Session | None, turns: Sequence[Turn], most: int
) -> _Request:
    """The messages for a window, the longest turns cut to one length when they take more than `most` tokens.

    Raises:
        ContextWindowError: they can't be made that short.
    """
    count = EstimateCounter().count
    texts = [passage_text(turn.text, turn.caption) for turn in turns]
    sizes = [count(text) for text in texts]
    messages = _messages(question, asked_at, session, turns, texts)
    tokens = estimate_prompt(messages)
    limit = max(sizes) if tokens <= most else _level(sizes, most - (tokens - sum(sizes)))
    wanted = {term.term for term in query_terms(question) if not term.stop}
    while tokens > most and limit >= _SMALLEST_CUT:
        shown = [
            text if size <= limit else _cut(text, wanted, limit, count) for text, size in zip(texts, sizes, strict=True)
        ]
        messages = _messages(question, asked_at, session, turns, shown)
        tokens = estimate_prompt(messages)
        limit = limit if tokens <= most else limit * 4 // 5  # lines may count for more than their parts
    if tokens <= most:
        reply = _DECISION_TOKENS * (len(turns) + 1) + 3 * sum(min(size, limit) for size in sizes) // 2
        return _Request(messages, tokens, sum(size > limit for size in sizes), reply)
    raise ContextWindowError(
        f"a window of {len(turns)} turns can't be shown in {most} tokens",
        hint="allow more tokens for the prompt of a window",
        sent=tokens,
    )


def _level(sizes: Sequence[int], room: int) -> int:
    """The largest length to which all longer texts must be cut so that they fit `room` together."""
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes)


def _cut(text: str, wanted: set[str], limit: int, count: Callable[[str], int]) -> str:
    start, end = excerpt(text, wanted, max_tokens=limit - count(_MARK), count=count)
    return f"{text[start:end]}{_MARK}"


def _messages(
    question: str,
    asked_at: datetime | None,
    session: Session | None,
    turns: Sequence[Turn],
    texts: Sequence[str],
) -> list[ChatMessage]:
    """The rules, an example with its reply, and the window; the form comes last, where small models still follow it.

    What is the same for every window stands first, so that servers can reuse it.
    """
    rules, form, example, reply = _prompt().split("\n---\n")
    lines = [
        quote(f"[{number}] ({format_time(turn.time, received=turn.received)}) {turn.name}: {text}")
        for number, (turn, text) in enumerate(zip(turns, texts, strict=True), 1)
    ]
    now = f"Now: {format_time(asked_at)}\n" if asked_at is not None else ""
    window = f"Date of the conversation: {_day(session)}\n{fence(lines, label='messages')}"
    asked = f"{window}\n\n{now}Question: {quote(question)}"
    return [
        ChatMessage("system", rules),
        ChatMessage("user", f"{example}\n\n{form.replace('{size}', str(_EXAMPLE_SIZE))}"),
        ChatMessage("assistant", reply),
        ChatMessage("user", f"{asked}\n\n{form.replace('{size}', str(len(turns)))}"),
    ]


def _day(session: Session | None) -> str:
    if session is None or session.started_at is None:
        return "unknown"
    at = session.started_at
    return f"{format_time(at).split()[0]}, a {_DAYS[at.weekday()]}"


def _plain(decision: Decision) -> str:
    return " ".join(unicodedata.normalize("NFKC", decision.text or "").casefold().split())
