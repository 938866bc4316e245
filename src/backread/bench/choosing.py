"""From what a user has (a store or a file, questions or none) to the experiment that compares designs on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from backread.bench.choose import BUDGETS, choice_spec, export_history
from backread.bench.drafting import draft_file
from backread.bench.spec import ExperimentSpec, ModelsSpec
from backread.errors import InvalidInputError, NotFoundError
from backread.memory import Memory
from backread.settings import Settings

__all__ = ["prepare"]


def prepare(
    settings: Settings,
    *,
    user: str | None,
    history: Path | None,
    questions: Path | None,
    draft: int,
    designs: Sequence[str],
    budgets: Sequence[int] | None,
    folder: Path,
) -> ExperimentSpec:
    """The experiment, its history and its questions written into `folder` where they are not files yet.

    Args:
        settings: name the store, the embedder and the models.
        user: whose history of the store; or
        history: a file of messages.
        questions: a file of questions; None drafts them, with the build model where there is one. Drafts that are there
            already are used again: somebody may have mended them.
        draft: how many questions to draft.
        designs: names; empty is every design.
        budgets: tokens of evidence; None is `choose.BUDGETS`.
        folder: made when missing.

    Raises:
        InvalidInputError: neither a user nor a file was named, or both.
        NotFoundError: there is no such user, or no store.
    """
    if (user is None) == (history is None):
        raise InvalidInputError("name a user of the store or a file of messages, one of the two", hint="--user ann")
    folder.mkdir(parents=True, exist_ok=True)
    if history is None:
        history = folder / "history.jsonl"
        if not history.exists():
            _export(settings, str(user), history)
    if questions is None:
        questions = folder / "questions.jsonl"
        if not questions.exists():
            draft_file(history, questions, draft)
    models = ModelsSpec(
        build=settings.build_model or settings.model,
        recall=settings.recall_model or settings.model,
        answer=settings.answer_model or settings.model,
        judge=settings.judge_model or settings.model,
    )
    return choice_spec(
        history,
        questions,
        designs=designs,
        budgets=tuple(budgets or BUDGETS),
        models=models,
        embedder=settings.embedder,
    )


def _export(settings: Settings, user: str, path: Path) -> None:
    if not settings.path.exists():
        raise NotFoundError(
            f"there is no store at {settings.path}", hint="name it with --path, or a file with --history"
        )
    with Memory.open(settings.path, embedder="none", settings=settings) as memory:
        if user not in memory.users():
            raise NotFoundError(f"there is no user {user!r} in {settings.path}", hint="list them: backread users")
        draft = path.with_suffix(".draft")
        export_history(memory, [user], draft)
        draft.replace(path)
