"""Rerankers by the names users give."""

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

__all__ = ["ENDPOINTS", "RERANKERS", "Endpoint", "open_reranker"]


class Endpoint(NamedTuple):
    """A kind of rerank endpoint.

    Attributes:
        shape: of request and answer, see `http_rerank`.
        base_url: where it is unless the user says otherwise; None where there is no such place.
        hosted: it wants a key at `base_url`.
    """

    shape: Literal["results", "tei"]
    base_url: str | None = None

    @property
    def hosted(self) -> bool:
        """Whether there is a public place, which wants a key."""
        return self.base_url is not None


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

FORMS = "onnx:FOLDER, onnx:ORG/NAME@REVISION, cohere:MODEL, jina:MODEL, vllm:MODEL, tei"


def open_reranker(
    name: str,
    *,
    directory: Path,
    threads: int | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    chat: ChatModel | None = None,
    timeout: float = 60.0,
    http_client: Any = None,  # noqa: ANN401 -- an httpx2.Client
) -> Reranker:
    """The reranker called `name`. Opening never downloads or makes a connection.

    Args:
        name: "ms-marco-minilm"; "onnx:FOLDER" or "onnx:ORG/NAME@REVISION" for another cross-encoder; "cohere:MODEL",
            "jina:MODEL", "vllm:MODEL" or "tei" for an endpoint; "llm" for the chat model.
        directory: where local weights are, see `backread.models.fetch.models_dir`.
        threads: of a local model, for one call; None takes min(4, CPUs).
        base_url: of the endpoint; None is the hosted one of Cohere and Jina. Chat models have a setting of their own.
        api_key: of the endpoint.
        chat: what "llm" asks.
        timeout: seconds to wait for the endpoint.
        http_client: what the endpoint is called through, for tests.

    Raises:
        NotFoundError: no reranker has this name; the message lists the names.
        InvalidInputError: an address that is none, or an endpoint without one.
        ModelNotAvailableError: weights that are missing or damaged, or "llm" without a chat model.
    """
    if name in ONNX_MODELS:
        return OnnxCrossEncoder(find_onnx(name, directory), name=name, threads=threads)
    if name == "llm":
        if chat is None:
            raise ModelNotAvailableError("the reranker 'llm' needs a chat model", hint="configure one, see `model`")
        return LLMReranker(chat)
    kind, _, rest = name.partition(":")
    if kind == "onnx" and rest:
        folder = Path(rest).expanduser()
        return OnnxCrossEncoder(folder if folder.is_dir() else find_onnx(rest, directory), name=name, threads=threads)
    if kind not in ENDPOINTS or not (rest or kind == "tei"):
        raise NotFoundError(
            f"no reranker is called {name!r}; there is: {', '.join(RERANKERS)}", hint=f"other models: {FORMS}"
        )
    endpoint = ENDPOINTS[kind]
    address = base_url or endpoint.base_url
    if address is None:
        raise InvalidInputError(f"the reranker {name!r} has no address", hint="give the base URL of its server")
    return HttpReranker(
        rest or None,
        base_url=address,
        shape=endpoint.shape,
        api_key=api_key,
        name=name,
        needs_key=endpoint.hosted and base_url is None,
        timeout=timeout,
        http_client=http_client,
    )
