"""Pack the records of experiments as they are published: packed.json.xz beside each records.jsonl, which it stands for.

python benchmarks/pack.py benchmarks/raw_turns/results/*
"""

from __future__ import annotations

import sys
from pathlib import Path

from backread.bench.journal import read_records
from backread.bench.packing import PACKED, pack


def main(folders: list[str]) -> None:
    for folder in map(Path, folders):
        print(f"{pack(read_records(folder), folder / PACKED):>10,} bytes  {folder / PACKED}")


if __name__ == "__main__":
    main(sys.argv[1:])
