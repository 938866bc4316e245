"""The models that the settings name, made ready for `Memory`."""

from __future__ import annotations

import logging

from backread.errors import InvalidInputError, ModelNotAvailableError
from backread.models.base import Embedder, Reranker
from backread.models.embedders import open_embedder
from backread.models.fetch import models_dir
from backread.models.rerankers import open_reranker
from backread.models.roles import ChatRoles
from backread.models.splade import open_sparse_encoder
from backread.retrieval.sparse import MemorySparseIndex
from backread.settings import Settings
from backread.types import Degradation

__all__ = [
    "check_part",
    "configured_embedder",
    "configured_reranker",
    "configured_sparse",
    "named_embedder",
    "named_id",
]

_log = logging.getLogger(__name__)


def configured_embedder(settings: Settings) -> tuple[Embedder | None, Degradation | None]:
    """The embedder the settings name, or why search has to do without one.

    Weights that were not fetched keep nothing from opening. With the name "none" nothing is missing.
    """
    if settings.embedder == "none":
        return None, None
    try:
        return named_embedder(settings, settings.embedder), None
    except ModelNotAvailableError as error:
        _log.info("no embedder: %s", error)
        return None, Degradation("dense", f"{error}: search is by text only; {error.hint or 'fetch the weights'}")


def named_embedder(settings: Settings, name: str) -> Embedder:
    """An embedder by name, with the settings' folders and endpoints."""
    return open_embedder(
        name,
        directory=models_dir(settings.models_dir),
        threads=settings.threads or None,
        base_url=settings.embedder_base_url,
        api_key=settings.embedder_api_key,
        timeout=settings.timeout,
    )


def configured_reranker(settings: Settings, roles: ChatRoles) -> Reranker | None:
    """The reranker the settings name; "llm" works with the chat model of the recall role."""
    if settings.reranker is None:
        return None
    return open_reranker(
        settings.reranker,
        directory=models_dir(settings.models_dir),
        threads=settings.threads or None,
        base_url=settings.reranker_base_url,
        api_key=settings.reranker_api_key,
        chat=roles.recall,
        timeout=settings.timeout,
    )


def configured_sparse(settings: Settings) -> MemorySparseIndex | None:
    """The index of the sparse encoder the settings name; it lives in memory."""
    if settings.sparse_encoder is None:
        return None
    encoder = open_sparse_encoder(settings.sparse_encoder, directory=models_dir(settings.models_dir))
    return MemorySparseIndex(encoder, seconds=settings.catch_up_seconds)


def named_id(value: object, what: str) -> str:
    """An id, which must be text and not blank.

    Raises:
        InvalidInputError: it isn't.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{what} must be a non-empty text, not {value!r}")
    return value


def check_part(given: object, kind: type, what: str) -> None:
    """Refuses what is neither a name nor a part, which would otherwise be taken for "not given".

    Raises:
        InvalidInputError: it is neither.
    """
    if given is not None and not isinstance(given, str | kind):
        raise InvalidInputError(
            f"{what} is a name or an instance of {kind.__name__}, not {type(given).__name__}",
            hint=f"`backread.models.base.{kind.__name__}` says what it must have",
        )
