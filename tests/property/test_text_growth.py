"""No function over text takes more than about linear time, whatever the text is.

Anything that is said to backread, or that a model replies, may be long and made to be slow: a pattern that looks at
every start again freezes a server for all its users. Each function is run on hostile texts of growing length; what
counts is how its CPU time grows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import inspect
import itertools
import json
import math
import pkgutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

import backread.answering
import backread.construction
import backread.text
from backread.answering.citations import check, find_quote
from backread.answering.extractive import quote_answer
from backread.bench.judging.judge import reduced
from backread.bench.judging.verdicts import read_value, read_verdict
from backread.bench.measures.abstention import abstained
from backread.bench.measures.answer_words import locomo_words, plain_words
from backread.construction.compression import leave_out, word_spans
from backread.construction.episode_replies import EpisodeReply, GraphReply, SummaryReply
from backread.construction.extracts import extract_maker
from backread.construction.keep_drop import merge
from backread.construction.keep_drop_reply import WindowReply
from backread.construction.segmentation import Segment, word_cosine
from backread.construction.tagging import RuleTagger
from backread.construction.transcript import beginning, transcript
from backread.construction.tying import tie
from backread.construction.utterances import key_utterances
from backread.errors import BackreadError
from backread.finding import grouped_hits
from backread.importers.base import answer_text
from backread.importers.locomo import parse_evidence
from backread.messages import draft_from_message
from backread.models.completions import Completion, StreamReader, short
from backread.models.json_reply import candidates, starts_complete
from backread.models.llm_rerank import read_scores
from backread.models.thinking import VisibleText, split_thinking
from backread.rendering import Candidate, fit, render
from backread.retrieval.speaker import named_speakers, without_names
from backread.server.conversations import chain as chained
from backread.server.conversations import text_of
from backread.store.history import Scope
from backread.strategies.leanmem import replies as leanmem_replies
from backread.strategies.leanmem.dating import days_in, months_in, supported_date
from backread.strategies.leanmem.matching import Constraints, match
from backread.strategies.leanmem.rules import (
    anchor_by_rule,
    attributes_in,
    gist_by_rule,
    route_by_rule,
    state_by_rule,
    tells_change,
)
from backread.strategies.lightmem import replies as lightmem_replies
from backread.strategies.lightmem.facts import names_speaker
from backread.strategies.lightmem.pieces import pieces
from backread.strategies.search_o1 import chain as search_chain
from backread.strategies.search_o1.documents import Document, Part, numbered
from backread.strategies.search_o1.reading import findings
from backread.strategies.t2mem import schemas as t2mem_replies
from backread.text import _boundaries, _folding, analysis, cues, excerpts, fencing, passages, support, times, tokens
from backread.types import Decision, Evidence, Ranking, Recall, ScoredUnit, Session, Source, Turn

HOSTILE: Mapping[str, str | tuple[str, str, str]] = {
    # What is said again and again, or what stands before it, that, and what stands behind it.
    "full stops": ".",
    "stops of all kinds": ".!?…",
    "stops and quotes": '."',
    "quotes": "\"'”’»",
    "spaces": " ",
    "spaces and a word": " " * 63 + "a",
    "white space": "\t\r\n \x0b",
    "newlines": "\n",
    "blank lines": "\n \t\n",
    "square brackets": "[",
    "citations": "[1]",
    "words with citations": "word [1] ",
    "citations without an end": "[1, ",
    "spaces in a bracket": ("[1", " ", "x"),
    "cuts": "[…cut from turn ",
    "think tags": "<think>",
    "thoughts": "<think></think>",
    "spaces in a thought": ("<think>", " ", "x"),
    "orphaned think tags": "a\n</think",
    "bars": "<|",
    "control tokens": "<|im_end|>",
    "tags": "<a_",
    "combining marks": "e\u0301\u0300\u0316",
    "digits": "1",
    "dates": "2024-01-",
    "grouped numbers": "1,000,",
    "months": "12 May ",
    "a long word": "a",
    "words": "word ",
    "names": "Ann of the ",
    "abbreviations": "a.a.a.",
    "apostrophes": "a'",
    "joined words": "a-b.c/d",
    "Chinese": "一",
    "Chinese stops": "一。」",
    "joiners": "\u200d",
    "emoji": "👨\u200d👩",
    "flags": "🇩",
    "fences": "```",
    "spaces in a fence": ("```\n", " ", "x\n```"),
    "strings in a fence": ("```\n", '\\"', "\n```"),
    "objects": '{"a":',
    "strings": '{"',
    "backslashes": ('{"a": "', "\\", '"'),
    "colons": "answer:",
    "stars": ("verdict ", "*_", "x"),
    "dashes": "- ",
    "lone surrogates": "\ud800",
    "controls": "\x00\x1f",
    "query marks": "<|begin_search_query|>",
    "numbers of lines": "1: 0.5\n",
    "quotations": "“a",
    "lists of quotes": ("[1]\nQUOTES\n", "[1] a\n", ""),
}


def hostile(name: str, size: int) -> str:
    given = HOSTILE[name]
    before, unit, after = given if isinstance(given, tuple) else ("", given, "")
    return before + (unit * (size // len(unit) + 1))[: size - len(before) - len(after)] + after


AT = datetime(2024, 5, 1, tzinfo=UTC)
COUNT = tokens.EstimateCounter()


def turn(text: str, number: int = 0, **given: Any) -> Turn:
    return Turn(f"t{number}", "s", number, "user", text, AT, said_at=AT, **given)


def document(text: str) -> Document:
    return Document((Part(turn(text), (0,), 0, len(text)),))


def line(text: str, **given: Any) -> Evidence:
    return Evidence(text, "verbatim", (Source("t0", 0, None),), 0, **given)


def recall(question: str, text: str) -> Recall:
    return Recall(question, "s", (line(text),), "", 0, "c")


def checked(reply: str, text: str = "a word 1 May") -> object:
    return check(reply, [line(text)] * 3, {"t0": turn(text)})


def fed(text: str) -> object:
    visible = VisibleText()
    return ["".join(visible.feed(text[at : at + 40]) for at in range(0, len(text), 40)), visible.end()]


def streamed(text: str) -> object:
    reader = StreamReader()
    data = b"data: " + json.dumps({"x": 16 * text}).encode() + b"\n"
    return [*itertools.chain.from_iterable(reader.feed(data[at : at + 40]) for at in range(0, len(data), 40))]


def replied(text: str) -> object:
    completion = Completion()
    completion.read({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
    return completion


def excerpted(text: str) -> object:
    wanted = {term.term for term in itertools.islice(analysis.query_terms(text[:200] + " word a 1"), 20)}
    return excerpts.excerpt(text, wanted, max_tokens=40, count=COUNT.count)


def fitted(text: str) -> object:
    return fit([Candidate(line(text), (0,))], 80, COUNT, "When did Ann say a word?")


def validated(kind: Any, **fields: Any) -> Callable[[str], object]:
    """A reply with the text in these fields; those that are None hold it alone."""

    def read(text: str) -> object:
        return kind.model_validate({name: text if value is None else value(text) for name, value in fields.items()})

    return read


def alike(stems: Iterable[str]) -> Mapping[str, float]:
    return dict.fromkeys(stems, 1.0)


def listed(text: str) -> list[str]:
    return [text]


TABLE: dict[str, Callable[[str], object]] = {
    "text._boundaries.cut_before": lambda text: _boundaries.cut_before(text, len(text) // 2, 0),
    "text._boundaries.word_end": lambda text: _boundaries.word_end(text, len(text) // 2, 0),
    "text._boundaries.word_start": lambda text: _boundaries.word_start(text, len(text) // 2, len(text)),
    "text._folding.fold_word": _folding.fold_word,
    "text._folding.normalise": _folding.normalise,
    "text._folding.stem_word": _folding.stem_word.__wrapped__,
    "text.analysis.find_terms": lambda text: list(analysis.find_terms(text, {"word", "a", "1", "一一", "=a'a"})),
    "text.analysis.index_terms": analysis.index_terms,
    "text.analysis.query_terms": analysis.query_terms,
    "text.analysis.tokens": lambda text: sum(1 for _ in analysis.tokens(text)),
    "text.cues.asks_when": cues.asks_when,
    "text.cues.named_dates": cues.named_dates,
    "text.cues.time_expressions": cues.time_expressions,
    "text.cues.turn_cues": cues.turn_cues,
    "text.excerpts.excerpt": excerpted,
    "text.excerpts.sentences": excerpts.sentences,
    "text.fencing.fence": lambda text: fencing.fence([text]),
    "text.fencing.for_model": fencing.for_model,
    "text.fencing.quote": fencing.quote,
    "text.fencing.safe": fencing.safe,
    "text.passages.split_passages": lambda text: passages.split_passages(text, max_tokens=64, count=COUNT.count),
    "text.support.content": support.content,
    "text.support.support": lambda text: support.support(text[:2000], [text]),
    "text.times.parse_time": times.parse_time,
    "text.tokens.EstimateCounter": COUNT.count,
    "answering.citations.check": checked,
    "answering.citations.check, the turn": lambda text: checked("A word [1]. Said [2]: a", text),
    "answering.citations.check, both": lambda text: checked(text[:2000] + " word [1] 1", text),
    "answering.citations.check, quoted": lambda text: checked(f"A [1].\nQUOTES\n[1] {text[: len(text) // 2]}!!", text),
    "answering.citations.find_quote": lambda text: find_quote(text, text[: len(text) // 2] + "!x"),
    "answering.extractive.quote_answer": lambda text: quote_answer(
        recall("When was a word?", text), {"t0": turn(text)}
    ),
    "rendering.fit": fitted,
    "rendering.render": lambda text: render([line(text)]),
    "models.completions.Completion": replied,
    "models.completions.StreamReader": streamed,
    "models.completions.short": short,
    "models.json_reply.candidates": lambda text: list(candidates(text)),
    "models.json_reply.starts_complete": starts_complete,
    "models.llm_rerank.read_scores": lambda text: read_scores(text, 5),
    "models.thinking.VisibleText": fed,
    "models.thinking.split_thinking": split_thinking,
    "construction.compression.leave_out": lambda text: leave_out(text, 0.5, alike),
    "construction.compression.word_spans": word_spans,
    "construction.episode_replies.EpisodeReply": validated(
        EpisodeReply, overview=lambda text: text + "a", events=lambda text: [{"what": text, "turns": text}]
    ),
    "construction.episode_replies.GraphReply": validated(
        GraphReply, relations=lambda text: [{"subject": text, "relation": text, "object": text, "turns": [text]}]
    ),
    "construction.episode_replies.SummaryReply": validated(SummaryReply, summary=lambda text: text + "a"),
    "construction.extracts.extract_maker": lambda text: extract_maker("episode", strategy="s")(
        Session("s", 1, AT, AT), [turn(text)]
    ),
    "construction.keep_drop_reply.WindowReply": validated(
        WindowReply, decisions=lambda text: [{"index": 1, "action": "KEEP", "compressed": text + "a"}]
    ),
    "construction.segmentation.word_cosine": lambda text: word_cosine(text, text),
    "construction.tagging.RuleTagger": lambda text: RuleTagger().tag([text]),
    "construction.transcript.beginning": lambda text: beginning(text.split("\n"), 0.5),
    "construction.transcript.transcript": lambda text: transcript([turn(text)], str),
    "construction.tying.tie": lambda text: tie(text[:2000], [turn(text)], [turn(text)]),
    "construction.utterances.key_utterances": lambda text: key_utterances([turn(text), turn(text, 1)]),
    "strategies.leanmem.dating.days_in": days_in,
    "strategies.leanmem.dating.months_in": months_in,
    "strategies.leanmem.dating.supported_date": lambda text: supported_date(text, [turn(text)]),
    "strategies.leanmem.matching.match": lambda text: match(Constraints((text[:2000],), temporal=(text,)), text, ()),
    "strategies.leanmem.replies.ConsolidationReply": validated(
        leanmem_replies.ConsolidationReply, op=lambda _: "add", target_id=None, topic=None
    ),
    "strategies.leanmem.replies.EventReply": validated(
        leanmem_replies.EventReply, topic=lambda _: "a", state=lambda t: t + "a"
    ),
    "strategies.leanmem.replies.GistReply": validated(leanmem_replies.GistReply, gist=lambda text: text + "a"),
    "strategies.leanmem.replies.PlanReply": validated(
        leanmem_replies.PlanReply, memory_types=lambda _: ["event"], evidence_demand=None
    ),
    "strategies.leanmem.replies.RoutingReply": validated(
        leanmem_replies.RoutingReply,
        action=lambda _: "event",
        source_indices=None,
        attributes=lambda _: None,
    ),
    "strategies.leanmem.replies.SummaryReply": validated(leanmem_replies.SummaryReply, summary=lambda text: text + "a"),
    "strategies.leanmem.replies.AttributeReply": validated(leanmem_replies.AttributeReply, attribute=None, value=None),
    "strategies.leanmem.rules.anchor_by_rule": lambda text: anchor_by_rule([turn(text)]),
    "strategies.leanmem.rules.attributes_in": attributes_in,
    "strategies.leanmem.rules.gist_by_rule": lambda text: gist_by_rule([turn(text)]),
    "strategies.leanmem.rules.route_by_rule": lambda text: route_by_rule(Segment((turn(text),), (turn(text),))),
    "strategies.leanmem.rules.state_by_rule": lambda text: state_by_rule([turn(text)]),
    "strategies.leanmem.rules.tells_change": tells_change,
    "strategies.lightmem.facts.names_speaker": lambda text: names_speaker(text, "Ann"),
    "strategies.lightmem.pieces.pieces": lambda text: pieces(turn(text), str),
    "strategies.lightmem.replies.FactsReply": lambda text: (
        lightmem_replies.reply_type(2, 2)
        .model_validate({"messages": [{"source": text, "begins": text, "facts": text}]})
        .told([text, text])
    ),
    "strategies.lightmem.replies.UpdateReply": validated(
        lightmem_replies.UpdateReply, action=lambda _: "update", new_memory=lambda text: text + "a"
    ),
    "strategies.search_o1.chain.elided": search_chain.elided,
    "strategies.search_o1.chain.native_answer": search_chain.native_answer,
    "strategies.search_o1.chain.result": lambda text: search_chain.result([text]),
    "strategies.search_o1.chain.said": search_chain.said,
    "strategies.search_o1.documents.numbered": lambda text: numbered([document(text)]),
    "strategies.search_o1.reading.findings": lambda text: findings(
        f"Useful information:\n{text}", [document("a word")]
    ),
    "strategies.t2mem.schemas.Action": validated(t2mem_replies.Action, name=lambda _: "Answer", entry_id=None),
    "strategies.t2mem.schemas.Cached": validated(t2mem_replies.Cached, text=None, **{"from": None}),
    "strategies.t2mem.schemas.StepReply": validated(t2mem_replies.StepReply, action=None, memory_cache=listed),
    "retrieval.speaker.named_speakers": lambda text: named_speakers(text, ["Ann", "May", "a"]),
    "retrieval.speaker.without_names": lambda text: without_names(text, ["Ann", "May", "a"]),
    "bench.judging.judge.reduced": reduced,
    "bench.judging.verdicts.read_value": read_value,
    "bench.judging.verdicts.read_verdict": read_verdict,
    "bench.measures.abstention.abstained": lambda text: abstained(text, "What did Ann not say?", "a word"),
    "bench.measures.answer_words.locomo_words": locomo_words,
    "bench.measures.answer_words.plain_words": plain_words,
    "importers.base.answer_text": answer_text,
    "importers.locomo.parse_evidence": lambda text: parse_evidence([text], {"D1:1": "t"}),
    "messages.draft_from_message": lambda text: draft_from_message(
        {"role": "user", "content": text + "a", "timestamp": text}, session_id="s"
    ),
    "server.conversations.chain": lambda text: chained([{"role": "assistant", "content": text}], ""),
    "server.conversations.text_of": lambda text: text_of({"role": "user", "content": [{"type": "text", "text": text}]}),
}

MODEL = "asks a model or reads a history; the text in it goes through functions of other rows"
NO_TEXT = "takes no text that anybody else wrote: numbers, ids, names of ours"
LEFT_OUT: Mapping[str, str] = {
    "construction.compression.LeaveOutWords": "in leave_out",
    "construction.segmentation.similarities": "in word_cosine",
    "construction.utterances.is_chatter": "in key_utterances",
    "strategies.lightmem.facts.fact_text": "in names_speaker",
    "answering.answerer.answer": MODEL,
    "answering.answerer.prompt_hash": NO_TEXT,
    "answering.answerer.request": MODEL,
    "construction.compression.WholeText": "leaves a text as it is",
    "construction.compression.history_weights": MODEL,
    "construction.compression.kept_words": NO_TEXT,
    "construction.episode_ranking.rank_episodes": MODEL,
    "construction.episode_ranking.turns_of": MODEL,
    "construction.episode_replies.EntityReply": "in EpisodeReply",
    "construction.episode_replies.EventReply": "in EpisodeReply",
    "construction.episode_replies.FactReply": "in EpisodeReply",
    "construction.episode_replies.RelationReply": "in GraphReply",
    "construction.episodes.draft": "in extract_maker",
    "construction.episodes.entry_lines": "in extract_maker",
    "construction.episodes.episode_prompt": NO_TEXT,
    "construction.episodes.model_maker": MODEL,
    "construction.extracts.extract_kind": NO_TEXT,
    "construction.in_order.in_order": NO_TEXT,
    "construction.keep_drop.keep_or_drop": MODEL,
    "construction.keep_drop.merge": "joins decisions: test_many_lines",
    "construction.keep_drop.prompt_hash": NO_TEXT,
    "construction.keep_drop_reply.MessageDecision": "in WindowReply",
    "construction.keep_drop_reply.reply_type": NO_TEXT,
    "construction.ledger.fingerprint": MODEL,
    "construction.ledger.marks": MODEL,
    "construction.ledger.standing": MODEL,
    "construction.ledger.unbuilt_turns": MODEL,
    "construction.ledger.waiting_sessions": MODEL,
    "construction.prompt_files.read_prompt": NO_TEXT,
    "construction.schema_limits.asked_for": NO_TEXT,
    "construction.segmentation.boundaries": NO_TEXT,
    "construction.segmentation.split": "in similarities",
    "construction.segmentation.valley_depths": NO_TEXT,
    "construction.sessions.build_sessions": MODEL,
    "construction.sessions.together": NO_TEXT,
    "construction.stretches.best_first": NO_TEXT,
    "construction.stretches.stretches": MODEL,
    "construction.topics.agreed": NO_TEXT,
    "construction.topics.attention_boundaries": NO_TEXT,
    "construction.topics.neighbours": NO_TEXT,
    "construction.topics.parted": NO_TEXT,
    "construction.topics.similarity_boundaries": NO_TEXT,
    "construction.transcript.day": NO_TEXT,
    "construction.utterances.anchors": NO_TEXT,
    "construction.window_reading.kept_turns": NO_TEXT,
    "construction.window_reading.read_windows": MODEL,
    "construction.window_reading.shortcomings": NO_TEXT,
    "construction.window_reading.window_detail": NO_TEXT,
    "models.thinking.Thoughts": "holds two texts",
    "rendering.shortened": "renders again",
    "server.conversations.Conversations": MODEL,
    "server.conversations.last_user_place": NO_TEXT,
    "strategies.leanmem.dating.day_of": NO_TEXT,
    "strategies.lightmem.facts.extract_prompt": NO_TEXT,
    "strategies.lightmem.facts.facts_maker": MODEL,
    "strategies.lightmem.pieces.pieces_maker": "in pieces",
    "strategies.lightmem.replies.MessageReply": "in FactsReply",
    "strategies.lightmem.replies.reply_type": "in FactsReply",
    "strategies.search_o1.documents.found_documents": MODEL,
    "strategies.search_o1.reading.request": "in numbered and fence",
    "strategies.t2mem.schemas.StepReplyWithoutRaw": "StepReply with fewer actions",
    "text._folding.Offsets": NO_TEXT,
    "text._folding.marks_class": NO_TEXT,
    "text._folding.symbols_class": NO_TEXT,
    "text.analysis.analyzer_version": NO_TEXT,
    "text.bm25.idf": NO_TEXT,
    "text.bm25.term_scores": NO_TEXT,
    "text.times.format_time": NO_TEXT,
    "text.tokens.TiktokenCounter": "the tokenizer of others; the estimate stands in where it is not installed",
    "text.tokens.default_counter": NO_TEXT,
}
PACKAGES = (backread.text, backread.answering, backread.construction)
MODULES = (
    *("rendering", "models.json_reply", "models.thinking", "server.conversations", "retrieval.speaker"),
    *("strategies.leanmem.dating", "strategies.leanmem.matching", "strategies.leanmem.replies"),
    *("strategies.leanmem.rules", "strategies.lightmem.facts", "strategies.lightmem.pieces"),
    *("strategies.lightmem.replies", "strategies.search_o1.chain", "strategies.search_o1.documents"),
    *("strategies.search_o1.reading", "strategies.t2mem.schemas", "bench.judging.verdicts"),
)

SMALLEST, LARGEST, STEP = 10_000, 1_000_000, 4
EXPONENT = 1.2
FLOOR, DECISIVE, SLOW = 0.002, 0.01, 0.25  # seconds: below, noise; from there on judged; enough to tell


def seconds(function: Callable[[str], object], text: str, repeats: int = 1) -> float:
    """CPU seconds of a call, the best of several; a text that is refused was read as well."""
    best = math.inf
    for _ in range(repeats):
        started = time.process_time()
        with contextlib.suppress(BackreadError, ValidationError):
            function(text)
        best = min(best, time.process_time() - started)
    return best


def looks_steep(function: Callable[[str], object], name: str) -> bool:
    """Whether the times of small texts, larger ones for what is fast, grow by more than they should."""
    size = 500
    before = seconds(function, hostile(name, size))
    while size * STEP <= LARGEST:
        size *= STEP
        now = seconds(function, hostile(name, size))
        if now > FLOOR:
            return bool(now > max(before, FLOOR / 20) * STEP**EXPONENT)
        before = now
    return False


def exponent(function: Callable[[str], object], name: str) -> float:
    """How the time grows with the length, between 10 kB and 1 MB: the least of what neighbouring sizes say.

    The least, as a machine that is busy only ever makes a time longer, and a function that takes the square of a length
    takes it at every length.
    """
    found, size = math.inf, SMALLEST
    before = seconds(function, hostile(name, size), 2)
    if before > SLOW:  # what is that slow at 10 kB shows how it grows below
        return math.log(before / seconds(function, hostile(name, size // STEP)), STEP)
    while size * STEP <= LARGEST and before < SLOW and found > EXPONENT:
        size *= STEP
        now = seconds(function, hostile(name, size), 2 if before < 0.1 else 1)
        if before > DECISIVE:
            found = min(found, math.log(now / before, STEP))
        before = now
    return found if found < math.inf else 0.0


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("row", TABLE)
def test_time_grows_about_linearly(row: str) -> None:
    function = TABLE[row]
    seconds(function, "A word (1 May).")  # what is compiled at the first call
    steep = {
        name: round(found, 2)
        for name in HOSTILE
        if all(looks_steep(function, name) for _ in range(2)) and (found := exponent(function, name)) > EXPONENT
    }
    assert not steep


def public() -> Iterator[str]:
    """The functions and classes of the modules that text goes through; types that only hold values are left out."""
    names = [
        f"{package.__name__}.{found.name}" for package in PACKAGES for found in pkgutil.iter_modules(package.__path__)
    ]
    for name in (*names, *(f"backread.{module}" for module in MODULES)):
        module = importlib.import_module(name)
        for listed_name in getattr(module, "__all__", ()):
            value = getattr(module, listed_name)
            holds = inspect.isclass(value) and (
                dataclasses.is_dataclass(value) or issubclass(value, tuple) or getattr(value, "_is_protocol", False)
            )
            if (inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value))) and not holds:
                yield f"{name.removeprefix('backread.')}.{listed_name}"


def test_no_function_over_text_is_left_out() -> None:
    measured = {row.partition(",")[0] for row in TABLE}
    found = set(public())
    assert found - measured - LEFT_OUT.keys() == set()
    assert LEFT_OUT.keys() - found == set()
    assert not measured & LEFT_OUT.keys()


class Equal:
    """A history of equal turns, as far as a search needs one, and the retriever that finds them all."""

    as_of = None

    def __init__(self, size: int) -> None:
        self.turns = {f"t{number}": turn("The same words. [1]", number) for number in range(size)}

    def corpus(self, *_: object) -> None: ...

    def still_there(self, ids: Iterable[str], *, attachments: str) -> Iterator[Turn]:
        return (self.turns[key] for key in ids)

    def search(self, _corpus: object, _question: str, top_k: int) -> Ranking:
        return Ranking(tuple(ScoredUnit(key, 1.0) for key in itertools.islice(self.turns, top_k)))


def searched(size: int) -> Callable[[], object]:
    given: Any = Equal(size)
    return lambda: grouped_hits(given, Scope(), given, "same words", 10, deep=True)


def fitted_lines(budget: int | None) -> Callable[[list[Evidence], dict[str, Turn]], object]:
    return lambda shown, _: fit([Candidate(item, (item.rank,)) for item in shown], budget, COUNT, "same")


def quoted_lines(shown: list[Evidence], turns: dict[str, Turn]) -> object:
    return quote_answer(Recall("same", "s", tuple(shown), "", 0, "c"), turns)


def checked_lines(shown: list[Evidence], turns: dict[str, Turn]) -> object:
    return check("".join(f"Same words [{number}]. " for number in range(1, len(shown) + 1)), shown, turns)


def merged(_: object, turns: dict[str, Turn]) -> object:
    return merge([[Decision(turn_id, True, "Same.", place)] * 3 for place, turn_id in enumerate(turns)])


def told_apart(_: object, turns: dict[str, Turn]) -> object:
    return key_utterances([turn(f"Same words {number}", number) for number in range(len(turns))])


def lines(kind: Callable[[list[Evidence], dict[str, Turn]], object]) -> Callable[[int], Callable[[], object]]:
    def of_size(size: int) -> Callable[[], object]:
        turns = Equal(size).turns
        shown = [Evidence("Same words.", "verbatim", (Source(key),), rank) for rank, key in enumerate(turns)]
        return lambda: kind(shown, turns)

    return of_size


LISTS: Mapping[str, Callable[[int], Callable[[], object]]] = {
    "search": searched,
    "fit some": lines(fitted_lines(500)),
    "fit most": lines(fitted_lines(30_000)),
    "fit all": lines(fitted_lines(None)),
    "render": lines(lambda shown, _: render(shown)),
    "quote": lines(quoted_lines),
    "check": lines(checked_lines),
    "merge": lines(merged),
    "key utterances": lines(told_apart),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_many_lines(name: str) -> None:
    def measured(size: int) -> float:
        call = LISTS[name](size)
        call()
        times = []
        for _ in range(3):
            started = time.process_time()
            call()
            times.append(time.process_time() - started)
        return min(times)

    small, large = 1000, 4000
    before = measured(small)
    for _ in range(2):
        now = measured(large)
        if now < 0.02 or now <= before * 4**EXPONENT:
            return
        before, large = now, 4 * large
    raise AssertionError(f"{large // 4} lines take {now:.2f} s")
