"""LightMem: compressed turns are gathered by topic and written down as facts, which are searched. See `PAPER.md`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from backread.construction.compression import RULE, LeaveOutWords, history_weights
from backread.models.base import Attending, ChatModel, Compressor, Embedder
from backread.rendering import fit
from backread.retrieval.base import Retriever
from backread.retrieval.dense import DenseRetriever
from backread.store.history import History
from backread.strategies.base import Context, Need, Parts, StrategySpec
from backread.strategies.lightmem.building import Shelf, build_batches
from backread.strategies.lightmem.facts import FACT, extract_prompt, facts_maker
from backread.strategies.lightmem.pieces import EXTRACT, RECIPE, pieces_maker
from backread.strategies.lightmem.reading import Reading
from backread.strategies.lightmem.recalling import find
from backread.strategies.lightmem.settings import PRESETS, Settings
from backread.strategies.lightmem.updating import update_entries, update_prompt
from backread.strategies.recall import recalled
from backread.strategies.trace import Trace
from backread.types import BuildReport, Degradation, Recall

__all__ = ["SPECS", "LightMem", "Preset"]

Preset = Literal["r6", "r4", "user_only", "faithful"]
"""See `settings.PRESETS`; each has entries of its own."""


class LightMem:
    """Writes facts when turns arrive, one call for each batch of topics, and merges them in `maintain`.

    Without a chat model the sentences of turns stand for facts, and nothing is merged.

    Args:
        retriever: ranks entries, and turns without one.
        build_chat: writes facts and decides on updates.
        embedder: tells topics apart, and which entries are alike; without one a full buffer is one topic and entries
            are not updated.
        compressor: shortens turns before they are read; None leaves out words by rule. The record keeps them whole.
        preset: settings by name, which is part of the strategy's name.
        settings: other settings than the preset's, for experiments; entries are still kept under the preset's name.
    """

    def __init__(
        self,
        retriever: Retriever,
        build_chat: ChatModel | None = None,
        embedder: Embedder | None = None,
        compressor: Compressor | None = None,
        *,
        preset: Preset | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._retriever, self._chat, self._embedder = retriever, build_chat, embedder
        self._compressor, self._preset = compressor, preset
        self._settings = settings or PRESETS[preset]

    @classmethod
    def of(cls, parts: Parts, preset: Preset | None = None) -> Self:
        """With the parts that are there; "faithful" ranks by vectors alone, unless the caller chose a retriever."""
        retriever = parts.retriever
        if PRESETS[preset].as_published and parts.embedder is not None and not parts.fixed_retriever:
            retriever = DenseRetriever(parts.embedder)
        return cls(retriever, parts.build_chat, parts.embedder, parts.compressor, preset=preset)

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return f"lightmem:{self._preset}" if self._preset else "lightmem"

    @property
    def shelf(self) -> Shelf:
        """Where its entries are."""
        if self._chat is not None:
            return Shelf(self.name, FACT, "")
        return Shelf(self.name, EXTRACT, f"{RECIPE}:{self._compressor_fingerprint}")

    @property
    def _compressor_fingerprint(self) -> str:
        return RULE if self._compressor is None else self._compressor.fingerprint

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a result; "form", "compressor" and "topics" say how far it is the design."""
        attends = isinstance(self._compressor, Attending)
        topics = "whole buffer" if self._embedder is None else "similarity and attention" if attends else "similarity"
        own: dict[str, Any] = {
            "strategy": self.name,
            "form": "extractive" if self._chat is None else "facts",
            "compressor": self._compressor_fingerprint,
            "topics": topics,
            "topic_embedder": None if self._embedder is None else self._embedder.fingerprint,
            **asdict(self._settings),
        }
        if self._chat is not None:
            own |= {"build_model": self._chat.name}
            own |= {"prompts": {"extract": extract_prompt().hash, "update": update_prompt().hash}}
        return {**self._retriever.config, **own}

    def build(self, history: History, ctx: Context, *, flush: bool = False) -> BuildReport:
        """One call for each batch that is new or changed; what is still in the buffers waits, unless `flush`.

        Raises:
            ModelError: the embedder or the compressor could not be asked. What a chat model can't do is in `failed`.
        """
        compressor = self._compressor or LeaveOutWords(history_weights(history.now()))
        reading = Reading(self._settings, compressor, self._embedder)
        make = (
            pieces_maker(reading.shortened, strategy=self.name)
            if self._chat is None
            else facts_maker(self._chat, strategy=self.name)
        )
        return build_batches(history, ctx, make, reading, self._settings, self.shelf, flush=flush)

    def maintain(self, history: History, ctx: Context) -> BuildReport:
        """The offline update of entries by later ones; nothing without a chat model.

        Raises:
            ModelError: the embedder could not be asked.
        """
        if self._chat is None:
            return BuildReport(self.name)
        if self._embedder is None:
            missing = Degradation("update", "there is no embedder: entries were not compared")
            return BuildReport(self.name, degraded=(missing,))
        return update_entries(history, ctx, self._chat, self._embedder, self._settings, self.shelf)

    def recall(
        self, history: History, question: str, budget: int | None, ctx: Context, *, asked_at: datetime | None = None
    ) -> Recall:
        """The best entries, and turns that no entry stands for, as far as they fit the budget; no model is asked."""
        trace = Trace(ctx)
        unit = "user_turn" if self._settings.user_only else "turn"
        found = find(history, self._retriever, question, self.shelf, unit=unit, top_k=self._settings.top_k)
        trace.tell("retrieve", {"found": len(found.items), "raw": found.raw})
        fitted = fit(found.candidates, budget, ctx.counter, question)
        return recalled(
            self,
            history,
            question,
            fitted,
            ctx,
            asked_at=asked_at,
            ranked=found.items,
            considered=found.turn_ids,
            steps=trace.steps,
            degraded=found.degraded,
        )


def _spec(preset: Preset | None, summary: str) -> StrategySpec:
    needs: frozenset[Need] = frozenset({"vectors", "compressor"})
    return StrategySpec(lambda parts: LightMem.of(parts, preset), summary, builds=True, needs=needs)


SPECS: Final[Mapping[str, StrategySpec]] = MappingProxyType(
    {
        "": _spec(None, "compress, group by topic, write facts, merge them"),
        "faithful": _spec("faithful", "as the released code does it"),
        "r4": _spec("r4", "reads 40 % of the words"),
        "r6": _spec("r6", "reads 60 % of the words"),
        "user_only": _spec("user_only", "facts of what people say, not of replies"),
    }
)
"""By the name of the preset, "" for the design itself."""
