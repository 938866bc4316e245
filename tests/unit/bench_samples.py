"""Records of made-up experiments, for the tests that read them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from backread.bench.attribution import attribute
from backread.bench.records import (
    BuildRecord,
    ConfigRecord,
    Failure,
    Manifest,
    PurposeUsage,
    QuestionRecord,
    Record,
    ShownLine,
)
from backread.bench.results import Results, of_records
from backread.bench.spec import Cell, DesignSpec

SHA: Final = "d" * 64
PLAIN: Final = Cell(strategy="plain", retriever="bm25", budget=200)
FANCY: Final = Cell(strategy="fancy", retriever="bm25", budget=200)


def manifest(designs: Sequence[DesignSpec] = (), **dataset: Any) -> Manifest:
    given = designs or [
        DesignSpec(strategy=cell.strategy, retrievers=("bm25",), budgets=(200,)) for cell in (PLAIN, FANCY)
    ]
    return Manifest(
        spec_hash="s1",
        spec={"name": "made-up", "designs": [design.model_dump(mode="json") for design in given]},
        dataset={"name": "made-up", "sha256": SHA} | dataset,
        versions={"python": "3.11.9", "backread": "0.1.0"},
        embedder=None,
        command="backread bench run made-up.toml",
        started_at="2024-01-01T00:00:00+00:00",
    )


def question(number: int, cell: Cell = PLAIN, **changes: Any) -> QuestionRecord:
    given: dict[str, Any] = {
        "spec_hash": "s1",
        "data_sha256": SHA,
        "backread": "0.1.0",
        "cell": cell,
        "question_id": f"q{number:03}",
        "user_id": "ann",
        "question_type": "fact",
        "abstention": False,
        "status": "ok",
    }
    return QuestionRecord(**given | changes)


def failed(number: int, cell: Cell = PLAIN, **changes: Any) -> QuestionRecord:
    failure = Failure(stage="answer", error="ModelRequestError", message="the endpoint is down")
    return question(number, cell, status="error", failure=failure, **changes)


def judged(number: int, verdict: str, cell: Cell = PLAIN, **changes: Any) -> QuestionRecord:
    return question(number, cell, verdicts={"strict": verdict}, **changes)


def used(purpose: str, calls: int = 1, sent: int | None = 100, got: int | None = 10, **changes: Any) -> PurposeUsage:
    given: dict[str, Any] = {
        "purpose": purpose,
        "models": ("m",),
        "calls": calls,
        "input_tokens": sent,
        "output_tokens": got,
        "cost": None,
        "seconds": None,
        "unpriced": calls,
        "uncounted": 0 if sent is not None else calls,
    }
    return PurposeUsage(**given | changes)


def built(user_id: str, strategy: str = "fancy", **changes: Any) -> BuildRecord:
    given: dict[str, Any] = {
        "spec_hash": "s1",
        "data_sha256": SHA,
        "backread": "0.1.0",
        "strategy": strategy,
        "user_id": user_id,
        "put": 10,
        "dropped": 0,
        "seconds": 2.0,
    }
    return BuildRecord(**given | changes)


def results(records: Iterable[Any], designs: Sequence[DesignSpec] = (), **dataset: Any) -> Results:
    return of_records(manifest(designs, **dataset), records)


# --- an experiment of realistic size

DESIGNS: Final = (
    DesignSpec(
        strategy="naive_rag", retrievers=("bm25", "hybrid"), depths=(3, 5, 10), budgets=(330, 500, 935), oracle=True
    ),
    DesignSpec(strategy="lightmem", retrievers=("bm25", "hybrid"), depths=(3, 5, 6, 10, 20), budgets=(330, 500, 935)),
    DesignSpec(strategy="t2mem", budgets=(330, 500, 935)),
)
_TYPES: Final = ("multi-hop", "open-domain", "single-hop", "temporal")
_UNIT: Final = {"naive_rag": 95, "lightmem": 50, "t2mem": 120}
_SKILL: Final = {"naive_rag": 0.0, "lightmem": 0.05, "t2mem": 0.12}


def large(questions: int = 200, users: int = 8, seed: int = 1) -> Results:
    """Three designs over made-up questions, with failures, unreadable verdicts, disputed keys and abstention."""
    chance = random.Random(seed)
    cells = [cell for design in DESIGNS for cell in design.cells()]
    difficulty = [chance.gauss(0, 0.15) for _ in range(questions)]
    records: list[Record] = [
        built(
            f"user-{user}",
            strategy,
            put=chance.randint(40, 90),
            seconds=chance.uniform(60, 90),
            usage=(used("build", 117, chance.randint(90_000, 110_000), chance.randint(9_000, 12_000)),),
        )
        for strategy in ("lightmem", "t2mem")
        for user in range(users)
    ]
    for number in range(questions):
        records += _asked(number, f"user-{number // 4 % users}", cells, difficulty[number], chance)
    for cell in cells:
        config = {"strategy": cell.strategy, "retriever": cell.retriever, "depth": cell.depth}
        records.append(ConfigRecord(spec_hash="s1", config_hash=f"c-{cell.name}", config=config))
    disputed = {f"q{number:03}": "HALLUCINATION" for number in range(0, questions, 16)}
    return of_records(
        manifest(
            DESIGNS,
            name="locomo10.json",
            benchmark="locomo",
            questions=questions,
            users=users,
            roles=None,
            notes=["Adversarial questions are left out: the benchmark has no answer key for them."],
            disputed=disputed,
        ),
        records,
    )


def _asked(
    number: int, user: str, cells: Sequence[Cell], ease: float, chance: random.Random
) -> Iterator[QuestionRecord]:
    kind = _TYPES[number % 4]
    abstention = number % 25 == 24
    gold = () if abstention or number % 40 == 7 else tuple(f"D1:{number + i}" for i in range(1 + number % 3))
    shared = {"user_id": user, "question_type": kind, "abstention": abstention, "gold_turns": gold}
    for place, cell in enumerate(cells):
        if chance.random() < 0.004:
            yield failed(number, cell, **shared)
            continue
        yield _answered(number, cell, ease + 0.08 * _TYPES.index(kind), gold, shared, place == 0, chance)


def _answered(
    number: int,
    cell: Cell,
    ease: float,
    gold: Sequence[str],
    shared: dict[str, Any],
    control: bool,
    chance: random.Random,
) -> QuestionRecord:
    size = cell.budget or (cell.depth or len(gold)) * _UNIT[cell.strategy]
    tokens = min(size, 4000) - chance.randint(0, 40 if cell.budget else 20)
    share = _share(cell, size, ease + chance.gauss(0, 0.2))
    seen = [turn for turn in gold if chance.random() < 0.4 + 0.6 * share]
    shown = [turn for turn in seen if chance.random() < 0.3 + 0.7 * share]
    right = chance.random() < 0.15 + 0.75 * share
    lenient = "correct" if right or chance.random() < 0.25 else "incorrect"
    measures = {"coverage:verbatim": 0.6 * share, "coverage:words": share, "F1": 0.2 + 0.5 * share} if gold else {}
    if cell.depth is None and cell.strategy == "naive_rag" and gold:
        measures |= {"turn:R@5": share, "turn:Success@5": float(share > 0.4), "turn:RR": share}
    record = question(
        number,
        cell,
        **shared,
        tokens=tokens,
        counter="estimate",
        config_hash=f"c-{cell.name}",
        models={"answer": "tiny-1b", "judge": "big-70b"},
        prompts={"answer": "a1b2", "judge:strict": "c3d4"},
        gold_considered=tuple(seen),
        shown=tuple(ShownLine(kind="verbatim", rank=r, sources=((turn, 0, None),)) for r, turn in enumerate(shown)),
        measures=measures,
        usage=(
            *((used("recall", 2, 3000, 200),) if cell.strategy == "t2mem" else ()),
            used("answer", 1, tokens + 150, 25, seconds=0.8),
            used("judge", 2, 500, 20),
        ),
        seconds={"recall": chance.uniform(0.01, 0.05), "answer": chance.uniform(0.5, 1.2)},
        verdicts={"strict": "correct" if right else "incorrect", "lenient": lenient},
        control={"strict": _passed(chance, 0.05), "lenient": _passed(chance, 0.4)} if control else {},
        degraded=(("window", "the model's context window holds only part of the evidence", 3),)
        if number % 50 == 3
        else (),
    )
    return record.model_copy(update={"attribution": attribute(record)})


def _share(cell: Cell, size: int, luck: float) -> float:
    """How much of the gold is shown: more for more tokens, less for long entries."""
    if cell.retriever == "oracle":
        return 1.0
    skill = _SKILL[cell.strategy] + 0.06 * (cell.retriever == "hybrid")
    return min(
        1.0, max(0.0, 0.25 + 0.35 * size / 935 + skill + luck - 0.08 * (cell.strategy == "lightmem" and size > 700))
    )


def _passed(chance: random.Random, rate: float) -> str:
    return "correct" if chance.random() < rate else "incorrect"
