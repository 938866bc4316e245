"""Dense and sparse models through the sentence-transformers library, an extra: torch comes with it.

Weights are taken from the hub's local cache or from a folder and never downloaded here; `hf download` fetches them.
Code that a repository ships is not run.

Papers: Reimers & Gurevych, "Sentence-BERT", EMNLP 2019; Formal et al., "SPLADE-v3", 2024, arXiv 2403.06789.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import itertools
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from backread.arrays import NDArray, np
from backread.errors import MissingExtraError, ModelNotAvailableError, ModelOutputError
from backread.models.base import SparseVector
from backread.text.fencing import safe

__all__ = ["SentenceTransformersEmbedder", "SentenceTransformersSparseEncoder", "Weights"]

MAX_TOKENS = 512
BATCH = 32
SPECIAL_TOKENS = 2
NORM_TOLERANCE = 2e-2  # bfloat16 keeps three digits
INSTALL = "pip install 'backread[sentence-transformers]'"

Dtype = Literal["float32", "bfloat16", "float16"]
Kind = Literal["document", "query"]


class Weights:
    """Where a model's weights are: a folder, or a repository of the hub at a commit in the local cache.

    Args:
        place: "ORG/NAME", "ORG/NAME@REVISION", or a folder ("/…", "./…", "~/…").
        default_revision: taken where the name has none; None is the newest in the cache.
        find: where a file of a repository lies in the cache, None where it isn't: (repo, file, revision) -> path.

    Raises:
        ModelNotAvailableError: they are not there; the hint is the command that fetches them.
    """

    def __init__(
        self,
        place: str,
        *,
        default_revision: str | None = None,
        find: Callable[[str, str, str | None], str | None] | None = None,
    ) -> None:
        self.place = place
        self._folder: Path | None = None
        if place.startswith(("/", "./", "../", "~")):
            self._folder = Path(place).expanduser()
            if not (self._folder / "config.json").is_file():
                raise ModelNotAvailableError(f"{self._folder} holds no model", hint="give a folder with a config.json")
            return
        repo, _, revision = place.partition("@")
        wanted = revision or default_revision
        found = (find or _in_cache)(repo, "config.json", wanted)
        if found is None:
            at = f" --revision {wanted}" if wanted else ""
            raise ModelNotAvailableError(
                f"the weights of {repo} are not in the hub's cache", hint=f"run `hf download {repo}{at}`"
            )
        self.repo, self.commit = repo, Path(found).parent.name

    @property
    def source(self) -> str:
        """What the library is given as the model."""
        return str(self._folder) if self._folder else self.repo

    @property
    def revision(self) -> str | None:
        """The commit, None for a folder."""
        return None if self._folder else self.commit

    @cached_property
    def identity(self) -> str:
        """Repository and commit, or a hash over the weight files of a folder, which are read for it once."""
        if self._folder is None:
            return f"{self.repo}@{self.commit[:12]}"
        digest = hashlib.sha256()
        files = sorted(path for path in self._folder.rglob("*") if path.suffix in (".safetensors", ".bin"))
        for path in files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return f"{self._folder.name}#{digest.hexdigest()[:16]}"


def require_library(name: str) -> None:
    """Raise MissingExtraError unless sentence-transformers is installed; it is not imported for that."""
    if importlib.util.find_spec("sentence_transformers") is None:
        raise MissingExtraError(f"{name} needs sentence-transformers, which is not installed: {INSTALL}", hint=INSTALL)


class _Loaded:
    """A model that is loaded at its first use, and used by one thread at a time: its tokenizer can't take two."""

    def __init__(self, load: Callable[[], Any], name: str, max_tokens: int) -> None:
        self._load, self._name, self._cap = load, name, max_tokens
        self._model: Any = None
        self.lock = threading.RLock()

    @property
    def model(self) -> Any:  # noqa: ANN401 -- the library is an extra
        with self.lock:
            if self._model is None:
                try:
                    model = self._load()
                except Exception as error:  # the library's and the hub's errors have no common base
                    reason = " ".join(str(error).split())[:300]
                    raise ModelNotAvailableError(f"{self._name} can't be loaded: {reason}") from error
                limit = model.max_seq_length or self._cap + SPECIAL_TOKENS
                model.max_seq_length = min(limit, self._cap + SPECIAL_TOKENS)
                self._model = model
            return self._model

    @property
    def max_tokens(self) -> int:
        return int(self.model.max_seq_length) - SPECIAL_TOKENS

    def count_tokens(self, text: str) -> int:
        with self.lock:
            encoded = self.model.tokenizer(safe(text), add_special_tokens=False, truncation=False, verbose=False)
            return len(encoded["input_ids"])

    def run(self, work: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        with self.lock:
            model = self.model
            try:
                return work(model)
            except Exception as error:  # torch's errors have no common base
                reason = " ".join(str(error).split())[:300]
                raise ModelOutputError(f"{self._name} failed: {reason}") from error


class SentenceTransformersEmbedder:
    """A `SentenceTransformer` as an `Embedder`; `open` finds one by name. Threads may share one object.

    Args:
        load: makes the model; called once, at the first use that needs it.
        name: what it is called.
        identity: of the weights, part of the fingerprint.
        dimension: of a vector; None asks the model, which loads it.
        query_prompt: put before a query; None takes the model's own prompt for queries, if it has one.
        document_prompt: likewise for documents.
        max_tokens: of a text that are read, where the model could read more; longer ones are passages.
        dtype: of the arithmetic, part of the fingerprint. With two bytes, a vector moves by about 1e-2 with the company
            it is embedded in.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        *,
        name: str,
        identity: str | Callable[[], str],
        dimension: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        max_tokens: int = MAX_TOKENS,
        dtype: Dtype = "float32",
    ) -> None:
        self._loaded = _Loaded(load, name, max_tokens)
        self._name, self._identity, self._dimension, self._dtype = name, identity, dimension, dtype
        self._prompts = {"query": query_prompt, "document": document_prompt}

    @classmethod
    def open(
        cls,
        place: str,
        *,
        name: str | None = None,
        revision: str | None = None,
        dimension: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        max_tokens: int = MAX_TOKENS,
        dtype: Dtype = "float32",
    ) -> SentenceTransformersEmbedder:
        """The model at `place` (see `Weights`); nothing is downloaded, and nothing loaded before the first use.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ModelNotAvailableError: the weights are not on this machine.
        """
        name = name or f"st:{place}"
        require_library(name)
        weights = Weights(place, default_revision=revision)
        return cls(
            lambda: _in_dtype(_load("SentenceTransformer", weights), dtype),
            name=name,
            identity=lambda: weights.identity,
            dimension=dimension,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            max_tokens=max_tokens,
            dtype=dtype,
        )

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Weights, arithmetic, stated prompts and dimension; a model's own prompts come with its weights."""
        identity = self._identity if isinstance(self._identity, str) else self._identity()
        stated = "\0".join(f"{kind}={prompt}" for kind, prompt in self._prompts.items() if prompt is not None)
        prompts = f":p{hashlib.blake2b(stated.encode(), digest_size=4).hexdigest()}" if stated else ""
        return f"st:{identity}:{self._dtype}{prompts}:{self.dimension}"

    @property
    def dimension(self) -> int:
        """Columns of a vector; loads the model where it was not given."""
        if self._dimension is None:
            model = self._loaded.model
            ask = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
            self._dimension = int(ask())
        return self._dimension

    @property
    def max_tokens(self) -> int:
        """Tokens that are read of a text, special ones not counted; loads the model."""
        return self._loaded.max_tokens

    def count_tokens(self, text: str) -> int:
        """By the model's own tokenizer."""
        return self._loaded.count_tokens(text)

    def embed(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """Unit vectors, float32, shape (len(texts), dimension), row i for texts[i].

        Raises:
            ModelNotAvailableError: the model can't be loaded.
            ModelOutputError: it failed, or gave another shape, values that are not finite, or zeros.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        given = [safe(text) for text in texts]
        raw = self._loaded.run(
            lambda model: model.encode(
                given,
                prompt=self._prompt(model, kind),
                batch_size=BATCH,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
        )
        vectors: NDArray[np.float32] = np.asarray(raw, np.float32)
        if vectors.shape != (len(texts), self.dimension):
            expected = (len(texts), self.dimension)
            raise ModelOutputError(f"{self._name} gave vectors of shape {vectors.shape}, expected {expected}")
        norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        if not (np.abs(norms - 1) <= NORM_TOLERANCE).all():
            bad = int(np.flatnonzero(~(np.abs(norms[:, 0] - 1) <= NORM_TOLERANCE))[0])
            raise ModelOutputError(f"{self._name}: text {bad + 1} of {len(texts)} has no finite vector of length 1")
        unit: NDArray[np.float32] = (vectors / norms).astype(np.float32)
        return unit

    def _prompt(self, model: Any, kind: Kind) -> str:  # noqa: ANN401
        """What is put before a text; "" tells the library to put nothing, not even a default of its own."""
        stated = self._prompts[kind]
        if stated is not None:
            return stated
        own = getattr(model, "prompts", None) or {}
        return str(own.get(kind) or (own.get("passage") if kind == "document" else "") or "")


class SentenceTransformersSparseEncoder:
    """A `SparseEncoder` of sentence-transformers (SPLADE and its kind); `open` finds one by name.

    Args:
        load: makes the model; called once, at the first use that needs it.
        name: what it is called.
        identity: of the weights, part of the fingerprint.
        max_tokens: of a text that are read, where the model could read more.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        *,
        name: str,
        identity: str | Callable[[], str],
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        self._loaded = _Loaded(load, name, max_tokens)
        self._name, self._identity = name, identity

    @classmethod
    def open(
        cls, place: str, *, name: str | None = None, max_tokens: int = MAX_TOKENS
    ) -> SentenceTransformersSparseEncoder:
        """The model at `place` (see `Weights`); nothing is downloaded, and nothing loaded before the first use.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ModelNotAvailableError: the weights are not on this machine.
        """
        name = name or f"st:{place}"
        require_library(name)
        weights = Weights(place)
        return cls(
            lambda: _in_dtype(_load("SparseEncoder", weights), "float32"),
            name=name,
            identity=lambda: weights.identity,
            max_tokens=max_tokens,
        )

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Of the weights."""
        identity = self._identity if isinstance(self._identity, str) else self._identity()
        return f"st-sparse:{identity}"

    @property
    def max_tokens(self) -> int:
        """Tokens that are read of a text, special ones not counted; loads the model."""
        return self._loaded.max_tokens

    def count_tokens(self, text: str) -> int:
        """By the model's own tokenizer."""
        return self._loaded.count_tokens(text)

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> list[SparseVector]:
        """A vector for each text, in order, by the model's own way for queries or documents.

        Raises:
            ModelNotAvailableError: the model can't be loaded.
            ModelOutputError: it failed, or gave another count or weights that are not finite.
        """
        if not texts:
            return []
        given = [safe(text) for text in texts]

        def encode(model: Any) -> tuple[int, NDArray[np.int64], NDArray[np.float32]]:  # noqa: ANN401
            way = model.encode_query if kind == "query" else model.encode_document
            tensor = way(
                given, batch_size=BATCH, show_progress_bar=False, convert_to_tensor=True, convert_to_sparse_tensor=True
            )
            tensor = tensor.coalesce().cpu()
            return tensor.shape[0], tensor.indices().numpy(), tensor.values().float().numpy()

        rows, places, weights = self._loaded.run(encode)
        if rows != len(texts) or not np.isfinite(weights).all():
            raise ModelOutputError(f"{self._name} gave {rows} vectors for {len(texts)} texts, or weights not finite")
        keep = weights > 0
        row, term, weights = places[0][keep], places[1][keep], weights[keep]
        bounds = np.searchsorted(row, np.arange(len(texts) + 1))
        return [
            SparseVector(term[start:end].astype(np.int64), weights[start:end].astype(np.float32))
            for start, end in itertools.pairwise(bounds.tolist())
        ]


def _in_cache(repo: str, file: str, revision: str | None) -> str | None:
    import huggingface_hub

    found = huggingface_hub.try_to_load_from_cache(repo, file, revision=revision)
    return found if isinstance(found, str) else None


def _load(kind: str, weights: Weights) -> Any:  # noqa: ANN401
    library = importlib.import_module("sentence_transformers")
    return getattr(library, kind)(
        weights.source, revision=weights.revision, local_files_only=True, trust_remote_code=False
    )


def _in_dtype(model: Any, dtype: Dtype) -> Any:  # noqa: ANN401
    """The model with all its weights in one type; checkpoints come in any."""
    return {"float32": model.float, "bfloat16": model.bfloat16, "float16": model.half}[dtype]()
