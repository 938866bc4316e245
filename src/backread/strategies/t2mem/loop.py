"""The test-time loop: reason over memory and the newest observation, write down what helps, choose what to see next.

T2Mem (arXiv 2610.13348), section 3.2, equations 5 to 13. What the paper leaves open, and what was chosen, is in
`PAPER.md`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from backread.construction.episode_ranking import Episode
from backread.construction.prompt_files import read_prompt
from backread.construction.transcript import beginning
from backread.errors import ModelOutputError
from backread.models.base import ChatMessage, ChatModel
from backread.models.context_window import with_smaller_prompts
from backread.models.structured import Structured, complete_as
from backread.models.usage import total
from backread.store.history import History
from backread.strategies.t2mem.memory_lines import MemoryLine, read_lines
from backread.strategies.t2mem.observing import Observation, notice, observe_entries, observe_session
from backread.text.fencing import fence, quote
from backread.text.times import format_time
from backread.types import Degradation, Step, Turn, Usage

if TYPE_CHECKING:
    from backread.strategies.t2mem.schemas import StepReply

__all__ = ["FIRST", "STEPS", "Loop", "Trajectory", "controller_prompts"]

_log = logging.getLogger(__name__)

STEPS = 5
"""T_max."""

FIRST = 5
"""k of the first observation; every later SearchMeta has k = 1."""

_MAX_TOKENS = 1024
_ANSWER_TOKENS = 64  # on top of the reasoning tokens, appendix A.3
_SMALLER_PROMPTS = 4

_TOOLS = {"all": "tools", "no_raw": "tools_no_raw", "no_metadata": "tools_no_metadata"}


@dataclass
class Trajectory:
    """What a loop leaves: M_T as lines, with what it took and saw.

    Attributes:
        memory: the lines of each step.
        turns: the turns behind all observations, each once, in the order seen.
        steps, usage, degraded: for the recall.
    """

    memory: list[list[MemoryLine]] = field(default_factory=list)
    turns: dict[str, Turn] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)

    @property
    def lines(self) -> list[MemoryLine]:
        """The lines of all steps, in the order they were written."""
        return [line for cache in self.memory for line in cache]


def controller_prompts(tools: str) -> dict[str, str]:
    """Hashes of the prompts of a loop with these tools, by name."""
    names = ("controller", _TOOLS[tools])
    return {name: read_prompt("backread.strategies.t2mem", name).hash for name in names}


@dataclass(frozen=True)
class Loop:
    """The loop of one design.

    Attributes:
        chat: the model, for every step.
        tools: "all"; "no_raw" without ReadRaw; "no_metadata" where sessions stand in for entries.
        steps: T_max, calls at most.
        first: k of the first observation.
        reasoning_tokens: N of the paper's token budgets: the prompt asks for at most N, and no reply is longer than
            N + 64. None leaves the budget out.
    """

    chat: ChatModel
    tools: str = "all"
    steps: int = STEPS
    first: int = FIRST
    reasoning_tokens: int | None = None

    def run(
        self,
        history: History,
        question: str,
        ranked: Sequence[Episode],
        *,
        on_step: Callable[[Step], None] | None = None,
        stopped: Callable[[], bool] = lambda: False,
        asked_at: datetime | None = None,
    ) -> Trajectory:
        """Build the memory for a question.

        Args:
            history: whose sessions.
            question: as it was asked.
            ranked: every session, best first; not empty.
            on_step: told of each step when it ends.
            stopped: asked before each step; a true answer ends the loop with the memory so far.
            asked_at: when it is now.

        Raises:
            ModelError: the model could not be asked. A reply that can't be used, also at the second try, is no error:
                it ends the loop with the memory so far.
        """
        return _Run(self, history, question, ranked, on_step, stopped, asked_at).result()


class _Run:
    """One run of a loop."""

    def __init__(
        self,
        loop: Loop,
        history: History,
        question: str,
        ranked: Sequence[Episode],
        on_step: Callable[[Step], None] | None,
        stopped: Callable[[], bool],
        asked_at: datetime | None,
    ) -> None:
        self._loop, self._history, self._question, self._ranked = loop, history, question, ranked
        self._on_step, self._stopped, self._asked_at = on_step, stopped, asked_at
        self._seen: dict[int, Episode] = {}
        self._made = Trajectory()

    def result(self) -> Trajectory:
        loop = self._loop
        observation = self._search(loop.first)
        for step in range(1, loop.steps + 1):
            if self._stopped():
                self._note("stopped before its end; the memory so far is shown")
                break
            following = self._step(step, observation)
            if following is None:
                break
            observation = following
        return self._made

    def _step(self, step: int, observation: Observation) -> Observation | None:
        """One call and its action: the next observation, None when the loop ends."""
        started = time.monotonic()
        self._made.turns |= {turn.turn_id: turn for turn in observation.turns.values()}
        reply, spent, fault = self._ask(step, observation)
        self._made.usage += spent
        lines: list[MemoryLine] = []
        if reply is not None:
            remembered = {label: turn for line in self._made.lines for label, turn in line.turns.items()}
            lines, unknown = read_lines(reply.memory_cache, observation, remembered)
            if unknown:
                fault = f"{unknown} labels name no turn that was shown"
        self._made.memory.append(lines)
        following, problem = self._act(step, reply)
        tokens = total(spent)
        detail: dict[str, Any] = {
            "step": step,
            "observation": {"kind": observation.kind, "entries": list(observation.episodes)},
            "reasoning": reply.reasoning if reply else "",
            "memory": [line.text for line in lines],
            "sources": [list(dict.fromkeys(source.turn_id for source in line.sources)) for line in lines],
            "action": reply.action.name if reply else "Answer",
            "entry_id": reply.action.entry_id if reply else None,
            "input_tokens": tokens.input_tokens,
            "output_tokens": tokens.output_tokens,
            "fault": "; ".join(item for item in (fault, problem) if item) or None,
        }
        self._tell(Step("t2mem", detail, time.monotonic() - started))
        return following

    def _tell(self, step: Step) -> None:
        if step.detail["fault"]:
            _log.info("step %s: %s", step.detail["step"], step.detail["fault"])
        self._made.steps.append(step)
        if self._on_step is not None:
            self._on_step(step)

    def _note(self, reason: str) -> None:
        self._made.degraded.append(Degradation("t2mem", reason, 1))

    def _ask(self, step: int, observation: Observation) -> tuple[StepReply | None, tuple[Usage, ...], str | None]:
        """The reply, what was spent, and what was wrong; None for a reply that can't be used."""
        from backread.strategies.t2mem.schemas import StepReply, StepReplyWithoutRaw

        loop = self._loop
        kind = StepReply if loop.tools == "all" else StepReplyWithoutRaw
        limit = None if loop.reasoning_tokens is None else loop.reasoning_tokens + _ANSWER_TOKENS
        cut = False

        def send(share: float) -> Structured[StepReply]:
            nonlocal cut
            cut = share < 1
            messages = self._messages(step, observation, beginning(observation.lines, share))
            room = _MAX_TOKENS if limit is None else limit
            return complete_as(
                loop.chat, messages, kind, purpose="recall", max_tokens=room, most_tokens=limit, instruct=False
            )

        try:
            found = with_smaller_prompts(send, tries=_SMALLER_PROMPTS)
        except ModelOutputError as error:
            self._note("a reply of the model could not be used; the memory so far is shown")
            spent = (error.usage,) if isinstance(error.usage, Usage) else ()
            return None, spent, f"the reply could not be used: {error}"
        if cut:
            self._note("observations were longer than the model's window: their end was not read")
        return found.value, found.usage, None

    def _messages(self, step: int, observation: Observation, lines: Sequence[str]) -> list[ChatMessage]:
        loop = self._loop
        prompt = read_prompt("backread.strategies.t2mem", "controller")
        tools = read_prompt("backread.strategies.t2mem", _TOOLS[loop.tools])
        limit = "" if loop.reasoning_tokens is None else f" Use at most {loop.reasoning_tokens} tokens for it."
        rules = prompt.rules.replace("{limit}", limit).replace("{tools}", tools.rules)
        parts = [
            self._memory(),
            f"Newest observation:\n{fence(lines, label='observation')}",
            f"Now: {format_time(self._asked_at)}" if self._asked_at is not None else "",
            f"Question: {quote(self._question)}",
            f"This is step {step} of {loop.steps}{', the last one' if step == loop.steps else ''}.",
            f"Entries you have seen: {', '.join(map(str, sorted(self._seen)))}." if loop.tools == "all" else "",
            f"{prompt.form}\n{self._actions()}",
        ]
        return [ChatMessage("system", rules), ChatMessage("user", "\n\n".join(part for part in parts if part))]

    def _actions(self) -> str:
        """The actions that can give something, as they are written: a small model copies what it sees."""
        all_seen = len(self._seen) == len(self._ranked)
        shown = {"no_metadata": "conversation"}.get(self._loop.tools, "entry")
        forms = ['{"name": "Answer"} when the memory is enough']
        if not all_seen:
            forms.append(f'{{"name": "SearchMeta"}} to see the next {shown}')
        if self._loop.tools == "all":
            best = next(iter(self._seen))
            forms.append(f'{{"name": "ReadRaw", "entry_id": {best}}} to read the conversation behind an entry')
        return "\n".join(forms)

    def _memory(self) -> str:
        shown = [
            quote(f"[step {step}] {line.text}" + (f" [{', '.join(line.turns)}]" if line.turns else ""))
            for step, lines in enumerate(self._made.memory, 1)
            for line in lines
        ]
        return f"Memory so far:\n{fence(shown, label='memory')}" if shown else "The memory is empty."

    def _act(self, step: int, reply: StepReply | None) -> tuple[Observation | None, str | None]:
        """The next observation, None to end; and why an action could not be carried out. That spends its step too."""
        if reply is None or reply.action.name == "Answer":
            return None, None
        if step == self._loop.steps:
            return None, f"{reply.action.name} was not carried out: there are no steps left"
        if reply.action.name == "SearchMeta":
            observation = self._search(1)
            return observation, observation.lines[0] if observation.kind == "notice" else None
        episode = self._seen.get(reply.action.entry_id or 0)
        if episode is not None:
            return observe_session(self._history, episode), None
        legal = ", ".join(map(str, sorted(self._seen)))
        told = f"ReadRaw: no entry {reply.action.entry_id or '?'} was seen. Entries that can be read: {legal}."
        return notice(told), told

    def _search(self, k: int) -> Observation:
        """The best k entries that were not seen: equations 9 and 12, down one ranking."""
        unseen = [episode for episode in self._ranked if episode.number not in self._seen][:k]
        self._seen |= {episode.number: episode for episode in unseen}
        if not unseen:
            read = " ReadRaw can read them." if self._loop.tools == "all" else ""
            return notice(f"SearchMeta: there are no more entries; all of them were seen.{read}")
        return observe_entries(self._history, unseen)
