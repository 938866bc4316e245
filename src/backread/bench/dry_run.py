"""What an experiment would send to models, without asking one.

Every call is made as in a real run and answered by a stand-in: the smallest reply that its format allows. It acts once
where a design lets a model choose to go on, and then ends; it keeps everything it is asked to keep. Input tokens are
estimates of what was really put together; output is only bounded, by the limits of the calls.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backread.bench.datasets import Dataset, fill
from backread.bench.experiment import run_experiment
from backread.bench.journal import read_records
from backread.bench.measures.cost import added
from backread.bench.opening import open_bench
from backread.bench.records import BuildRecord, PurposeUsage, QuestionRecord
from backread.bench.spec import ExperimentSpec
from backread.models.base import ChatMessage, ChatModel, ChatReply
from backread.models.context_window import estimate_prompt
from backread.models.roles import ChatRoles
from backread.settings import Settings
from backread.strategies.search_o1.chain import BEGIN_QUERY, END_QUERY
from backread.types import Usage

__all__ = ["Estimate", "StandIn", "dry_run"]

_BUSY: Final = ("KEEP", "ReadRaw", "event", "update", "correct")
"""What a stand-in chooses where it is offered."""

_ENDS: Final = "Answer"
"""What it chooses the second time where that ends a loop."""

_WORDS: Final = "one fact from the conversation in a dozen words with a name and date"
_NUMBER: Final = re.compile(r"\[(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one design in one cell, or its write-time work, takes.

    Attributes:
        what: a cell's name, or "build" and the design's.
        per: how many questions, or histories, the numbers are means over.
        usage: means by purpose; output tokens are at most these.
    """

    what: str
    per: int
    usage: tuple[PurposeUsage, ...]


class StandIn:
    """A `ChatModel` that replies by the format asked for; thread-safe.

    Usage has the estimate of the prompt's tokens, and as output the limit of the call.

    Args:
        name: of the model it stands in for.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """The smallest reply the schema allows; without one a sentence, or a search where searching is offered."""
        if schema is not None:
            text = json.dumps(self._value(schema, schema, messages[-1].content))
        else:
            text = _searched_once(messages)
        usage = Usage(purpose, self._name, input_tokens=estimate_prompt(messages), output_tokens=max_tokens)
        return ChatReply(text, "stop", usage)

    def _value(self, node: Mapping[str, Any], root: Mapping[str, Any], asked: str, number: int = 1) -> Any:  # noqa: ANN401
        if "$ref" in node:
            return self._value(root["$defs"][node["$ref"].rsplit("/", 1)[1]], root, asked, number)
        for key in ("anyOf", "oneOf", "allOf"):
            if key in node:
                return self._value(node[key][0], root, asked, number)
        if "const" in node:
            return node["const"]
        if "enum" in node:
            return self._chosen(node["enum"], asked)
        kind = node.get("type")
        if kind == "object":
            return {name: self._value(part, root, asked, number) for name, part in node.get("properties", {}).items()}
        if kind == "array":
            count = max(1, node.get("minItems", 1))
            return [self._value(node.get("items", {}), root, asked, place) for place in range(1, count + 1)]
        if kind in ("integer", "number"):
            return self._number(node, asked, number)
        return False if kind == "boolean" else None if kind == "null" else _WORDS

    def _number(self, node: Mapping[str, Any], asked: str, number: int) -> int:
        """The place in a list where there are bounds, else a number that the prompt offers."""
        if "minimum" in node or "maximum" in node:
            least = int(node.get("minimum", 1))
            return min(max(least, number), int(node.get("maximum", max(least, number))))
        found = _NUMBER.search(asked)
        return int(found[1]) if found else number

    def _chosen(self, options: Sequence[Any], asked: str) -> Any:  # noqa: ANN401 -- of the schema
        if _ENDS in options:
            question = asked.rsplit("Question:", 1)[-1].split("\n", 1)[0]
            with self._lock:
                self._asked[question] += 1
                if self._asked[question] % 2 == 0:
                    return _ENDS
        return next((option for option in _BUSY if option in options), options[0])


def _searched_once(messages: Sequence[ChatMessage]) -> str:
    """A search, where the prompt says how to search and there was none yet."""
    offered = any(message.role == "system" and BEGIN_QUERY in message.content for message in messages)
    searched = any(message.role == "assistant" for message in messages)
    return f"{BEGIN_QUERY}{_WORDS}{END_QUERY}" if offered and not searched else _WORDS


def dry_run(spec: ExperimentSpec, dataset: Dataset, settings: Settings, *, limit: int | None = None) -> list[Estimate]:
    """What the models of an experiment would be sent, for each cell and each design's write-time work.

    Nothing is kept: entries that stand-ins built are in a store that is thrown away.

    Args:
        spec: the experiment; a role without a model makes no call.
        dataset: of `spec.dataset`.
        settings: folders and limits.
        limit: only the first questions of the dataset.
    """
    named = {role: name for role, name in spec.models.model_dump().items() if name is not None}
    models: dict[str, ChatModel] = {name: StandIn(name) for name in named.values()}
    roles = ChatRoles(**{role: models[name] for role, name in named.items()})
    with tempfile.TemporaryDirectory(prefix="backread-dry-run-") as folder:
        out = Path(folder) / "out"
        with open_bench(spec, dataset, settings, store=Path(folder) / "store.db", roles=roles) as memory:
            fill(memory, dataset)
            run_experiment(spec, dataset, memory, out, command="dry run", limit=limit)
        records = read_records(out)
    return [*_builds(records), *_cells(records)]


def _builds(records: Sequence[object]) -> Iterator[Estimate]:
    builds = [record for record in records if isinstance(record, BuildRecord) and record.usage]
    for strategy in dict.fromkeys(record.strategy for record in builds):
        own = [record for record in builds if record.strategy == strategy]
        yield _mean(f"build {strategy}", [record.usage for record in own])


def _cells(records: Sequence[object]) -> Iterator[Estimate]:
    asked = [record for record in records if isinstance(record, QuestionRecord)]
    for cell in dict.fromkeys(record.cell.name for record in asked):
        yield _mean(cell, [record.usage for record in asked if record.cell.name == cell])


def _mean(what: str, usages: Sequence[Sequence[PurposeUsage]]) -> Estimate:
    """Means over all, those that made no call included."""
    count = len(usages)
    rows = added(row for usage in usages for row in usage)
    return Estimate(
        what,
        count,
        tuple(
            row.model_copy(
                update={
                    "calls": row.calls,
                    "input_tokens": round((row.input_tokens or 0) / count),
                    "output_tokens": round((row.output_tokens or 0) / count),
                    "cost": None,
                    "seconds": None,
                    "unpriced": 0,
                }
            )
            for row in rows
        ),
    )
