"""How LightMem reads turns: shortened, measured for its buffers, and cut into topics."""

from __future__ import annotations

from collections.abc import Sequence

from backread.construction.topics import agreed, attention_boundaries, neighbours, similarity_boundaries
from backread.models.base import Attending, Compressor, Embedder
from backread.store.history import HUMAN_ROLES
from backread.store.indexing import passage_text
from backread.strategies.lightmem.buffers import Message, Round
from backread.strategies.lightmem.settings import Settings
from backread.text.tokens import EstimateCounter
from backread.types import Turn

__all__ = ["TOKENIZER_LIMIT", "Reading"]

TOKENIZER_LIMIT = 512
"""Tokens from which the released code compresses a message once more: its model reads no more at once."""


class Reading:
    """Turns as LightMem reads them. Used by one build, so that a text is shortened and embedded once.

    Args:
        settings: rate and limits.
        compressor: leaves out words.
        embedder: tells topics apart, and counts the tokens of the sensory buffer as a model of that kind does; without
            one a full buffer is one topic, and tokens are estimated.
    """

    def __init__(self, settings: Settings, compressor: Compressor, embedder: Embedder | None) -> None:
        self._settings, self._compressor, self._embedder = settings, compressor, embedder
        self._estimate = EstimateCounter().count
        self._texts: dict[str, str] = {}

    def counts(self, turn: Turn) -> bool:
        """Whether memory is made of a turn."""
        return not self._settings.user_only or turn.role in HUMAN_ROLES

    def text(self, turn: Turn) -> str:
        """What is read of a turn: its words that stay, and the caption of its image in full."""
        if turn.turn_id not in self._texts:
            self._texts[turn.turn_id] = passage_text(self.shortened(turn.text), turn.caption)
        return self._texts[turn.turn_id]

    def shortened(self, text: str) -> str:
        """`text` with the share of its words that the settings say; the text itself where the rest would be blank."""
        short = self._compressor.compress(text, self._settings.rate)
        while self._settings.as_published and self._tokens(short) >= TOKENIZER_LIMIT:
            again = self._compressor.compress(short, self._settings.rate)
            if len(again) >= len(short):
                break
            short = again
        return short if short.strip() else text

    def message(self, turn: Turn) -> Message:
        """A turn as the buffers see it."""
        text = self.text(turn)
        counts = self.counts(turn)
        return Message(
            turn_id=turn.turn_id,
            text=text,
            sensory=self._tokens(text) + self._settings.per_message if counts else 0,
            short_term=self._estimate(text) if counts else 0,
            human=turn.role in HUMAN_ROLES,
        )

    def boundaries(self, rounds: Sequence[Round]) -> list[int]:
        """Where a run of rounds is cut into topics; nowhere without an embedder.

        Raises:
            ModelError: the embedder or the compressor could not be asked.
        """
        if self._embedder is None:
            return []
        texts = [" ".join(message.text for message in item) for item in rounds]
        fine = similarity_boundaries(neighbours(self._embedder.embed(texts)))
        if not fine or not isinstance(self._compressor, Attending):
            return fine
        said = [" ".join(message.text for message in item if message.human) for item in rounds]
        attention = self._compressor.attention(said)
        return agreed(fine, attention_boundaries(attention, as_coded=self._settings.as_published))

    def _tokens(self, text: str) -> int:
        return self._estimate(text) if self._embedder is None else self._embedder.count_tokens(text)
