"""`backread recall` and `backread ask`: evidence for a question, and an answer with checked citations."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from backread.cli.opening import open_memory
from backread.cli.options import AsJson, AskedAt, AsOf, Budget, Question, StorePath, Strategy, User
from backread.cli.output import counted, emit, note, notes, plain, shown, tell
from backread.cli.wording import joined
from backread.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from backread.memory import Memory
    from backread.types import Answer, Recall, Usage

__all__ = ["NO_CHAT", "answer_lines", "ask", "recall"]

NO_CHAT = (
    "No chat model is configured: these are the closest passages, quoted. "
    "Set OPENAI_API_KEY and BACKREAD_MODEL to get written answers."
)


def recall(
    question: Question,
    user: User,
    budget: Budget = None,
    strategy: Strategy = None,
    asked_at: AskedAt = None,
    as_of: AsOf = None,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Print the evidence for a question, as a model would get it.

    The block on stdout is what `ask` puts before the model: numbered, dated,
    within the budget. What it took is said on stderr.

      backread recall --user ann "Where is the spare key?"
      backread recall --user ann --budget 300 --json where is the key
    """
    with open_memory(path, embedder=True, chat=True) as memory:
        found = memory.recall(
            joined(question),
            user_id=user,
            budget=parse_budget(budget),
            strategy=strategy,
            asked_at=asked_at,
            as_of=as_of,
        )
    if as_json:
        emit(found)
        return
    if found.rendered:
        sys.stdout.write(f"{found.rendered}\n")
    note(_summary(found), label="recall")
    notes(found.degraded)


def ask(
    question: Question,
    user: User,
    budget: Budget = None,
    strategy: Strategy = None,
    asked_at: AskedAt = None,
    as_of: AsOf = None,
    trace: Annotated[bool, typer.Option("--trace", help="Say on stderr what was done and what it took.")] = False,
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from the record, with citations.

    Every citation was checked against the turn it names. Without a chat model
    the closest passages are quoted; a model that is configured and fails is an
    error, never another kind of answer.

      backread ask --user ann "Where is the spare key?"
      backread ask --user ann --asked-at 2025-12-21 --trace "When did we move?"
    """
    with open_memory(path, embedder=True, chat=True) as memory:
        found = memory.ask(
            joined(question),
            user_id=user,
            budget=parse_budget(budget),
            strategy=strategy,
            asked_at=asked_at,
            as_of=as_of,
        )
        lines = [] if as_json else answer_lines(found, memory, user)
    if as_json:
        emit(found)
        return
    if found.extractive and found.citations:
        tell(NO_CHAT, "")
    tell(*lines)
    notes(found.degraded)
    if trace:
        _trace(found)


def parse_budget(value: str | None) -> int | Literal["default"] | None:
    """The budget of an option: "default" when it wasn't given, None for "none", else a number of tokens.

    Raises:
        InvalidInputError: it is neither "none" nor a number from 1.
    """
    if value is None:
        return "default"
    if value.strip().lower() == "none":
        return None
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidInputError(f"the budget must be a number of tokens from 1, or none, not {value!r}")
    return number


def answer_lines(answer: Answer, memory: Memory, user: str) -> list[RenderableType]:
    """An answer for people: its text, then its citations in the order of the text.

    An answer that only quotes is its citations, so they are not said twice.
    """
    from rich.table import Table
    from rich.text import Text

    if not answer.citations:
        return [Text(shown(answer.text), overflow="fold")]
    cited = Table.grid(padding=(0, 1, 0, 0))
    cited.add_column(no_wrap=True)
    cited.add_column(overflow="fold")
    for citation in sorted(answer.citations, key=lambda item: _place(answer.text, item.number)):
        line = Text(_source(answer, citation.number, citation.turn_id, memory, user), "dim")
        line.append(f" “{' '.join(shown(citation.quote).split())}”", "not dim")
        cited.add_row(Text(f"[{citation.number}]", "cyan"), line)
    return [cited] if answer.extractive else [Text(shown(answer.text), overflow="fold"), Text(), cited]


def _place(text: str, number: int) -> int:
    place = text.find(f"[{number}]")
    return len(text) if place < 0 else place


def _source(answer: Answer, number: int, turn_id: str, memory: Memory, user: str) -> str:
    """When, who and where of a cited turn; what the evidence knew when the turn was deleted meanwhile."""
    from backread.text.times import format_time

    try:
        turn = memory.get(turn_id, user_id=user)
    except NotFoundError:
        line = answer.recall.evidence[number - 1]
        at = format_time(line.time, received=line.received)
        return f"{at} {shown(line.speaker or '')} ({shown(line.session_id or '')}, {turn_id}):"
    return f"{format_time(turn.time, received=turn.received)} {shown(turn.name)} ({shown(turn.session_id)}, {turn_id}):"


def _summary(found: Recall) -> str:
    lines = counted(len(found.evidence), "line")
    budget = "; the budget held none of it" if found.overflow else ""
    return f"{lines}, {found.tokens:,} tokens ({found.counter}), strategy {found.strategy}{budget}"


def _trace(answer: Answer) -> None:
    note(_summary(answer.recall), label="recall")
    for step in answer.recall.steps:
        detail = ", ".join(f"{key}={value}" for key, value in plain(step.detail).items())
        took = "" if step.seconds is None else f" ({step.seconds:.2f} s)"
        note(f"{step.name}: {detail}{took}", label="step")
    for usage in answer.usage:
        note(_usage(usage), label="usage")
    if answer.dropped_citations:
        note(f"{counted(answer.dropped_citations, 'citation')} could not be checked and were removed", label="answer")


def _usage(usage: Usage) -> str:
    def tokens(number: int | None) -> str:
        return "unknown" if number is None else f"{number:,}"

    took = "" if usage.seconds is None else f", {usage.seconds:.2f} s"
    return f"{usage.purpose}: {usage.model}, {tokens(usage.input_tokens)} in, {tokens(usage.output_tokens)} out{took}"
