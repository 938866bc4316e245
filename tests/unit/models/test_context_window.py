"""Whether a prompt fits, from what servers say and what they count."""

from __future__ import annotations

import pytest

from backread.errors import ContextWindowError
from backread.models.context_window import Overflow, overflow, prompt_was_cut, with_smaller_prompts
from backread.types import Usage


@pytest.mark.parametrize(
    ("detail", "found"),
    [
        ("'max_tokens' is too large: 5000. This model's maximum context length is 2048 tokens", Overflow(2048, None)),
        ("prompt is too long: 210000 tokens > 200000 maximum", Overflow(None, 210000)),
        ("Input is too long for requested model.", Overflow(None, None)),
        ("max_tokens is too large", None),
        ("Unsupported parameter: 'temperature'", None),
        ("model 'm' not found", None),
    ],
)
def test_words_about_length(detail: str, found: Overflow | None) -> None:
    assert overflow(detail) == found


# LLM-08
@pytest.mark.parametrize(
    ("sent", "counted", "cached", "cut"),
    [
        (6200, 2050, None, True),  # half a window of 4096, as Ollama leaves it
        (5000, 4098, None, True),
        (5000, 4150, None, False),
        (4200, 4098, None, False),  # a tokenizer that is a little better
        (6200, 3000, None, True),
        (6200, 3200, None, False),  # Hindi or Thai, and a tokenizer made for it
        (6200, 100, 6000, False),  # cached tokens counted apart
        (300, 10, None, False),
        (6200, None, None, False),
        (6200, 0, None, False),
    ],
)
def test_a_count_that_is_too_small(sent: int, counted: int | None, cached: int | None, cut: bool) -> None:
    assert prompt_was_cut(sent, Usage("build", "m", input_tokens=counted, cache_read_tokens=cached)) is cut


# LLM-08
def test_smaller_prompts_are_tried_twice() -> None:
    tried: list[float] = []

    def send(share: float, fits: float) -> float:
        tried.append(share)
        if share > fits:
            raise ContextWindowError("too long")
        return share

    assert with_smaller_prompts(lambda share: send(share, 0.3)) == 0.25
    assert tried == [1.0, 0.5, 0.25]
    tried.clear()
    with pytest.raises(ContextWindowError):
        with_smaller_prompts(lambda share: send(share, 0.1))
    assert tried == [1.0, 0.5, 0.25]
