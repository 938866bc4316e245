"""An entry for each session: what happened in it, as a page, a summary or a graph, written by a model.

T2Mem's offline stage (arXiv 2610.13348, section 3.1, equation 3): one call a session gives one entry, linked to its
session. The schema and the prompts are ours: the paper's are images. Time, ids and links are filled in by code.
`construction.extracts` makes the same without a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from backread.construction.prompt_files import Prompt, read_prompt
from backread.construction.sessions import Made, Make
from backread.construction.transcript import beginning, day, transcript
from backread.construction.tying import tie
from backread.models.base import ChatMessage, ChatModel
from backread.models.context_window import with_smaller_prompts
from backread.models.structured import Structured, complete_as, known_ids
from backread.text.fencing import fence, for_model
from backread.types import Degradation, EntryDraft, Session, Source, Turn

if TYPE_CHECKING:
    from backread.construction import episode_replies as replies

__all__ = ["Line", "Representation", "draft", "entry_lines", "episode_prompt", "model_maker"]

Representation = Literal["episode", "summary", "graph"]
"""What an entry is: T2Mem's semi-structured page, or one of the two it is compared with."""

MAX_TOKENS = 1024
MOST_TOKENS = 2048  # a page of more is a model that goes round in circles
SMALLER_PROMPTS = 5  # down to 1/32 of a session: the window is not known beforehand

_YEAR = re.compile(r"\d{4}")


class Line(NamedTuple):
    """A line of an entry as it is shown and searched, and the turns it names."""

    text: str
    turn_ids: tuple[str, ...] = ()


def episode_prompt(representation: Representation) -> Prompt:
    """The prompt of a representation."""
    return read_prompt("backread.construction", representation)


def model_maker(chat: ChatModel, representation: Representation, *, strategy: str) -> Make:
    """Makes the entry of a session with a model: its kind is `representation`, its id "<kind>:<session id>".

    The call is asked again once when its reply can't be used. A session that doesn't fit the model's window is read up
    to where it does; its end is left out, which `degraded` says.
    """

    def make(session: Session, turns: Sequence[Turn]) -> Made:
        from backread.construction import episode_replies as replies

        model_type = {"episode": replies.EpisodeReply, "summary": replies.SummaryReply, "graph": replies.GraphReply}
        whole = transcript(turns, str)
        cut = False

        def send(share: float) -> Structured[Any]:
            nonlocal cut
            cut = share < 1
            messages = _request(episode_prompt(representation), session, beginning(whole, share))
            return complete_as(
                chat,
                messages,
                model_type[representation],
                purpose="build",
                max_tokens=MAX_TOKENS,
                most_tokens=MOST_TOKENS,
                instruct=False,
            )

        found = with_smaller_prompts(send, tries=SMALLER_PROMPTS)
        data = _checked(found.value, turns)
        made = draft(strategy, representation, session, turns, data, chat.name, episode_prompt(representation).hash)
        reason = "sessions are longer than the model's window: their end was not read"
        return Made((made,), found.usage, (Degradation("build", reason, 1),) if cut else ())

    return make


def draft(
    strategy: str,
    kind: str,
    session: Session,
    turns: Sequence[Turn],
    data: Mapping[str, Any],
    model: str | None = None,
    prompt_hash: str | None = None,
) -> EntryDraft:
    """The entry of a session: what was found in it, with what code knows. It rests on all of the session's turns."""
    known = {
        "session_id": session.session_id,
        "session_time": None if session.started_at is None else session.started_at.isoformat(),
        "participants": list(dict.fromkeys(turn.name for turn in turns)),
    }
    data = {**data, **known}
    shown = [f"{day(session.started_at)}: {', '.join(known['participants'] or ())}"]
    return EntryDraft(
        entry_id=f"{kind}:{session.session_id}",
        strategy=strategy,
        kind=kind,
        data=data,
        index_text="\n".join([*shown, *(line.text for line in entry_lines(data))]),
        sources=tuple(Source(turn.turn_id, 0, len(turn.text)) for turn in turns),
        said_at=session.started_at,
        model=model,
        prompt_hash=prompt_hash,
    )


def entry_lines(data: Mapping[str, Any]) -> list[Line]:
    """An entry's lines, of any representation, in the order they are shown; without its time and participants."""
    lines = [Line(data[name]) for name in ("title", "overview", "summary") if _says(data.get(name, ""))]
    if topics := data.get("topics"):
        lines.append(Line(f"Topics: {', '.join(topics)}"))
    if entities := data.get("entities"):
        lines.append(Line(f"Names: {'; '.join(map(_entity, entities))}"))
    lines += [Line(_event(item), tuple(item["turns"])) for item in data.get("events", ())]
    lines += [Line(_joined(item["subject"], item["fact"]), tuple(item["turns"])) for item in data.get("facts", ())]
    lines += [Line(_relation(item), tuple(item["turns"])) for item in data.get("relations", ())]
    if cues := data.get("temporal_cues"):
        lines.append(Line(f"In time: {'; '.join(cues)}"))
    lines += [Line(f"{item['speaker']}: {item['text']}", (item["turn_id"],)) for item in data.get("sentences", ())]
    return lines


def _entity(item: Mapping[str, Any]) -> str:
    about = ": ".join(part for part in (item.get("kind"), item.get("note")) if part)
    return f"{item['name']} ({about})" if about else str(item["name"])


def _event(item: Mapping[str, Any]) -> str:
    said = f"“{item['when_said']}”" if item["when_said"] else ""
    when = ", ".join(part for part in (item["when_absolute"], said) if part)
    told = _joined(item["who"], item["what"])
    return f"{when}: {told}" if when else told


def _relation(item: Mapping[str, Any]) -> str:
    told = f"{item['subject']} – {item['relation']} – {item['object']}"
    return f"{item['when']}: {told}" if item.get("when") else told


def _joined(who: str, what: str) -> str:
    """Who and what, without the name twice where a model put it into both."""
    return what if not who or what.casefold().startswith(who.casefold()) else f"{who}: {what}"


def _request(prompt: Prompt, session: Session, lines: Sequence[str]) -> list[ChatMessage]:
    known = f"The session took place on {day(session.started_at)}."
    if session.started_at is None:
        known = "When the session took place is not known: give no date that is not said in it."
    asked = f"{fence(lines, label='session')}\n\n{known}\n\n{prompt.form}"
    return [ChatMessage("system", prompt.rules), ChatMessage("user", asked)]


def _checked(
    reply: replies.EpisodeReply | replies.SummaryReply | replies.GraphReply, turns: Sequence[Turn]
) -> dict[str, Any]:
    """A reply as data: line numbers become turn ids; dates and wordings that nothing supports go, and blank items."""
    data: dict[str, Any] = reply.model_dump()
    words = _folded(" ".join(turn.text for turn in turns))
    years = set(_YEAR.findall(words)) if all(turn.time is None for turn in turns) else None
    for name, said in (("events", "what"), ("facts", "fact"), ("relations", "object")):
        if name not in data:
            continue
        data[name] = [item for item in data[name] if _says(item[said])]
        for item in data[name]:
            for field in ("when_absolute", "when"):
                if field in item:
                    item[field] = _date(item[field], years)
            if item.get("when_said") and _folded(item["when_said"]) not in words:
                item["when_said"] = ""  # it is what was said or nothing
            item["turns"] = _tied(item, turns)
    if "entities" in data:
        data["entities"] = [item for item in data["entities"] if _says(item["name"])]
    for name in ("topics", "temporal_cues"):
        if name in data:
            data[name] = [item for item in data[name] if _says(item)]
    return data


def _says(text: str) -> bool:
    """False for what is blank, or the dots of the prompt's form."""
    return any(sign.isalnum() for sign in text)


def _folded(text: str) -> str:
    """As wordings are compared: as they stand in a prompt, on one line, without case."""
    return " ".join(for_model(text).casefold().split())


def _date(value: str, years: set[str] | None) -> str:
    """A date as given; "" when it has no number, or, where only `years` are said, another year."""
    if not any(sign.isdigit() for sign in value) or (
        years is not None and not years.intersection(_YEAR.findall(value))
    ):
        return ""
    return value


def _tied(item: Mapping[str, Any], turns: Sequence[Turn]) -> list[str]:
    """Ids of the turns an item rests on: those of the lines it names that share a word with it, else any that fit."""
    numbered = {str(place): turn for place, turn in enumerate(turns, 1)}
    named = known_ids(map(str, item["turns"]), numbered, lambda number: number).items
    words = " ".join(value for key, value in item.items() if isinstance(value, str) and key != "when_absolute")
    return list(dict.fromkeys(source.turn_id for source in tie(words, [numbered[key] for key in named], turns)))
