"""The chat proxy in front of a real server with a real model, the smallest: SmolLM2 on xllamacpp."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from running import running

from backread import Memory
from backread.models.fetch import MODELS, models_dir
from backread.models.local import LocalServer
from backread.server.app import create_app
from backread.server.proxy import proxy_router
from backread.server.upstream import Upstream

DIRECTORY = models_dir()  # read before tests get an environment of their own
FILES = [DIRECTORY / "smollm2" / file.name for file in MODELS["smollm2"].files]


def _missing() -> str | None:
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed: pip install 'backread[local]'"
    if not all(file.is_file() for file in FILES):
        return f"no SmolLM2 weights in {DIRECTORY}: run `backread models fetch smollm2`"
    return None


pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.enable_socket,
    pytest.mark.timeout(240),
    pytest.mark.skipif(_missing() is not None, reason=str(_missing())),
]

KEY = "I put the spare key under the blue pot."
QUESTION = "Where did I put the spare key?"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[tuple[openai.OpenAI, Memory]]:
    server = LocalServer.start(FILES[0], threads=2, context=2048)
    try:
        with Memory.open(tmp_path / "m.db", embedder="none") as memory:
            app = create_app(memory)
            behind = Upstream.at(server.base_url, api_key=server.api_key)
            app.include_router(proxy_router(behind, keyed=False, user_id="ann"))
            with (
                running(app, lifespan="on") as url,
                openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=120) as made,
            ):
                yield made, memory
    finally:
        server.close()


def test_a_real_model_remembers(client: tuple[openai.OpenAI, Memory]) -> None:
    chats, memory = client
    ask: dict[str, Any] = {"model": "smollm2", "temperature": 0, "max_tokens": 40}
    system: Any = {"role": "system", "content": "Answer in one short sentence."}
    first = chats.chat.completions.create(messages=[system, {"role": "user", "content": KEY}], **ask)
    assert first.choices[0].message.content
    assert (first.model_extra or {})["backread"]["citations"] == []
    question: Any = [system, {"role": "user", "content": QUESTION}]
    second = chats.chat.completions.create(messages=question, **ask)
    assert "blue pot" in (second.choices[0].message.content or "")
    told = (second.model_extra or {})["backread"]
    assert KEY in [line["text"] for line in told["citations"]]
    assert told["degraded"] == []
    assert second.usage is not None
    assert first.usage is not None
    assert second.usage.prompt_tokens > first.usage.prompt_tokens + 100  # the evidence was read
    with chats.chat.completions.stream(messages=question, stream_options={"include_usage": True}, **ask) as events:
        extra = [event.chunk.model_extra for event in events if event.type == "chunk" and event.chunk.model_extra]
        final = events.get_final_completion()
    assert "blue pot" in (final.choices[0].message.content or "")
    assert all(len(item["backread"]["stored"]) <= 1 for item in extra if "backread" in item)  # the reply, if it differs
    turns = list(memory.turns(user_id="ann"))
    left = {turn.supersedes for turn in turns}
    assert [turn.text for turn in turns if turn.turn_id not in left] == [
        KEY,
        first.choices[0].message.content,
        QUESTION,
        final.choices[0].message.content,
    ]
    assert len(list(chats.models.list())) == 1
