"""Retrieval without an LLM, measured on LoCoMo and LongMemEval through the objects users run.

    python benchmarks/retrieval_quality.py locomo10.json --json
    python benchmarks/retrieval_quality.py longmemeval_s.json --format longmemeval --limit 100

LoCoMo: categories 1-4 with resolvable gold (n = 1,536). R@k is the share of a question's gold turns among the k best
turns; AllEvidence@k whether all of them are; Success@k whether one of the k first sessions, in the order of their best
turn, holds a gold turn. Means are over questions. "tuning" are the conversations the constants of the default were
fitted on, "held_out" the others. LongMemEval: answerable questions; sessions are the level its labels are sure of.

The store is kept in the user's cache directory by the data's hash, so that a second run embeds nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from rich.progress import Progress

import backread
from backread.importers import Imported, Question, importer
from backread.memory import Memory
from backread.retrieval.registry import RETRIEVERS, create_retriever
from backread.store.history import Scope
from backread.types import Turn

TUNING = ("conv-26", "conv-41", "conv-43", "conv-47", "conv-49")
DEPTHS = (1, 5, 10, 20)


def load(memory: Memory, data: Imported, users: set[str], progress: Progress) -> None:
    """Import what is not there yet and embed it."""
    task = progress.add_task("import", total=None)
    for session in data.sessions:
        if session.user_id in users:
            memory.add_turns(session.turns, user_id=session.user_id)
            progress.advance(task)
    task = progress.add_task("embed", total=memory.pending())
    for user in sorted(users):
        memory.index(user_id=user, on_progress=lambda done: progress.advance(task, done))


def measure(ranked: Sequence[Turn], question: Question) -> dict[str, float]:
    """Measures of one ranking."""
    ids = [turn.external_id for turn in ranked]
    sessions = list(dict.fromkeys(turn.session_id for turn in ranked))
    gold = set(question.gold_turns)
    row: dict[str, float] = {}
    for k in DEPTHS:
        found = gold & set(ids[:k])
        if gold:
            row[f"turn_r@{k}"] = len(found) / len(gold)
            row[f"turn_all@{k}"] = float(found == gold)
        wanted = set(question.gold_sessions)
        row[f"session_success@{k}"] = float(bool(wanted & set(sessions[:k])))
        row[f"session_all@{k}"] = float(wanted <= set(sessions[:k]))
    return row


def run(memory: Memory, questions: Sequence[Question], mode: str, roles: Sequence[str] | None) -> list[dict[str, Any]]:
    """One record a question: its measures and milliseconds, the query's embedding included."""
    retriever = create_retriever(mode, memory.embedder)
    records = []
    turns: dict[str, dict[str, Turn]] = {}
    with Progress(transient=True) as progress:
        for question in progress.track(questions, description=mode):
            history = memory.history(question.user_id)
            if question.user_id not in turns:
                turns = {question.user_id: {turn.turn_id: turn for turn in history.turns()}}
            corpus = history.corpus("turn", Scope(roles=roles))
            started = time.perf_counter()
            ranking = retriever.search(corpus, question.question, max(1, corpus.size))
            seconds = time.perf_counter() - started
            ranked = [turns[question.user_id][item.unit_id] for item in ranking.items]
            records.append(
                {
                    "question_id": question.question_id,
                    "user_id": question.user_id,
                    "type": question.question_type,
                    "ms": 1000 * seconds,
                    **measure(ranked, question),
                }
            )
    return records


def summary(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means over records."""
    names = [name for name in records[0] if "@" in name] if records else []
    means = {name: float(np.mean([record[name] for record in records])) for name in names}
    times = [record["ms"] for record in records]
    return {"n": len(records), **means, "ms_per_query": float(np.median(times)) if times else float("nan")}


def report(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All, per type, and the split of LoCoMo's conversations."""
    out: dict[str, Any] = summary(records)
    types = sorted({record["type"] for record in records})
    out["types"] = {kind: summary([record for record in records if record["type"] == kind]) for kind in types}
    if any(record["user_id"] in TUNING for record in records):
        out["tuning"] = summary([record for record in records if record["user_id"] in TUNING])
        out["held_out"] = summary([record for record in records if record["user_id"] not in TUNING])
    return out


def show(name: str, result: Mapping[str, Any]) -> None:
    """A table a terminal can hold."""
    columns = ["turn_r@1", "turn_r@5", "turn_r@10", "turn_all@10", "session_success@5", "session_all@10"]
    columns = [column for column in columns if column in result]
    print(f"\n{name}\n{'':<28}{'n':>6}" + "".join(f"{column:>19}" for column in columns))
    split = {part: result[part] for part in ("tuning", "held_out") if part in result}
    rows = {"all": result, **split, **result["types"]}
    for label, row in rows.items():
        print(f"{label:<28}{row['n']:>6}" + "".join(f"{row[column]:>19.3f}" for column in columns))
    print(f"median {result['ms_per_query']:.1f} ms a query")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--format", choices=["locomo", "longmemeval"], default="locomo")
    parser.add_argument("--mode", choices=[*RETRIEVERS, "all"], default="hybrid")
    parser.add_argument("--limit", type=int, help="first questions only, evenly spread over the file")
    parser.add_argument("--roles", nargs="+", help="only turns of these roles")
    parser.add_argument("--store", type=Path, help="where the store is kept")
    parser.add_argument("--records", type=Path, help="write one JSON line a question here: ids and numbers, no text")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    data = importer(args.format)(args.file)
    questions = [q for q in data.questions if not q.abstention and q.gold_turns]
    if args.limit and args.limit < len(questions):
        questions = [questions[round(i * len(questions) / args.limit)] for i in range(args.limit)]
    cache = Path(platformdirs.user_cache_dir("backread")) / "benchmarks" / f"{data.report.sha256[:16]}.db"
    with Memory.open(args.store or cache) as memory, Progress(transient=True) as progress:
        if memory.embedder is None and args.mode not in ("bm25", "hybrid"):
            print("no embedder: run `backread models fetch minilm`", file=sys.stderr)
            return 5
        load(memory, data, {q.user_id for q in questions}, progress)
        progress.stop()
        results = {}
        for mode in RETRIEVERS if args.mode == "all" else [args.mode]:
            records = run(memory, questions, mode, args.roles)
            if args.records:
                with args.records.open("a", encoding="utf-8") as out:
                    out.writelines(json.dumps({"mode": mode, **record}) + "\n" for record in records)
            embedder = None if memory.embedder is None else memory.embedder.fingerprint
            results[mode] = {
                "mode": mode,
                "data": data.report.sha256,
                "backread": backread.__version__,
                "embedder": embedder,
                "roles": args.roles,
                **report(records),
            }
    if args.json:
        print(json.dumps(results if args.mode == "all" else results[args.mode], indent=1))
    else:
        for mode, result in results.items():
            show(mode, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
