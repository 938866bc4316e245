"""Models of sentence-transformers, with a stand-in for the library: it is an extra, and heavy."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import MissingExtraError, ModelNotAvailableError, ModelOutputError
from backread.models.base import Embedder, SparseEncoder
from backread.models.sentence_transformers import (
    SentenceTransformersEmbedder,
    SentenceTransformersSparseEncoder,
    Weights,
)
from backread.testing.contracts_models import EmbedderContract, SparseEncoderContract

SIZE = 16
INSTALLED = importlib.util.find_spec("sentence_transformers") is not None


def tokens(text: str) -> list[str]:
    return text.split()


class Tokenizer:
    def __call__(self, text: str, **options: object) -> dict[str, list[int]]:
        assert options == {"add_special_tokens": False, "truncation": False, "verbose": False}
        return {"input_ids": [len(word) for word in tokens(text)]}


class Model:
    """What the adapters use of a model of the library; a text is the hash of the words that are read."""

    def __init__(self, **changes: Any) -> None:
        self.max_seq_length: int | None = 256
        self.prompts: dict[str, str] = {}
        self.tokenizer = Tokenizer()
        self.calls: list[tuple[list[str], str]] = []
        self.spoil: Callable[[NDArray[np.float32]], Any] | None = None
        for name, value in changes.items():
            setattr(self, name, value)

    def get_sentence_embedding_dimension(self) -> int:
        return SIZE

    def encode(self, texts: Sequence[str], *, prompt: str, **options: object) -> Any:
        assert options == {
            "batch_size": 32,
            "show_progress_bar": False,
            "convert_to_numpy": True,
            "normalize_embeddings": True,
        }
        self.calls.append((list(texts), prompt))
        vectors = np.stack([self.vector(prompt + text) for text in texts])
        return vectors if self.spoil is None else self.spoil(vectors)

    def vector(self, text: str) -> NDArray[np.float32]:
        assert self.max_seq_length is not None
        read = " ".join(tokens(text)[: self.max_seq_length - 2])
        values = np.frombuffer(hashlib.sha256(read.encode()).digest()[:SIZE], np.uint8).astype(np.float32) - 127.5
        return values / np.linalg.norm(values)

    # what a SparseEncoder has

    def encode_query(self, texts: Sequence[str], **options: object) -> Tensor:
        return self.encode_document(texts, **options)

    def encode_document(self, texts: Sequence[str], **options: object) -> Tensor:
        assert self.max_seq_length is not None
        rows = [sorted({len(word) for word in tokens(text)[: self.max_seq_length - 2]}) for text in texts]
        places = [(row, term) for row, terms in enumerate(rows) for term in terms]
        values = np.array([1 + term / 10 for _, term in places], np.float32)
        return Tensor(len(texts), np.array(places, np.int64).reshape(-1, 2).T, values)


class Tensor:
    def __init__(self, rows: int, indices: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        self.shape, self._indices, self._values = (rows, 100), indices, values

    def coalesce(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def indices(self) -> Array:
        return Array(self._indices)

    def values(self) -> Array:
        return Array(self._values)


class Array:
    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array

    def float(self) -> Array:
        return self

    def numpy(self) -> NDArray[Any]:
        return self.array


def embedder(model: Model | None = None, **options: Any) -> SentenceTransformersEmbedder:
    made = model or Model()
    return SentenceTransformersEmbedder(lambda: made, **({"name": "st:mine", "identity": "mine@1"} | options))


class TestContract(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return embedder()


class TestSparseContract(SparseEncoderContract):
    @pytest.fixture
    def encoder(self) -> SparseEncoder:
        made = Model()
        return SentenceTransformersSparseEncoder(lambda: made, name="st:mine", identity="mine@1")


def test_nothing_is_loaded_before_the_first_use() -> None:
    loads: list[int] = []

    def load() -> Model:
        loads.append(1)
        return Model()

    made = SentenceTransformersEmbedder(load, name="preset", identity="org/name@abc", dimension=SIZE, query_prompt="Q:")
    assert made.fingerprint.startswith("st:org/name@abc:float32:p")
    assert made.dimension == SIZE
    assert loads == []
    made.embed(["one"])
    made.embed(["one"])
    assert loads == [1]


def test_stated_prompts_go_before_the_models_own() -> None:
    model = Model(prompts={"query": "own: ", "passage": "passage: "})
    embedder(model).embed(["one"], kind="query")
    embedder(model).embed(["one"])
    embedder(model, query_prompt="stated: ", document_prompt="").embed(["one"], kind="query")
    embedder(model, query_prompt="stated: ", document_prompt="").embed(["one"])
    assert [prompt for _, prompt in model.calls] == ["own: ", "passage: ", "stated: ", ""]


def test_what_makes_another_fingerprint() -> None:
    made = [
        embedder().fingerprint,
        embedder(identity="mine@2").fingerprint,
        embedder(query_prompt="Q:").fingerprint,
        embedder(document_prompt="Q:").fingerprint,
        embedder(dtype="bfloat16").fingerprint,
    ]
    assert len(set(made)) == len(made)


def test_the_window_is_capped_and_never_raised() -> None:
    assert embedder().max_tokens == 254
    assert embedder(max_tokens=100).max_tokens == 100
    assert embedder(Model(max_seq_length=None)).max_tokens == 512
    assert embedder(Model(max_seq_length=32768)).max_tokens == 512


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda vectors: vectors[1:], "shape"),
        (lambda vectors: vectors[:, 1:], "shape"),
        (lambda vectors: np.where(np.arange(3)[:, None] == 1, np.nan, vectors), "text 2 of 3"),
        (lambda vectors: np.where(np.arange(3)[:, None] == 2, 0, vectors), "text 3 of 3"),
    ],
)
def test_output_that_is_no_use(spoil: Callable[..., Any], said: str) -> None:
    with pytest.raises(ModelOutputError, match=said):
        embedder(Model(spoil=spoil)).embed(["one", "two", "three"])


def test_errors_of_the_library_are_model_errors() -> None:
    def load() -> Model:
        raise OSError("no config.json")

    def spoil(vectors: NDArray[np.float32]) -> Any:
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(ModelNotAvailableError, match=r"st:mine can't be loaded: no config.json"):
        SentenceTransformersEmbedder(load, name="st:mine", identity="x").embed(["one"])
    with pytest.raises(ModelOutputError, match="CUDA out of memory"):
        embedder(Model(spoil=spoil)).embed(["one"])


@pytest.mark.skipif(INSTALLED, reason="sentence-transformers is installed")
def test_the_extra_is_named() -> None:
    for open_one in (SentenceTransformersEmbedder.open, SentenceTransformersSparseEncoder.open):
        with pytest.raises(MissingExtraError, match="st:org/name needs sentence-transformers") as caught:
            open_one("org/name")
        assert caught.value.hint == "pip install 'backread[sentence-transformers]'"


def test_weights_of_the_hub_are_those_in_the_cache() -> None:
    asked: list[tuple[str, str, str | None]] = []

    def find(repo: str, file: str, revision: str | None) -> str | None:
        asked.append((repo, file, revision))
        return "/cache/models--org--name/snapshots/0123456789abcdef/config.json" if revision != "gone" else None

    weights = Weights("org/name@v2", default_revision="v1", find=find)
    assert (weights.source, weights.revision) == ("org/name", "0123456789abcdef")
    assert weights.identity == "org/name@0123456789ab"
    Weights("org/name", default_revision="v1", find=find)
    Weights("org/name", find=find)
    assert [revision for _, _, revision in asked] == ["v2", "v1", None]
    with pytest.raises(ModelNotAvailableError) as caught:
        Weights("org/name@gone", find=find)
    assert caught.value.hint == "run `hf download org/name --revision gone`"


def test_nothing_in_the_real_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelNotAvailableError, match="not in the hub's cache"):
        Weights("no-such-org/no-such-name@0000")


def test_weights_of_a_folder_are_known_by_their_bytes(tmp_path: Path) -> None:
    with pytest.raises(ModelNotAvailableError, match="holds no model"):
        Weights(str(tmp_path))
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"one")
    first = Weights(str(tmp_path)).identity
    assert Weights(str(tmp_path)).identity == first
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert Weights(str(tmp_path)).identity != first
    assert (Weights(str(tmp_path)).source, Weights(str(tmp_path)).revision) == (str(tmp_path), None)


def test_sparse_weights_below_zero_are_left_out_and_nan_is_an_error() -> None:
    class Odd(Model):
        last = 0.0

        def encode_document(self, texts: Sequence[str], **options: object) -> Tensor:
            return Tensor(2, np.array([[0, 0, 1], [3, 5, 4]]), np.array([1, 0, self.last], np.float32))

    made = SentenceTransformersSparseEncoder(lambda: Odd(last=-1), name="s", identity="x")
    vectors = made.encode(["one", "two"])
    assert [vector.terms.tolist() for vector in vectors] == [[3], []]
    for model, texts in ((Odd(last=np.nan), ["one", "two"]), (Odd(last=1), ["one"])):
        with pytest.raises(ModelOutputError):
            SentenceTransformersSparseEncoder(lambda model=model: model, name="s", identity="x").encode(texts)  # type: ignore[misc]
