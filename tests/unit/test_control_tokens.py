"""What chat templates write between messages never reaches a model intact, wherever stored or typed text has it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp_samples import Mcp

from backread import Memory
from backread.answering.citations import check
from backread.bench import dry_run
from backread.bench.drafting import draft_questions
from backread.bench.dry_run import StandIn
from backread.bench.judging import Judge, grade_quality
from backread.importers.base import ImportedSession, Question
from backread.models.base import ChatMessage, ChatReply
from backread.models.llm_rerank import LLMReranker
from backread.rendering import render
from backread.server.remembering import recall_for, with_evidence
from backread.settings import Settings
from backread.strategies.registry import STRATEGIES
from backread.strategies.search_o1.chain import BEGIN_QUERY, BEGIN_RESULT, END_QUERY, END_RESULT
from backread.testing.fakes import HashEmbedder
from backread.text.fencing import fence, for_model, quote
from backread.types import Evidence, Source, Turn, TurnDraft

OWN = (BEGIN_QUERY, END_QUERY, BEGIN_RESULT, END_RESULT)
_TABLE = """
    <|im_start|> <|im_end|> <|im_sep|> <|endoftext|> <|begin_of_text|> <|end_of_text|> <|eot_id|> <|eom_id|>
    <|start_header_id|> <|end_header_id|> <|python_tag|> <|reserved_special_token_7|> [INST] [/INST] <<SYS>> <</SYS>>
    <s> </s> <unk> <pad> <mask> <start_of_turn> <end_of_turn> <bos> <eos> <start_of_image> <unused0> <｜User｜>
    <｜Assistant｜> <｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜tool▁calls▁begin｜> <|fim▁begin|>
    <|system|> <|user|>
    <|assistant|> <|end|> <|start|> <|channel|> <|message|> <|constrain|> <|return|> <|call|> <|START_OF_TURN_TOKEN|>
    <|END_OF_TURN_TOKEN|> <|CHATBOT_TOKEN|> <BOS_TOKEN> <EOS_TOKEN> [gMASK] <sop> <eop> <|observation|> <tool_call>
    </tool_call> <tool_response> </tool_response> [TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS]
    [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT] [IMG] [THINK] [/THINK] [ARGS] <TOOLCALL> <think> </think> <|turn>
    <turn|> <|tool_call> [|user|] [|endofturn|] <extra_id_0> <SPECIAL_12> <reserved_106> [UNUSED_TOKEN_146] <0x0A>
    [CLS] [SEP] [PAD] <seed:bos> <fim_prefix> <fim-prefix> <|IM_END|> <|begin_search_result|>
"""
ALL = [*_TABLE.split(), "<| im_end |>"]
HOSTILE = " ".join(ALL) + "\n" + "".join(ALL)
"""All of them, apart and side by side."""

USER = "ann"
AT = datetime(2024, 6, 1, tzinfo=UTC)


def intact(text: str, *, own: bool = False) -> list[str]:
    """The tokens that a text still has; `own` leaves out those that a design tells its model to write."""
    return [token for token in ALL if token in text and not (own and token in OWN)]


@pytest.mark.parametrize("token", ALL)
def test_a_token_is_broken_up_and_can_still_be_read(token: str) -> None:
    for shown in (for_model(f"a{token}b"), quote(token), fence([token]).split("\n")[1]):
        assert token not in shown
        assert token.strip("<>[]") in shown
    assert for_model(for_model(token)) == for_model(token)


def test_tokens_beside_and_inside_each_other() -> None:
    assert for_model("<|im_end|><s>[INST]") == "< |im_end| >< s >[ INST ]"
    assert for_model("<<SYS>>") == "<< SYS >>"
    for one in ALL:
        for other in ALL:
            half = len(other) // 2
            shown = for_model(f"{other[:half]}{one}{other[half:]}")
            assert one not in shown
            assert for_model(shown) == shown
    assert not intact(for_model(HOSTILE))


@pytest.mark.parametrize(
    "text",
    [
        "a < b || c > d, x |> f, [1], [image: a cat], [event] <div>List<String></div>",
        "items[index] <- [TODO] #include <vector> if (a<b && b>c) {}",
        "<|>",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert for_model(text) == text


@pytest.mark.parametrize("token", ALL)
def test_a_quote_of_what_was_shown_is_found_in_its_turn(token: str) -> None:
    turn = Turn("t", "s", 0, "user", f"Before. My {token} kettle is red. After.", AT, speaker=f"Ann {token}")
    line = Evidence(turn.text, "verbatim", (Source("t", 0, None),), 0, speaker=turn.speaker)
    shown = render([line])
    copied = shown[shown.index("My ") : shown.index(" is red")]
    for words in (copied, f"My {token} kettle", f"{for_model(turn.name)}: {copied}"):
        (citation,) = check(f"Red [1].\nQUOTES\n[1] “{words}”", [line], {"t": turn}).citations
        assert citation.quote == f"My {token} kettle"


class Hostile:
    """A model that replies in the format asked for, with tokens in all it says; every third reply can't be read."""

    name = "hostile"

    def __init__(self) -> None:
        self._inner = StandIn(self.name)
        self._lock = threading.Lock()
        self.messages: list[ChatMessage] = []
        self.calls = 0

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        with self._lock:
            self.messages += messages
            self.calls += 1
            spoil = schema is not None and self.calls % 3 == 0 and "can't be used" not in messages[-1].content
        reply = self._inner.complete(messages, purpose=purpose, max_tokens=max_tokens, schema=schema)
        grades = "\n1: 0.5\nUseful information:\nThe kettle is red [1]"  # of the forms that are no JSON
        said = f"The kettle is red and the ferry leaves at seven [1] {HOSTILE}"
        text = f'{{"{ALL[0]}": {json.dumps(said)}}}' if spoil else reply.text.replace(WORDS, json.dumps(said)[1:-1])
        return ChatReply(text if schema is not None else text.replace("\\n", "\n") + grades, "stop", reply.usage)

    def check(self) -> None:
        """No message that was sent has a token, but for what a template of ours has."""
        assert self.messages
        for message in self.messages:
            assert not intact(message.content, own=True), message.content


WORDS = dry_run._WORDS


PLACES = ["Lisbon", "Porto", "Bergen", "Kiel", "Riga", "Cork", "Split", "Genoa", "Malmo", "Turku", "Calais", "Dover"]


def drafts() -> Iterator[TurnDraft]:
    for number in range(12):
        yield TurnDraft(
            session_id=f"day {number // 4} {HOSTILE}"[:500],
            role="assistant" if number % 2 else "user",
            text=f"My kettle is red. The ferry leaves {PLACES[number]} at seven. {HOSTILE}",
            speaker=None if number % 2 else f"Ann {HOSTILE}"[:200],
            external_id=f"m{number} {HOSTILE}"[:500],
            caption=None if number % 3 else f"a kettle {HOSTILE}",
            said_at=datetime(2024, 5, 1 + number // 4, 9, number, tzinfo=UTC),
            said_text=f"today {HOSTILE}",
        )


QUESTION = f"When does the ferry leave, and which kettle is red? {HOSTILE}"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.db", settings=Settings(), embedder=HashEmbedder(), model=Hostile()) as opened:
        opened.add_turns(list(drafts()), user_id=USER)
        yield opened


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_no_prompt_of_a_design_or_of_the_answerer_has_a_token(memory: Memory, strategy: str) -> None:
    chat = memory.chat
    assert isinstance(chat, Hostile)
    memory.build(user_id=USER, strategy=strategy, flush=True)
    memory.build(user_id=USER, strategy=strategy, maintain=True)
    answer = memory.ask(QUESTION, user_id=USER, strategy=strategy, asked_at=AT)
    assert answer.recall.evidence
    assert not intact(answer.recall.rendered)
    chat.check()


def test_neither_has_what_the_proxy_adds(memory: Memory) -> None:
    asked = [{"role": "user", "content": QUESTION}]
    recall = recall_for(memory, USER, asked, (), AT)
    assert recall is not None
    assert recall.evidence
    (told,) = with_evidence(asked, recall)
    assert told["content"].endswith(QUESTION)  # the user's own words go through as they are
    assert not intact(told["content"].removesuffix(QUESTION))


def test_nor_a_tool_of_mcp(memory: Memory) -> None:
    mcp = Mcp(memory)
    told = [
        mcp.text("search_memories", query="When does the ferry leave?"),
        mcp.text("recall", question=QUESTION),
        mcp.text("ask", question=QUESTION),
        mcp.text("get_turns", session_id=next(drafts()).session_id),
        mcp.text("list_sessions"),
        mcp.text("add_memory", session_id=f"x {ALL[0]}", messages=[{"role": "user", "content": "Hi."}]),
    ]
    for text in told:
        assert not intact(text)
    for turn in mcp.value("get_turns", session_id=next(drafts()).session_id)["turns"]:
        assert not intact(f"{turn['text']} {turn['caption']} {turn['speaker']}")


def test_nor_the_reranker(memory: Memory) -> None:
    chat = Hostile()
    LLMReranker(chat).rerank(QUESTION, [draft.text for draft in drafts()])
    chat.check()


def test_nor_the_judges_and_the_drafting_of_questions() -> None:
    chat = Hostile()
    asked = Question("q", USER, QUESTION, f"At seven. {HOSTILE}", "single-hop", False, None, (), ())
    for kind in ("strict", "lenient"):
        Judge(chat, benchmark="locomo", kind=kind).grade(asked, f"At [1] seven {HOSTILE} <|im_[1]end|>")
    grade_quality(chat, asked, render([Evidence(HOSTILE, "rewrite", (), 0, speaker=HOSTILE)]))
    session = ImportedSession(USER, "s", None, tuple(drafts()))
    draft_questions([session], 5, chat=chat)
    chat.check()
