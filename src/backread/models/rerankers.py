"""Rerankers by the names users give.

ms-marco-minilm                 the pinned cross-encoder, once fetched
onnx:FOLDER                     another cross-encoder, as ONNX
onnx:ORG/NAME@REVISION          one of the hub, once fetched
cohere:MODEL, jina:MODEL        hosted, or at an address of your own
vllm:MODEL, tei                 a server of your own
llm                             the chat model
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from backread.errors import InvalidInputError, ModelNotAvailableError, NotFoundError
from backread.models.base import ChatModel, Reranker
from backread.models.cross_encoder import OnnxCrossEncoder
from backread.models.http_rerank import HttpReranker
from backread.models.llm_rerank import LLMReranker
from backread.models.onnx_hub import ONNX_MODELS, find_onnx
from backread.secret import Secret

__all__ = ["ENDPOINTS", "RERANKERS", "Endpoint", "open_reranker"]


class Endpoint(NamedTuple):
    """A kind of rerank endpoint.

    Attributes:
        shape: of request and answer, see `http_rerank`.
        base_url: the hosted one, which wants a key; None where the user has to say where it is.
    """

    shape: Literal["results", "tei"]
    base_url: str | None = None


ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType(
    {
        "cohere": Endpoint("results", "https://api.cohere.com/v2"),
        "jina": Endpoint("results", "https://api.jina.ai/v1"),
        "vllm": Endpoint("results"),
        "tei": Endpoint("tei"),
    }
)
"""By what stands before the colon of a name; what follows is the model, which TEI does not need."""

RERANKERS: tuple[str, ...] = ("llm", "ms-marco-minilm")
"""The short names `open_reranker` knows, sorted."""

FORMS = "other models: onnx:FOLDER, onnx:ORG/NAME@REVISION, cohere:MODEL, jina:MODEL, vllm:MODEL, tei"


def open_reranker(
    name: str,
    *,
    directory: Path,
    threads: int | None = None,
    base_url: str | Secret | None = None,
    api_key: str | Secret | None = None,
    chat: ChatModel | None = None,
    timeout: float = 60.0,
    http_client: Any = None,  # noqa: ANN401 -- an httpx2.Client
) -> Reranker:
    """The reranker called `name`. Opening never downloads or makes a connection.

    Args:
        name: see the module.
        directory: where local weights are, see `backread.models.fetch.models_dir`.
        threads: of a local model, for one call; None takes min(4, CPUs).
        base_url: of the endpoint; None is the hosted one of Cohere and Jina.
        api_key: of the endpoint.
        chat: what "llm" asks.
        timeout: seconds to wait for the endpoint.
        http_client: what the endpoint is called through, for tests.

    Raises:
        NotFoundError: no reranker has this name; the message lists the names.
        InvalidInputError: an address that is none, or an endpoint without one.
        ModelNotAvailableError: weights that are missing or damaged, or "llm" without a chat model.
    """
    kind, _, rest = name.partition(":")
    if name == "llm":
        return _open_llm(chat)
    if name in ONNX_MODELS or (kind == "onnx" and rest):
        folder = Path(rest).expanduser()
        found = folder if rest and folder.is_dir() else find_onnx(rest or name, directory)
        return OnnxCrossEncoder(found, name=name, threads=threads)
    if kind not in ENDPOINTS or not (rest or kind == "tei"):
        raise NotFoundError(f"no reranker is called {name!r}; there is: {', '.join(RERANKERS)}", hint=FORMS)
    address = base_url or ENDPOINTS[kind].base_url
    if address is None:
        raise InvalidInputError(f"the reranker {name!r} has no address", hint="give the base URL of its server")
    return HttpReranker(
        rest or None,
        base_url=address,
        shape=ENDPOINTS[kind].shape,
        api_key=api_key,
        name=name,
        needs_key=base_url is None,
        timeout=timeout,
        http_client=http_client,
    )


def _open_llm(chat: ChatModel | None) -> Reranker:
    if chat is None:
        raise ModelNotAvailableError("the reranker 'llm' needs a chat model", hint="configure one, see `model`")
    return LLMReranker(chat)
