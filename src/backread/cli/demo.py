"""`backread demo`: a year of one person's chats, imported and asked five questions."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backread.cli.asking import NO_CHAT, answer_lines
from backread.cli.loading import embed, load
from backread.cli.opening import open_memory, typed
from backread.cli.options import AsJson
from backread.cli.output import counted, emit, note, plain, shown, tell
from backread.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from backread.memory import Memory
    from backread.types import Answer

__all__ = ["demo"]

_WIDEST = 100


def demo(
    path: Annotated[
        Path | None,
        typer.Option("--path", "-p", metavar="FILE", help="The store. Default: demo.db in the user's data folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try backread on a year of chats that come with it.

    Imports the chats of Marta, who lives in Bristol, asks five questions and
    shows each answer with the lines it rests on. Uses a store of its own,
    demo.db in the user's data folder; running it again is quick.

      backread demo
      backread demo --path /tmp/demo.db
    """
    asked: dict[str, Any] = json.loads(_bundled("questions.json").read_text(encoding="utf-8"))
    user = asked["user_id"]
    where = Settings().path.with_name("demo.db") if path is None else path
    with open_memory(where, create=True, embedder=True, chat=True) as memory:
        _import(memory, user)
        vectors = embed(memory, [user], reindex=typed("reindex", where))
        answers = [
            (question, memory.ask(question["question"], user_id=user, asked_at=asked["asked_at"]))
            for question in asked["questions"]
        ]
        gold = _gold_ids(memory, user, [question for question, _ in answers])
        if as_json:
            told = [{**question, "answer": plain(found), "gold": question["answer"]} for question, found in answers]
            emit({"path": where, "user_id": user, "pending": vectors.pending, "questions": told})
            return
        turns = sum(session.turns for session in memory.sessions(user_id=user))
        tell(f"{shown(asked['history'])}", f"{counted(turns, 'turn')} in {where}, user {user}", "", width=80)
        if any(found.extractive for _, found in answers):
            tell(NO_CHAT, "", width=80)
        for question, found in answers:
            _panel(question, found, memory, user, gold)
    if vectors.reason is not None:
        _without_vectors(vectors.reason)
    _next(where, user)


def _bundled(name: str) -> Any:  # noqa: ANN401 -- importlib's Traversable moved between versions
    return files("backread") / "demo" / name


def _import(memory: Memory, user: str) -> None:
    from backread.importers import importer

    with _history() as file:
        load(memory, importer("jsonl")(file, user_id=user))


@contextmanager
def _history() -> Iterator[Path]:
    with as_file(_bundled("history.jsonl")) as file:
        yield file


def _gold_ids(memory: Memory, user: str, questions: list[dict[str, Any]]) -> dict[str, str]:
    """Turn ids of the turns that hold the answers, by the ids of the bundled file."""
    names = [name for question in questions for name in question["evidence"]]
    return {name: memory.get(name, user_id=user).turn_id for name in names}


def _panel(question: dict[str, Any], found: Answer, memory: Memory, user: str, gold: dict[str, str]) -> None:
    from rich.box import ROUNDED
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    from backread.cli.output import console

    parts: list[RenderableType] = list(answer_lines(found, memory, user))
    parts += [Text(), Text(f"Expected: {shown(question['answer'])}", "dim")]
    parts.append(Text(f"It was said in {_fates(question, found, gold)}.", "dim"))
    if question["shares_no_content_word"]:
        parts.append(Text("The question shares no word with that turn: only its meaning leads there.", "italic"))
    out = console(width=80)
    if out.is_terminal:
        out.print(
            Panel(
                Group(*parts),
                box=ROUNDED,
                title=Text(shown(question["question"]), "bold"),
                title_align="left",
                padding=(0, 1),
                width=min(_WIDEST, out.width),
            )
        )
    else:
        tell(f"Q: {shown(question['question'])}", *parts, "", width=80)


def _fates(question: dict[str, Any], found: Answer, gold: dict[str, str]) -> str:
    """Where each turn that holds the answer ended up."""
    cited = {citation.turn_id for citation in found.citations}
    evidence = {source.turn_id for line in found.recall.evidence for source in line.sources}
    fates = []
    for name in question["evidence"]:
        turn_id = gold[name]
        fate = "cited" if turn_id in cited else "in the evidence" if turn_id in evidence else "not found"
        fates.append(f"{turn_id} ({fate})")
    return " and ".join(fates)


def _without_vectors(reason: str) -> None:
    note(f"no vectors: {reason}")
    note("questions are found by their words only; for meaning: backread models fetch minilm, then backread demo")


def _next(where: Path, user: str) -> None:
    """Commands that work as they are printed, so no line of them is wrapped."""
    store = f"-p {_short(where)} -u {shlex.quote(user)}"
    commands = (
        f'backread ask {store} "What was my phone number before the phone was stolen?"',
        f'backread search {store} -k 3 "¿Dónde se celebró la boda de Inés?"',
        f'backread recall {store} --budget 300 "When did we get the keys?"',
        f"backread show {store} d0660 --context 2",
        f"backread sessions {store}",
    )
    sys.stdout.write("\nWhat to try next:\n" + "".join(f"  {line}\n" for line in commands))


def _short(path: Path) -> str:
    """A path as one would type it: from ~ where that is shorter."""
    path = path.absolute()
    if path.is_relative_to(Path.home()):
        inside = str(path.relative_to(Path.home()))
        if shlex.quote(inside) == inside:
            return f"~/{inside}"
    return shlex.quote(str(path))
