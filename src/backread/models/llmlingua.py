"""LLMLingua-2: a text without the words that a small encoder, trained on it, would leave out.

Pan et al., "LLMLingua-2: Data Distillation for Efficient and Faithful Task-Agnostic Prompt Compression", Findings of
ACL 2024, arXiv 2403.12968, section 3.3; what the paper leaves open is as in its released code. The encoder gives each
token a probability to stay. Needs torch and transformers, the extra `compress`, and weights that are on this machine:
nothing is downloaded here.

Differs from the released code in that kept words stand as they did, with their own punctuation and line ends, instead
of being put together from word pieces; and in that a word's probability counts once for each token of the library's
estimate, instead of once for each token of cl100k_base, whose table would have to be downloaded.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from backread.arrays import NDArray, np
from backread.errors import InvalidInputError, MissingExtraError, ModelNotAvailableError, ModelOutputError
from backread.models.base import Compressor
from backread.models.sentence_transformers import Weights
from backread.text.tokens import EstimateCounter

__all__ = ["NAME", "WEIGHTS", "LlmLingua2", "Word", "installed_compressor", "kept", "open_llmlingua", "text_attention"]

NAME = "llmlingua-2"
WEIGHTS = "microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank"  # Apache-2.0
INSTALL = "pip install 'backread[compress]'"

WINDOW = 512
SPECIAL_TOKENS = 2
LAYERS = slice(8, 12)  # whose attention tells topics apart, as in LightMem's code
EDGE = 3  # tokens at both ends that everything attends to

_SURROGATE = re.compile("[\ud800-\udfff]")


class Word(NamedTuple):
    """A word of a text: its span, and the probability that it stays."""

    start: int
    end: int
    probability: float


class Encoder(Protocol):
    """What reads texts: the model, or what stands for it in a test."""

    def words(self, text: str) -> list[list[Word]]:
        """The words of each chunk of a text, in order."""
        ...

    def attention(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Of the texts one behind the other: attention of each token to each, and the text it is of, -1 for none."""
        ...


def kept(words: Sequence[Word], rate: float, weights: Sequence[int]) -> list[Word]:
    """The words of a chunk that stay: those more probable than a percentile of all, each counted `weights` times.

    Args:
        words: of the chunk.
        rate: about which share of the tokens stays. In floating point .8 takes the percentile 20, .6 the 41st: the
            code's own arithmetic.
        weights: tokens of each word, at least 1.
    """
    if not words:
        return []
    spread = np.repeat([word.probability for word in words], weights)
    threshold = float(np.percentile(spread, int(100 * (1 - rate) + 1)))
    return [word for word in words if word.probability > threshold or (threshold == 1.0 == word.probability)]


def text_attention(attention: NDArray[np.float32], owner: NDArray[np.int64], texts: int) -> NDArray[np.float32]:
    """How much each text attends to those before it; see `models.base.Attending`.

    The mean over the tokens of text i of what they give to all tokens of text j, each row divided by its sum.

    Args:
        attention: of each token to each.
        owner: the text each token is of, -1 for tokens that don't count.
        texts: how many there are.
    """
    member = (owner[:, None] == np.arange(texts)).astype(np.float32)
    given = member.T @ attention @ member
    given = np.tril(given / np.maximum(member.sum(axis=0), 1)[:, None], -1)
    total = given.sum(axis=1, keepdims=True)
    shares: NDArray[np.float32] = np.divide(given, total, out=np.zeros_like(given), where=total > 0).astype(np.float32)
    return shares


class LlmLingua2:
    """A `Compressor` that also tells attention. Threads may share one object.

    Args:
        load: makes the encoder; called once, at the first use.
        identity: of the weights.
    """

    def __init__(self, load: Callable[[], Encoder], *, identity: Callable[[], str]) -> None:
        self._load, self._identity = load, identity
        self._encoder: Encoder | None = None
        self._lock = threading.RLock()
        self._count = EstimateCounter().count

    @property
    def name(self) -> str:
        """The name users know it by."""
        return NAME

    @property
    def fingerprint(self) -> str:
        """Of the weights."""
        return f"{NAME}:{self._identity()}"

    def compress(self, text: str, rate: float) -> str:
        """The text without its least probable words, chunk by chunk; the text itself where nothing would be left.

        Raises:
            InvalidInputError: the rate is not above 0 and at most 1.
            ModelNotAvailableError: the weights can't be loaded.
            ModelOutputError: the model failed, or a probability is not finite.
        """
        if not 0 < rate <= 1:
            raise InvalidInputError(f"a rate is above 0 and at most 1, not {rate}")
        if rate == 1 or not text.strip():
            return text
        with self._lock:
            chunks = self._opened().words(text)
        if not all(np.isfinite(word.probability) for words in chunks for word in words):
            raise ModelOutputError(f"{NAME} gave a probability that is not finite")
        left = [
            word
            for words in chunks
            for word in kept(words, rate, [max(1, self._count(text[word.start : word.end])) for word in words])
        ]
        return _joined(text, left) if left else text

    def attention(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `models.base.Attending`.

        Raises:
            ModelNotAvailableError: the weights can't be loaded.
            ModelOutputError: the model failed, or a value is not finite.
        """
        with self._lock:
            attention, owner = self._opened().attention(texts)
        if not np.isfinite(attention).all():
            raise ModelOutputError(f"{NAME} gave attention that is not finite")
        return text_attention(attention, owner, len(texts))

    def _opened(self) -> Encoder:
        if self._encoder is None:
            self._encoder = self._load()
        return self._encoder


@cache
def open_llmlingua(place: str = WEIGHTS) -> LlmLingua2:
    """The model at `place` (see `Weights`); nothing is downloaded, and nothing loaded before the first use.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ModelNotAvailableError: the weights are not on this machine; the hint is the command that fetches them.
    """
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        raise MissingExtraError(
            f"{NAME} needs torch and transformers, which are not installed: {INSTALL}", hint=INSTALL
        )
    weights = Weights(place)
    return LlmLingua2(lambda: _Torch(weights), identity=lambda: weights.identity)


def installed_compressor(place: str = WEIGHTS) -> Compressor | None:
    """`open_llmlingua` where package and weights are there, else None: then words are left out by rule."""
    try:
        return open_llmlingua(place)
    except (MissingExtraError, ModelNotAvailableError):
        return None


class _Torch:
    """The encoder in torch."""

    def __init__(self, weights: Weights) -> None:
        try:
            self._torch = importlib.import_module("torch")
            transformers = importlib.import_module("transformers")
            given = {"revision": weights.revision, "local_files_only": True}
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(weights.source, use_fast=True, **given)
            self._model: Any = transformers.AutoModelForTokenClassification.from_pretrained(
                weights.source, attn_implementation="eager", **given
            ).eval()
        except Exception as error:  # the library's and the hub's errors have no common base
            reason = " ".join(str(error).split())[:300]
            raise ModelNotAvailableError(f"{NAME} can't be loaded: {reason}") from error

    def words(self, text: str) -> list[list[Word]]:
        encoded = self._encoded(text)
        ids, spans, numbers = encoded["input_ids"], encoded["offset_mapping"], encoded.word_ids()
        stops = set(self._tokenizer.convert_tokens_to_ids([".", "\n"]))
        chunks: list[list[Word]] = []
        for start, end in _chunks(ids, stops, WINDOW - SPECIAL_TOKENS):
            logits = self._run(ids[start:end]).logits[0, 1:-1]
            probabilities = self._torch.softmax(logits.float(), dim=-1)[:, 1].tolist()
            chunks.append(_words(spans[start:end], numbers[start:end], probabilities))
        return chunks

    def attention(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        ids: list[int] = []
        owner: list[int] = []
        for place, text in enumerate(texts):
            own = self._encoded(text)["input_ids"]
            ids += own
            owner += [place] * len(own)
        room = WINDOW - SPECIAL_TOKENS
        layers = self._run(ids[:room], attention=True).attentions[LAYERS]
        mean = self._torch.stack([layer[0].float().mean(dim=0) for layer in layers]).mean(dim=0)
        member = np.array([-1, *owner[:room], -1], np.int64)
        member[:EDGE] = -1
        member[-EDGE:] = -1
        return np.asarray(mean.tolist(), np.float32), member

    def _encoded(self, text: str) -> Any:  # noqa: ANN401 -- an object of transformers
        given = _SURROGATE.sub("\ufffd", text)  # as long as the text, so that spans are those of the text
        return self._tokenizer(given, add_special_tokens=False, return_offsets_mapping=True, verbose=False)

    def _run(self, ids: Sequence[int], *, attention: bool = False) -> Any:  # noqa: ANN401
        whole = [self._tokenizer.cls_token_id, *ids, self._tokenizer.sep_token_id]
        try:
            with self._torch.inference_mode():
                return self._model(self._torch.tensor([whole]), output_attentions=attention)
        except Exception as error:  # torch's errors have no common base
            reason = " ".join(str(error).split())[:300]
            raise ModelOutputError(f"{NAME} failed: {reason}") from error


def _chunks(ids: Sequence[int], stops: set[int], most: int) -> list[tuple[int, int]]:
    """Stretches of at most `most` tokens, each as long as it can be up to a full stop; cut anywhere without one."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(ids):
        end = min(len(ids), start + most)
        if end < len(ids):
            end = next((at + 1 for at in range(end - 1, start, -1) if ids[at] in stops), end)
        found.append((start, end))
        start = end
    return found


def _words(
    spans: Sequence[tuple[int, int]], numbers: Sequence[int | None], probabilities: Sequence[float]
) -> list[Word]:
    """Pieces of one word as one, with the mean of their probabilities."""
    pieces: dict[int, list[tuple[int, int, float]]] = {}
    for (start, end), number, probability in zip(spans, numbers, probabilities, strict=True):
        if number is not None:
            pieces.setdefault(number, []).append((start, end, probability))
    return [
        Word(own[0][0], own[-1][1], sum(probability for *_, probability in own) / len(own)) for own in pieces.values()
    ]


def _joined(text: str, words: Sequence[Word]) -> str:
    """The words as they stand in the text, with one line end or one space where there was any between them."""
    first = words[0]
    parts = [text[first.start : first.end]]
    for before, word in pairwise(words):
        gap = text[before.end : word.start]
        parts.append("\n" if "\n" in gap else " " if any(sign.isspace() for sign in gap) else "")
        parts.append(text[word.start : word.end])
    return "".join(parts)
