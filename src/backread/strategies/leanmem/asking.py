"""A question to a model about stored text: fenced, shorter where the model's window is small, the reply validated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from backread.construction.prompt_files import Prompt, read_prompt
from backread.construction.transcript import beginning
from backread.models.base import ChatMessage, ChatModel
from backread.models.context_window import with_smaller_prompts
from backread.models.structured import complete_as
from backread.text.fencing import fence

if TYPE_CHECKING:
    import pydantic

__all__ = ["ask", "prompt"]

_ModelT = TypeVar("_ModelT", bound="pydantic.BaseModel")

_SMALLER_PROMPTS = 5  # down to 1/32 of a segment: the window is not known beforehand


def prompt(name: str) -> Prompt:
    """One of this design's prompts."""
    return read_prompt("backread.strategies.leanmem", name)


def ask(
    chat: ChatModel, name: str, label: str, lines: Sequence[str], reply: type[_ModelT], *, max_tokens: int
) -> tuple[_ModelT, bool]:
    """A reply about some lines, and whether the end of the lines had to be left out.

    Args:
        chat: what is asked; the purpose is "build".
        name: of the prompt.
        label: of the fence around the lines.
        lines: quoted, not fenced.
        reply: says what is allowed; it is asked for once more when it isn't valid.
        max_tokens: of the reply.

    Raises:
        ModelOutputError: neither reply can be used.
        ModelError: the model can't be asked.
    """
    used = prompt(name)
    cut = False

    def send(share: float) -> _ModelT:
        nonlocal cut
        cut = share < 1
        asked = f"{fence(beginning(lines, share), label=label)}\n\n{used.form}"
        messages = [ChatMessage("system", used.rules), ChatMessage("user", asked)]
        return complete_as(chat, messages, reply, purpose="build", max_tokens=max_tokens, instruct=False).value

    return with_smaller_prompts(send, tries=_SMALLER_PROMPTS), cut
