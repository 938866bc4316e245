"""Embedders by the names users give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from backread.errors import InvalidInputError, NotFoundError
from backread.models.base import Embedder
from backread.models.onnx import OnnxEmbedder
from backread.models.openai_embeddings import OpenAIEmbedder
from backread.models.sentence_transformers import Dtype, SentenceTransformersEmbedder
from backread.secret import Secret

__all__ = ["EMBEDDERS", "PRESETS", "Preset", "open_embedder"]

QWEN3_QUERY = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
"""Before a query and not before a document, as the models' own configuration has it; no space after the colon."""


class Preset(NamedTuple):
    """A model of sentence-transformers under a short name, pinned to a commit.

    Attributes:
        repo, revision: on the Hugging Face hub.
        dimension: of its vectors.
        query_prompt: put before a query; "" for none. Nothing is put before a document.
        dtype: of the arithmetic; the large ones are run as they are published, in two bytes.
    """

    repo: str
    revision: str
    dimension: int
    query_prompt: str = ""
    dtype: Dtype = "float32"


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        # Zhang et al., "Qwen3 Embedding", 2025, arXiv 2506.05176; Apache-2.0.
        "qwen3-0.6b": Preset(
            "Qwen/Qwen3-Embedding-0.6B", "c54f2e6e80b2d7b7de06f51cec4959f6b3e03418", 1024, QWEN3_QUERY
        ),
        "qwen3-4b": Preset(
            "Qwen/Qwen3-Embedding-4B", "5cf2132abc99cad020ac570b19d031efec650f2b", 2560, QWEN3_QUERY, "bfloat16"
        ),
        "qwen3-8b": Preset(
            "Qwen/Qwen3-Embedding-8B", "4e423935c619ae4df87b646a3ce949610c66241c", 4096, QWEN3_QUERY, "bfloat16"
        ),
        # Chen et al., "M3-Embedding", Findings of ACL 2024, arXiv 2402.03216; MIT. Its dense vectors, no prompt.
        "bge-m3": Preset("BAAI/bge-m3", "5617a9f61b028005a4858fdac845db406aefb181", 1024),
    }
)
"""By the name users give. Each needs the extra `sentence-transformers`."""

EMBEDDERS: tuple[str, ...] = tuple(sorted(("minilm", *PRESETS)))
"""The short names `open_embedder` knows, sorted; it also takes "st:…" and "openai:…"."""

FORMS = "st:ORG/NAME[@REVISION], st:FOLDER, openai:MODEL[@DIMENSION]"


def open_embedder(
    name: str,
    *,
    directory: Path,
    threads: int | None = None,
    base_url: str | Secret | None = None,
    api_key: str | Secret | None = None,
    timeout: float = 60.0,
    http_client: Any = None,  # noqa: ANN401 -- an httpx2.Client
) -> Embedder:
    """The embedder called `name`. Opening never downloads, loads torch, or makes a connection.

    Args:
        name: one of `EMBEDDERS`; "st:ORG/NAME[@REVISION]" or "st:FOLDER" for any model of sentence-transformers;
            "openai:MODEL[@DIMENSION]" for an endpoint.
        directory: where local weights are, see `backread.models.fetch.models_dir`.
        threads: of a local model, for one call; None takes min(4, CPUs).
        base_url: of the endpoint; None is OpenAI's own. Chat models have a setting of their own.
        api_key: of the endpoint.
        timeout: seconds to wait for the endpoint.
        http_client: what the endpoint is called through, for tests.

    Raises:
        NotFoundError: no embedder has this name; the message lists the names.
        InvalidInputError: an address or a dimension that is none.
        ModelNotAvailableError: its weights are missing or damaged; the hint says how to fetch them.
        MissingExtraError: it needs a package that is not installed; the message has the command.
    """
    if name == "minilm":
        return OnnxEmbedder.open(directory, threads=threads)
    if name in PRESETS:
        return _open_preset(name, PRESETS[name])
    kind, colon, rest = name.partition(":")
    if colon and rest and kind == "st":
        return SentenceTransformersEmbedder.open(rest)
    if colon and rest and kind == "openai":
        model, dimension = _model_and_dimension(rest)
        return OpenAIEmbedder(
            model,
            base_url=base_url,
            api_key=api_key,
            dimension=dimension,
            query_prompt=QWEN3_QUERY if "qwen3-embedding" in model.lower() else "",
            timeout=timeout,
            http_client=http_client,
        )
    raise NotFoundError(
        f"no embedder is called {name!r}; there is: {', '.join(EMBEDDERS)}", hint=f"other models: {FORMS}"
    )


def _open_preset(name: str, preset: Preset) -> Embedder:
    return SentenceTransformersEmbedder.open(
        preset.repo,
        name=name,
        revision=preset.revision,
        dimension=preset.dimension,
        query_prompt=preset.query_prompt,
        document_prompt="",
        dtype=preset.dtype,
    )


def _model_and_dimension(text: str) -> tuple[str, int | None]:
    """The two parts of "nomic-embed-text@768"; an "@" that no number follows belongs to the model."""
    model, at, number = text.rpartition("@")
    if not at or not number.isdecimal():
        return text, None
    if not model or int(number) < 1:
        raise InvalidInputError(f"{text!r} names no model with a dimension", hint="write openai:MODEL@768")
    return model, int(number)
