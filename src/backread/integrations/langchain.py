"""LangChain: a retriever over one user's record. Needs the extra `langchain`."""

from __future__ import annotations

from typing import Annotated

from backread.integrations.shared import hit_metadata, missing, noted
from backread.memory import DEFAULT_MODE, Memory
from backread.retrieval.registry import retriever_spec

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import AfterValidator, Field
except ModuleNotFoundError as error:
    raise missing("langchain-core", "langchain") from error

__all__ = ["BackreadRetriever"]


def _known(mode: str) -> str:
    retriever_spec(mode)  # its error is a ValueError, as a validator's must be
    return mode


class BackreadRetriever(BaseRetriever):
    """Finds turns of one user; each document is a turn, word for word.

    A document's id is its turn id, its metadata that of `shared.hit_metadata` and the `score`. Chains put documents
    into prompts as they are: where stored text must not pass for instructions, use `Memory.recall`, whose `rendered`
    quotes it.
    """

    memory: Memory
    """Where the record is."""
    user_id: str = Field(min_length=1)
    """Whose history."""
    top_k: int = Field(default=10, ge=1)
    """Documents at most."""
    mode: Annotated[str, AfterValidator(_known)] = DEFAULT_MODE
    """How to rank; see `Memory.search`."""
    session_id: str | None = None
    """Only turns of this session."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        hits = self.memory.search(
            query, user_id=self.user_id, top_k=self.top_k, mode=self.mode, session_id=self.session_id
        )
        return [
            Document(
                page_content=hit.turn.text, id=hit.turn.turn_id, metadata={**hit_metadata(hit), "score": hit.score}
            )
            for hit in noted(hits)
        ]
