"""Inputs nobody meant: damaged files for importers, requests of every shape for REST, MCP, the page and the proxy.

Nothing may end in anything but an answer or an error that says what is wrong with the input: no status 500, no
exception that isn't a `BackreadError`, and no call that takes longer than `SLOW` seconds.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import anyio
import httpx2
from attack_ledger import Outcome
from attack_shapes import from_schema, junk, mutated, mutated_bytes
from chat_samples import Behind, completion, proxied
from mcp.client.client import Client
from rest_samples import rest

from backread import Memory
from backread.errors import BackreadError
from backread.importers import IMPORTERS, importer
from backread.server.mcp import create_server
from backread.server.tools import TOOLS
from backread.settings import Settings
from backread.testing.fakes import HashEmbedder

__all__ = ["SURFACES", "fuzz"]

SLOW: Final = 5.0
_GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden" / "importers"
Tell = Callable[[int], None]


@contextmanager
def _memory() -> Iterator[Memory]:
    folder = Path(tempfile.mkdtemp(prefix="backread-attack-"))
    try:
        settings = Settings(path=folder / "m.db", embedder="none")
        with Memory.open(embedder=HashEmbedder(16), settings=settings) as memory:
            for user in ("ann", "bo"):
                for session in ("s1", "s2"):
                    talk = [
                        {"role": "user", "content": f"{user} has a lamp {n}.", "id": f"{session}m{n}"} for n in range(4)
                    ]
                    memory.add(talk, user_id=user, session_id=session)
                memory.build(user_id=user, strategy="lightmem", flush=True)
            yield memory
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Watch:
    """Runs one input after the other, and notes what goes wrong and what takes long."""

    def __init__(self, name: str, inputs: int, tell: Tell) -> None:
        self.outcome, self._inputs, self._tell = Outcome(f"fuzz: {name}"), inputs, tell
        self._started = time.monotonic()

    def __iter__(self) -> Iterator[int]:
        for number in range(self._inputs):
            self._began = time.monotonic()
            yield number
            took = time.monotonic() - self._began
            self.outcome.figures["slowest ms"] = max(self.outcome.figures["slowest ms"], round(took * 1000))
            self.outcome.attempts += 1
            self._tell(number + 1)
        self.outcome.seconds = time.monotonic() - self._started

    def judge(self, what: str, status: int | str, fault: str | None) -> None:
        """Note how an input was answered."""
        self.outcome.figures[f"answered {status}"] += 1
        took = time.monotonic() - self._began
        if fault is not None:
            self.outcome.fault(f"{what[:400]}: {fault[:200]}")
        if took > SLOW:
            self.outcome.fault(f"{what[:400]}: took {took:.1f} s")


def _importers(inputs: int, rng: random.Random, tell: Tell) -> Outcome:
    """Golden files of each format, damaged as bytes and as JSON, read and stored."""
    files = sorted(_GOLDEN.iterdir())
    watch = _Watch("importers", inputs, tell)
    formats = {"messages.jsonl": "jsonl", "locomo.json": "locomo", "longmemeval.json": "longmemeval"}
    with _memory() as memory:
        file = memory.settings.path.with_name("import.json")
        for number in watch:
            golden = files[number % len(files)]
            data = golden.read_bytes()
            if rng.random() < 0.5:
                data = mutated_bytes(data, rng)
            elif golden.suffix == ".jsonl":
                data = b"\n".join(_again(line, rng) for line in data.splitlines() if line.strip())
            else:
                data = _again(data, rng)
            file.write_bytes(data)
            name = rng.choice(list(IMPORTERS)) if rng.random() < 0.1 else formats.get(golden.name, "jsonl")
            fault, status = None, "read"
            try:
                found = importer(name)(file, user_id="ann" if name == "jsonl" else None)
                for session in found.sessions:
                    memory.add_turns(session.turns, user_id=session.user_id)
            except BackreadError as error:
                status = type(error).__name__
            except Exception as error:  # noqa: BLE001 -- what this looks for
                status, fault = "other error", f"{type(error).__name__}: {error}"
            watch.judge(f"{name} {data[:300]!r}", status, fault)
    return watch.outcome


def _again(data: bytes, rng: random.Random) -> bytes:
    try:
        return json.dumps(mutated(json.loads(data), rng)).encode()
    except ValueError:  # a line that is damaged as it is
        return mutated_bytes(data, rng)


def _told(response: httpx2.Response) -> str | None:
    """What is wrong with an answer."""
    if response.status_code >= 500 and response.status_code not in (502, 503):
        return f"status {response.status_code}: {response.text}"
    kind = response.headers.get("content-type", "")
    if response.status_code >= 400 and "json" not in kind and "html" not in kind:
        return f"status {response.status_code} without a problem: {kind} {response.text}"
    if kind.split(";")[0] in ("application/json", "application/problem+json"):
        try:
            json.loads(response.text)
        except ValueError:
            return f"no JSON: {response.text}"
    return None


def _headers(rng: random.Random) -> dict[str, str]:
    """Headers of a request: mostly what belongs there."""
    given = {"Content-Type": "application/json"}
    if rng.random() < 0.1:
        given["Content-Type"] = rng.choice(("text/plain", "", "application/json; charset=utf-16", "x" * 5000))
    if rng.random() < 0.1:
        name = rng.choice(("Accept", "Accept-Encoding", "Authorization", "Cookie", "HX-Request", "X-Odd", "Range"))
        given[name] = rng.choice(("", "text/event-stream", "Bearer \xff", "a" * 9000, "*/*;q=x", "bytes=0-1", "=;="))
    return given


def _rest(inputs: int, rng: random.Random, tell: Tell) -> Outcome:
    """Requests of the shapes that OpenAPI describes, and of others."""
    watch = _Watch("REST", inputs, tell)
    with _memory() as memory, rest(memory) as client:
        described = client.get("/v1/openapi.json")
        routes = [
            (method.upper(), path, operation)
            for path, item in described["paths"].items()
            for method, operation in item.items()
            if method in ("get", "post", "put", "patch", "delete")
        ]
        for _ in watch:
            method, path, operation = rng.choice(routes)
            target, body = _request_of(path, operation, described, rng)
            try:
                response = client.client.request(method, target, content=body, headers=_headers(rng))
            except (httpx2.InvalidURL, UnicodeEncodeError, httpx2.LocalProtocolError):
                watch.judge(target, "not sent", None)
                continue
            watch.judge(f"{method} {target} {body!r:.300}", response.status_code, _told(response))
    return watch.outcome


def _request_of(
    path: str, operation: Mapping[str, Any], described: Mapping[str, Any], rng: random.Random
) -> tuple[str, bytes | None]:
    known = {
        "user_id": ("ann", "bo", "carl"),
        "turn_id": ("s1m1", "s2m2", "nothing"),
        "session_id": ("s1", "s2"),
        "build_id": ("b-1",),
    }
    for name, values in known.items():
        value = rng.choice(values) if rng.random() < 0.8 else str(junk(rng))[:2000]
        path = path.replace(f"{{{name}}}", quote(value.encode("utf-8", "surrogatepass"), safe="") or "-")
    asked = []
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "query" and rng.random() < 0.5:
            value = from_schema(parameter["schema"], described, rng)
            asked.append(f"{parameter['name']}={quote(str(value).encode('utf-8', 'surrogatepass'), safe='')[:3000]}")
    if rng.random() < 0.05:
        asked.append(rng.choice(("x", "a=b", "%ff=%zz", "limit=1&limit=2", "&&&", "cursor=" + "A" * 400)))
    target = f"{path}?{'&'.join(asked)}" if asked else path
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return target, rng.choice((None, None, None, b"{}", b"\x00"))
    value = from_schema(content["schema"], described, rng)
    data = json.dumps(mutated(value, rng) if rng.random() < 0.4 else value).encode()
    return target, mutated_bytes(data, rng) if rng.random() < 0.15 else data


def _page(inputs: int, rng: random.Random, tell: Tell) -> Outcome:
    """Addresses and forms of the page."""
    watch = _Watch("page", inputs, tell)
    views = ("", "/sessions/{s}", "/turns/{t}", "/search", "/ask", "/entries", "/builds", "/builds/{b}/cancel")
    names = ("q", "page", "question", "mode", "from", "to", "top_k", "speaker", "session", "strategy", "retriever",
             "kind", "budget", "asked_at", "as_of", "seen", "next", "key", "flush", "maintain")  # fmt: skip
    values = ("lamp", "1", "0", "-1", "9" * 30, "bm25", "hybrid", "2024-01-01", "2024-13-99", "t2mem", "lightmem",
              "none", "default", "/", "//evil.example", "\x00", "on")  # fmt: skip
    with _memory() as memory, rest(memory) as client:
        for _ in watch:
            path = rng.choice(
                ("/", "/ui/settings", "/ui/signin", "/ui/signin/end", "/ui/reports", "/ui/x", "/ui/static/x")
            )
            if rng.random() < 0.8:
                path = f"/ui/users/{rng.choice(('ann', 'bo', 'carl', '%ff', '%2e%2e'))}{rng.choice(views)}"
                path = path.format(s=rng.choice(("s1", "%00")), t=rng.choice(("s1m1", "%ed%a0%80")), b="b-1")
            given = {
                name: rng.choice(values) if rng.random() < 0.8 else str(junk(rng))[:3000]
                for name in rng.sample(names, rng.randrange(6))
            }
            pairs = "&".join(f"{k}={quote(v.encode('utf-8', 'surrogatepass'))}" for k, v in given.items())
            headers = {"HX-Request": "true"} if rng.random() < 0.3 else {}
            if rng.random() < 0.5:
                response = client.client.get(f"{path}?{pairs}", headers=headers, follow_redirects=False)
            else:
                form = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
                body = mutated_bytes(pairs.encode(), rng) if rng.random() < 0.2 and pairs else pairs.encode()
                response = client.client.post(path, content=body, headers=headers | form, follow_redirects=False)
            watch.judge(f"{path}?{pairs}", response.status_code, _told(response))
    return watch.outcome


def _proxy(inputs: int, rng: random.Random, tell: Tell) -> Outcome:
    """Chats of every shape, and answers of every shape from the server behind."""
    watch = _Watch("proxy", inputs, tell)
    plain = {"role": "user", "content": "Where is the lamp?"}
    call = {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talks = (
        [plain],
        [{"role": "system", "content": "Be kind."}, plain, {"role": "assistant", "content": "Here."}, plain],
        [plain, {"role": "assistant", "content": None, "tool_calls": [call]},
         {"role": "tool", "tool_call_id": "t", "content": "lamp"}, plain],
        [{"role": "user", "content": [{"type": "text", "text": "lamp"}, {"type": "image_url", "image_url": {}}]}],
    )  # fmt: skip

    def answer(request: httpx2.Request) -> httpx2.Response:
        body = completion("In the attic.") if rng.random() < 0.6 else mutated(completion("In the attic."), rng)
        data = json.dumps(body).encode()
        if rng.random() < 0.2:
            kind, lines = "text/event-stream", b"data: " + data + b"\n\ndata: [DONE]\n\n"
            data = mutated_bytes(lines, rng) if rng.random() < 0.5 else lines
        else:
            kind = rng.choice(("application/json", "application/json", "text/html", ""))
        return httpx2.Response(
            rng.choice((200, 200, 200, 200, 404, 429, 500)), content=data, headers={"Content-Type": kind}
        )

    with _memory() as memory, proxied(memory, Behind(answer)) as chats:
        for _ in watch:
            body: Any = {"model": "m", "messages": rng.choice(talks), "stream": rng.random() < 0.2}
            if rng.random() < 0.7:
                body = mutated(body, rng)
            data = json.dumps(body).encode()
            data = mutated_bytes(data, rng) if rng.random() < 0.1 else data
            headers = {"Content-Type": "application/json", "X-Backread-User": rng.choice(("ann", "bo", "%", "a%2Fb"))}
            before = len(chats.behind.requests)
            response = chats.client.post("/v1/chat/completions", content=data, headers=headers)
            passed_on = len(chats.behind.requests) > before  # then the answer is that of the server behind
            watch.judge(f"{data!r:.400}", response.status_code, None if passed_on else _told(response))
            del chats.behind.requests[:]
            if passed_on and b"Internal Server Error" in response.content[:200]:
                watch.outcome.fault(f"{data!r:.400}: {response.text[:200]}")
    return watch.outcome


def _mcp(inputs: int, rng: random.Random, tell: Tell) -> Outcome:
    """Calls of tools with arguments of the shapes they describe, and of others."""
    watch = _Watch("MCP", inputs, tell)

    async def calls(memory: Memory) -> None:
        async with Client(create_server(memory, user_id="ann"), mode="legacy") as client:
            listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            for _ in watch:
                name = rng.choice(list(TOOLS))
                value = from_schema(listed[name], {}, rng)
                value = mutated(value, rng) if rng.random() < 0.3 else value
                arguments = value if isinstance(value, dict) else {"x": value}
                fault, status = None, "well"
                try:
                    result = await client.call_tool(name, arguments)
                    text = str(result.content[0].text)  # type: ignore[union-attr]
                    status = "an error" if result.is_error else "well"
                    if "was not expected" in text:
                        fault = text
                except UnicodeEncodeError:  # the client's own: it can't send half of a surrogate pair
                    status = "not sent"
                except Exception as error:  # noqa: BLE001 -- what this looks for
                    status, fault = "no result", f"{type(error).__name__}: {error}"
                watch.judge(f"{name} {json.dumps(arguments)[:400]}", status, fault)

    with _memory() as memory:
        anyio.run(calls, memory)
    return watch.outcome


SURFACES: Final[Mapping[str, Callable[[int, random.Random, Tell], Outcome]]] = {
    "importers": _importers,
    "rest": _rest,
    "mcp": _mcp,
    "page": _page,
    "proxy": _proxy,
}


def fuzz(surface: str, inputs: int, *, seed: int = 1, progress: Tell = lambda number: None) -> Outcome:
    """Send that many inputs to a surface.

    Args:
        surface: one of `SURFACES`.
        inputs: how many.
        seed: of the inputs.
        progress: told how many are done.
    """
    return SURFACES[surface](inputs, random.Random(f"{surface} {seed}"), progress)
