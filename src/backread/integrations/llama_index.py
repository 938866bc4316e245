"""LlamaIndex: a retriever over one user's record, for query engines. Needs the extra `llama-index`."""

from __future__ import annotations

import asyncio

from backread.integrations.shared import hit_metadata, missing, noted
from backread.memory import Memory

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ModuleNotFoundError as error:
    raise missing("llama-index-core", "llama-index") from error

__all__ = ["BackreadRetriever"]

_SHOWN = ("speaker", "time", "received", "caption")
"""Metadata that a model is shown with the text; the rest is for programs."""


class BackreadRetriever(BaseRetriever):
    """Finds turns of one user; each node is a turn, word for word.

    A node's id is its turn id, its metadata that of `shared.hit_metadata` without what is unknown; of it a model is
    shown speaker, time, whether that is when it was received, and caption. Query engines put nodes into prompts as they
    are: where stored text must not pass for instructions, use `Memory.recall`, whose `rendered` quotes it.

    Args:
        memory: where the record is.
        user_id: whose history.
        top_k: nodes at most.
        mode: how to rank; see `Memory.search`.
        session_id: only turns of this session.
        callback_manager: told of every retrieval.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        user_id: str,
        top_k: int = 10,
        mode: str = "hybrid",
        session_id: str | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._memory, self._user_id, self._session_id = memory, user_id, session_id
        self._top_k, self._mode = top_k, mode

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._memory.search(
            query_bundle.query_str,
            user_id=self._user_id,
            top_k=self._top_k,
            mode=self._mode,
            session_id=self._session_id,
        )
        nodes = []
        for hit in noted(hits):
            metadata = {name: value for name, value in hit_metadata(hit).items() if value is not None}
            node = TextNode(
                id_=hit.turn.turn_id,
                text=hit.turn.text,
                metadata=metadata,
                excluded_llm_metadata_keys=[name for name in metadata if name not in _SHOWN],
            )
            nodes.append(NodeWithScore(node=node, score=hit.score))
        return nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
