"""Embedders by name: opening one never connects, downloads or loads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from backread.errors import InvalidInputError, MissingExtraError, ModelNotAvailableError, NotFoundError
from backread.models.embedders import EMBEDDERS, PRESETS, QWEN3_QUERY, open_embedder
from backread.models.openai_embeddings import OpenAIEmbedder


def test_names_are_listed() -> None:
    assert EMBEDDERS == ("bge-m3", "minilm", "qwen3-0.6b", "qwen3-4b", "qwen3-8b")
    with pytest.raises(NotFoundError, match="bge-m3, minilm, qwen3") as caught:
        open_embedder("minilm-l6", directory=Path("nowhere"))
    assert "st:ORG/NAME" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["st:", "openai:", "", "st", "hub:model"])
def test_names_that_name_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        open_embedder(name, directory=tmp_path)


@pytest.mark.parametrize("name", [*PRESETS, "st:org/name", "st:org/name@main"])
def test_a_missing_library_is_named_with_the_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'backread\[sentence-transformers\]'"):
        open_embedder(name, directory=tmp_path)


def test_missing_weights_are_named_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelNotAvailableError) as caught:
        open_embedder("minilm", directory=tmp_path)
    assert caught.value.hint == "backread models fetch minilm"


@pytest.mark.parametrize(
    ("name", "called", "dimension"),
    [
        ("openai:nomic-embed-text@768", "openai:nomic-embed-text", 768),
        ("openai:text-embedding-3-large", "openai:text-embedding-3-large", 3072),
        ("openai:nomic-embed-text:latest@64", "openai:nomic-embed-text:latest", 64),
    ],
)
def test_endpoints_open_without_a_connection(name: str, called: str, dimension: int, tmp_path: Path) -> None:
    # CFG-01; the network is blocked in tests
    embedder = open_embedder(name, directory=tmp_path, base_url="http://127.0.0.1:9902/v1")
    assert (embedder.name, embedder.dimension) == (called, dimension)
    assert embedder.fingerprint == f"{called}:{dimension}"


def test_an_at_sign_may_belong_to_the_model(tmp_path: Path) -> None:
    assert open_embedder("openai:me@home", directory=tmp_path, base_url="http://h").name == "openai:me@home"
    with pytest.raises(InvalidInputError):
        open_embedder("openai:@12", directory=tmp_path, base_url="http://h")


def test_qwen3_behind_an_endpoint_has_its_prompt(tmp_path: Path) -> None:
    embedder = open_embedder("openai:Qwen/Qwen3-Embedding-8B@4096", directory=tmp_path, base_url="http://h")
    assert isinstance(embedder, OpenAIEmbedder)
    assert embedder._query_prompt == QWEN3_QUERY
    assert embedder.fingerprint.startswith("openai:Qwen/Qwen3-Embedding-8B:q")


def test_presets_state_their_prompts() -> None:
    assert QWEN3_QUERY.endswith("\nQuery:")
    assert {name: preset.query_prompt for name, preset in PRESETS.items() if preset.query_prompt} == dict.fromkeys(
        ("qwen3-0.6b", "qwen3-4b", "qwen3-8b"), QWEN3_QUERY
    )
    assert all(len(preset.revision) == 40 for preset in PRESETS.values())
