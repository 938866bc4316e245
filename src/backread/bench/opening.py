"""The memory an experiment runs on: the product's own, on a store kept between runs in the user's cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from backread.bench.datasets import Dataset
from backread.bench.spec import ExperimentSpec
from backread.memory import Memory
from backread.models.cached_embedder import CachedEmbedder
from backread.models.roles import ChatRoles
from backread.parts import named_embedder
from backread.settings import Settings

__all__ = ["cache_folder", "open_bench"]


def cache_folder() -> Path:
    """Where stores and vectors of experiments are kept; may be deleted at any time."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("backread")) / "benchmarks"


@contextmanager
def open_bench(
    spec: ExperimentSpec,
    dataset: Dataset,
    settings: Settings,
    *,
    folder: Path | None = None,
    store: Path | None = None,
    roles: ChatRoles | None = None,
) -> Iterator[Memory]:
    """A memory with the embedder and the models of the spec, and no others.

    Vectors are kept by the text they are of, so that a session in a hundred haystacks is embedded once. What models
    built stays apart: two build models never share entries.

    Args:
        spec: names embedder and models.
        dataset: its hash names the store.
        settings: folders, endpoints, time zone and limits.
        folder: where store and vectors are kept; the user's cache when None.
        store: the file of the store, in place of one in `folder`.
        roles: chat models in place of those of the spec.
    """
    models = spec.models
    settings = replace(
        settings,
        model=None,
        build_model=models.build,
        recall_model=models.recall,
        answer_model=models.answer,
        judge_model=models.judge,
        reranker=None,
        embedder=spec.embedder,
    )
    kept = cache_folder() if folder is None else folder
    kept.mkdir(parents=True, exist_ok=True)
    built_by = "" if models.build is None else "-" + re.sub(r"[^A-Za-z0-9.]+", "-", models.build)
    with ExitStack() as stack:
        embedder = None
        if spec.embedder != "none":
            embedder = CachedEmbedder(named_embedder(settings, spec.embedder), kept / "vectors.db")
            stack.callback(embedder.close)
        path = store or kept / f"{dataset.sha256[:16]}{_roles(dataset)}{built_by}.db"
        yield stack.enter_context(Memory.open(path, embedder=embedder, model=roles, settings=settings))


def _roles(dataset: Dataset) -> str:
    return "" if dataset.roles is None else "-" + "-".join(sorted(dataset.roles))
