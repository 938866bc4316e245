"""Whether a prompt fits: refusals for length recognised, prompts cut in silence noticed, windows read from servers.

A server that cuts a prompt answers with 200 and a straight face. What gives it away is its own count of the prompt:
far fewer tokens than were sent. `prompt_was_cut` compares the two with room for the difference between tokenizers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from backread.errors import ContextWindowError
from backread.models.base import ChatMessage
from backread.text.tokens import EstimateCounter
from backread.types import Usage

__all__ = [
    "RAISE_WINDOW",
    "WINDOW_SOURCES",
    "Overflow",
    "estimate_prompt",
    "overflow",
    "prompt_was_cut",
    "with_smaller_prompts",
]

_T = TypeVar("_T")

RAISE_WINDOW = (
    "give the server a larger window (llama.cpp: -c; Ollama: OLLAMA_CONTEXT_LENGTH; vLLM: --max-model-len),"
    " or lower the budget"
)
"""The hint of every error about a window."""

MESSAGE_TOKENS = 4
SMALLEST = 400
FAR_BELOW = 0.5
BELOW = 0.9

_TOO_LONG = re.compile(
    r"exceed_context_size|context_length_exceeded|(?:maximum|available|allowed|model'?s|max(?:imum)?) context"
    r"|context[ _](?:length|size|window)|prompt is too long|input is too long|prompt (?:length|tokens?) exceeds"
    r"|(?:reduce|shorten) the length of (?:the |your )?(?:messages|prompt|input)",
    re.IGNORECASE,
)
_WINDOW = re.compile(
    r"(?:context (?:length|size|window)(?: of| is)?:? ?\(?|context window of |n_ctx\D{0,5}|maximum of )(\d{3,8})",
    re.IGNORECASE,
)
_SENT = re.compile(
    r"(?:requested|request has|prompt has|resulted in|contains|request \(|prompt is too long: ) ?(\d{3,8})",
    re.IGNORECASE,
)


class Overflow(NamedTuple):
    """What a server said about a prompt that does not fit; None where it gave no number."""

    window: int | None
    sent: int | None


def overflow(detail: str, body: object = None) -> Overflow | None:
    """What an error says about a prompt that is too long; None when the error is about something else.

    Args:
        detail: the server's words, codes included.
        body: the error object, which llama.cpp gives `n_ctx` and `n_prompt_tokens`.
    """
    if not _TOO_LONG.search(detail):
        return None
    told = body if isinstance(body, Mapping) else {}
    window, sent = _WINDOW.search(detail), _SENT.search(detail)
    return Overflow(
        _number(told.get("n_ctx")) or (int(window[1]) if window else None),
        _number(told.get("n_prompt_tokens")) or (int(sent[1]) if sent else None),
    )


def estimate_prompt(messages: Sequence[ChatMessage]) -> int:
    """Tokens of a prompt, estimated on the high side; the same on every machine."""
    counter = EstimateCounter()
    return sum(counter.count(message.content) + MESSAGE_TOKENS for message in messages)


def prompt_was_cut(sent: int, usage: Usage) -> bool:
    """Whether the server's count of the prompt shows that it read only a part.

    True when it counted less than half of the estimate `sent`, or less than 90 % and a number that Ollama leaves when
    it cuts: half a window of 2^k tokens, and a few. Below 400 tokens, and where nothing was counted, False. Cached
    tokens are added where a server counts them apart.
    """
    if not usage.input_tokens or sent < SMALLEST:
        return False
    counted = usage.input_tokens
    if usage.cache_read_tokens and usage.cache_read_tokens > counted:
        counted += usage.cache_read_tokens
    half_window = counted >= 512 and counted - (1 << (counted.bit_length() - 1)) <= 3
    return counted < (BELOW if half_window else FAR_BELOW) * sent


def with_smaller_prompts(send: Callable[[float], _T], *, tries: int = 2) -> _T:
    """`send(1.0)`; while the prompt does not fit, `send` again with half the share, at most `tries` more times.

    Args:
        send: makes a prompt from the best-ranked share of what it has, sends it, and returns what came of it. The
            question itself is never left out.
        tries: prompts after the first.

    Raises:
        ContextWindowError: the last prompt did not fit either.
    """
    share = 1.0
    while True:
        try:
            return send(share)
        except ContextWindowError:
            if tries <= 0:
                raise
        tries -= 1
        share /= 2


def _llama_cpp(body: Mapping[str, object], model: str) -> int | None:
    settings = body.get("default_generation_settings")
    return _number(settings.get("n_ctx")) if isinstance(settings, Mapping) else None


def _vllm(body: Mapping[str, object], model: str) -> int | None:
    return _number(_served(body.get("data"), "id", model).get("max_model_len"))


def _ollama(body: Mapping[str, object], model: str) -> int | None:
    models = body.get("models")
    return _number((_served(models, "name", model) or _served(models, "model", model)).get("context_length"))


WINDOW_SOURCES: tuple[tuple[str, Callable[[Mapping[str, object], str], int | None]], ...] = (
    ("/props", _llama_cpp),
    ("models", _vllm),
    ("/api/ps", _ollama),
)
"""Where servers tell the window of a loaded model and how; without a slash in front it is below the API's root."""


def _served(items: object, key: str, model: str) -> Mapping[str, object]:
    found = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    return next((item for item in found if str(item.get(key)).removesuffix(":latest") == model), {})


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
