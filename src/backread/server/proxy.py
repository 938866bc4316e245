"""A chat server that remembers: OpenAI's chat API in front of another server, with memory in between.

A request is kept, evidence for its last question is added, and it goes on to the server behind; what comes back goes
through as it is, is kept once it is complete, and says in one field more what the model was given. Memory that fails
never keeps a chat from going on: what is missing is said. Other paths of the server behind go through as they are.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote

import anyio
import httpx2
from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from backread.server.chat_replies import Reply, insert, with_object
from backread.server.conversations import Conversations, Taken
from backread.server.problems import problem_of
from backread.server.remembering import Forms, prompt_hash, recall_for
from backread.server.requests import PathText
from backread.server.service import JsonOnly, Service
from backread.server.tool_results import EvidenceLine, carried, recalled
from backread.server.upstream import Upstream, leads_elsewhere, passed_back
from backread.types import Degradation, Recall
from backread.wire import json_text

__all__ = ["Remembered", "proxy_router"]

_log = logging.getLogger(__name__)

RECALL_SECONDS: Final = 10.0
"""How long a chat waits for evidence before it goes on without."""

_REFUSED: Final = frozenset({400, 413, 422, 500})
"""What a server may answer because of the evidence: too long for its window, or no place for it in its template."""

_CLIENT_GONE: Final = 499
_NAME: Final[TypeAdapter[str]] = TypeAdapter(PathText)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Remembered:
    """The field `backread` of a reply.

    Attributes:
        user_id: whose history.
        session_id: the session of this conversation; None when it could not be kept.
        stored: turns that this request added, the reply's last.
        citations: the lines of evidence the model was shown, each with the turns it rests on.
        tokens: tokens of them, as shown.
        prompt_hash: of our words around them.
        degraded: what was missing, or worked less well than it should.
    """

    user_id: str
    session_id: str | None
    stored: tuple[str, ...]
    citations: tuple[EvidenceLine, ...]
    tokens: int
    prompt_hash: str
    degraded: tuple[Degradation, ...]


@dataclass(slots=True)
class _Chat:
    """A request on its way."""

    service: Service
    conversations: Conversations
    user_id: str
    at: datetime
    single: bool
    taken: Taken | None = None
    recall: Recall | None = None
    refused: bool = False
    degraded: list[Degradation] = field(default_factory=list)

    def headers(self) -> dict[str, str]:
        told = {}
        if self.taken is not None and self.taken.session_id is not None:
            told["X-Backread-Session"] = _encoded(self.taken.session_id)
        if self.degraded:
            told["X-Backread-Degraded"] = ", ".join(dict.fromkeys(item.part for item in self.degraded))
        return told


class _RefusedError(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def proxy_router(
    upstream: Upstream, *, keyed: bool, user_id: str | None = None, recall_seconds: float = RECALL_SECONDS
) -> APIRouter:
    """The routes `/v1/chat/completions`, `/v1/models` and all that the app has not, for an app that `create_app` made.

    Args:
        upstream: the server behind.
        keyed: True when the app has keys: then a client's Authorization is for it, and goes no further.
        user_id: whose history a chat belongs to that names nobody.
        recall_seconds: how long a chat waits for evidence.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, object]]:
        async with upstream.client() as client:
            yield {
                "proxy": _Proxy(
                    upstream, client, Conversations(app.state.service.memory), keyed, user_id, recall_seconds
                )
            }

    router = APIRouter(prefix="/v1", include_in_schema=False, lifespan=lifespan)
    router.add_api_route("/chat/completions", _chat, methods=["POST"], dependencies=[JsonOnly])
    router.add_api_route("/models", _models, methods=["GET"])
    router.add_api_route("/models/{name:path}", _models, methods=["GET"])
    router.add_api_route("/{path:path}", _others, methods=["POST"], dependencies=[JsonOnly])
    return router


async def _chat(request: Request) -> Response:
    proxy: _Proxy = request.state.proxy
    return await _answered(request, proxy.chat(request))


async def _models(request: Request) -> Response:
    proxy: _Proxy = request.state.proxy
    return await _answered(request, proxy.models(request))


async def _others(request: Request) -> Response:
    proxy: _Proxy = request.state.proxy
    return await _answered(request, proxy.through(request))


async def _answered(request: Request, work: Awaitable[Response]) -> Response:
    """What the work gives, in OpenAI's form where it fails."""
    try:
        return await work
    except _RefusedError as error:
        return _error(error.status, str(error), error.code)
    except httpx2.TimeoutException as error:
        _log.warning("the server behind took too long: %s", _said(request, error))
        return _error(504, "the server behind took too long", "upstream_timeout")
    except httpx2.HTTPError as error:
        _log.warning("the server behind can't be reached: %s", _said(request, error))
        return _error(502, "the server behind can't be reached, or broke off", "upstream_unreachable")


def _said(request: Request, error: httpx2.HTTPError) -> str:
    proxy: _Proxy = request.state.proxy
    return str(proxy.upstream.access.cleaned(repr(error)))


class _Proxy:
    """What the routes share while the app runs."""

    def __init__(
        self,
        upstream: Upstream,
        client: httpx2.AsyncClient,
        conversations: Conversations,
        keyed: bool,
        user_id: str | None,
        recall_seconds: float,
    ) -> None:
        self.upstream, self._client, self._conversations = upstream, client, conversations
        self._forms = Forms()
        self._keyed, self._user_id, self._recall_seconds = keyed, user_id, recall_seconds

    async def models(self, request: Request) -> Response:
        """The server's own answer."""
        name = request.path_params.get("name")
        if name is not None and leads_elsewhere(name):
            raise _RefusedError(404, f"there is no model {name!r}", "model_not_found")
        response = await self._send(request, "/models" if name is None else f"/models/{name}", None)
        answer = self.upstream.access.cleaned(await _while_there(request, response.aread()))
        return Response(answer, response.status_code, self._headers(response))

    async def through(self, request: Request) -> Response:
        """The server's own answer to what is none of ours: embeddings, completions of a text, …; nothing is kept."""
        path = request.path_params["path"]
        described = await run_in_threadpool(request.app.openapi)
        own = {"chat", "models", *(each.split("/")[2] for each in described["paths"] if each.startswith("/v1/"))}
        if leads_elsewhere(path) or path.partition("/")[0] in own:
            raise _RefusedError(404, f"there is no {request.url.path}", "not_found")
        response = await self._send(request, f"/{path}", await request.body())
        if response.is_redirect:
            await response.aclose()
            raise _RefusedError(502, "the server behind leads elsewhere", "upstream_redirect")
        return _Stream(response.aiter_bytes(), response, self._headers(response))

    async def chat(self, request: Request) -> Response:
        """A chat completion, with memory."""
        body = await request.body()
        data = _object(body)
        service: Service = request.app.state.service
        at = datetime.now(service.memory.settings.zone_info)
        chat = _Chat(service, self._conversations, self._user(request, data), at, single=data.get("n") in (None, 1))
        messages = data.get("messages")
        if not isinstance(messages, list) or not messages:  # what becomes of that is for the server behind to say
            return await self._forward(request, chat, body, body)
        await self._take(chat, _header(request, "x-backread-session"), messages)
        await self._recall(chat, messages)
        if chat.recall is None or not chat.recall.evidence:
            return await self._forward(request, chat, body, body)
        told, other = self._forms.told(str(data.get("model")), messages, chat.recall)
        sent = json.dumps({**data, "messages": told}).encode()
        response = await self._forward(request, chat, sent, body)
        if chat.refused and told != other:
            self._forms.refused(str(data.get("model")))
        return response

    def _user(self, request: Request, data: Mapping[str, Any]) -> str:
        """Whose history: the key's user, else the header's, the field's, or the one that was configured."""
        owner: str | None = request.state.principal.user_id
        named = _header(request, "x-backread-user")
        if owner is not None:
            if named not in {None, owner}:
                raise _RefusedError(403, "this key is not for this user", "forbidden")
            return owner
        given = data.get("user")
        if named is None and isinstance(given, str) and given.strip():
            named = given
        if (named or self._user_id) is None:
            how = "send X-Backread-User or the field `user`, or start the server with --user"
            raise _RefusedError(400, f"whose memory is this? {how}", "no_user")
        return named or self._user_id or ""

    async def _take(self, chat: _Chat, session_id: str | None, messages: list[Any]) -> None:
        work = run_in_threadpool(self._conversations.take, chat.user_id, session_id, messages, chat.at)
        chat.taken = await _tried("store", work, chat.degraded)
        if chat.taken is not None:
            chat.degraded.extend(chat.taken.degraded)
            chat.service.metrics.turns.inc(len(chat.taken.stored))

    async def _recall(self, chat: _Chat, messages: list[Any]) -> None:
        shown = frozenset[str]() if chat.taken is None else frozenset((*chat.taken.turn_ids, *chat.taken.later))
        find = partial(recall_for, chat.service.memory, chat.user_id, messages, shown, chat.at)
        work = asyncio.get_running_loop().run_in_executor(chat.service.asking, find)
        chat.recall = await _tried("recall", asyncio.wait_for(work, self._recall_seconds), chat.degraded)
        if chat.recall is not None:
            chat.degraded.extend(chat.recall.degraded)
            chat.service.metrics.used(chat.recall.usage)

    async def _forward(self, request: Request, chat: _Chat, sent: bytes, given: bytes) -> Response:
        """The answer of the server behind to `sent`; or to `given`, as the client sent it, where it refuses that."""
        response = await self._send(request, "/chat/completions", sent)
        if response.status_code in _REFUSED and sent is not given:
            status = response.status_code
            await response.aclose()
            response = await self._send(request, "/chat/completions", given)
            if response.is_success:
                reason = f"the server behind refused the evidence (HTTP {status}); the chat went on without"
                chat.degraded.append(Degradation("recall", reason))
                chat.recall, chat.refused = None, True
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.is_success and kind == "text/event-stream":
            return _Stream(self._streamed(chat, response), response, self._passed(chat, response))
        try:
            answer = self.upstream.access.cleaned(await _while_there(request, response.aread()))
        finally:
            await response.aclose()
        if response.is_redirect:
            raise _RefusedError(502, "the server behind leads elsewhere", "upstream_redirect")
        if response.is_success:
            answer = await self._whole(chat, answer)
        return Response(answer, response.status_code, self._passed(chat, response))

    def _headers(self, response: httpx2.Response) -> dict[str, str]:
        """What the client gets of the headers; the key of the server behind is not in them, whatever it repeats."""
        return passed_back(self.upstream.access.cleaned(response.headers.multi_items()))

    def _passed(self, chat: _Chat, response: httpx2.Response) -> dict[str, str]:
        return {**self._headers(response), **chat.headers()}

    async def _send(self, request: Request, path: str, content: bytes | None) -> httpx2.Response:
        url = self.upstream.base_url + path + (f"?{request.url.query}" if request.url.query else "")
        headers = self.upstream.headers(request.headers, keyed=self._keyed)
        made = self._client.build_request(request.method, url, content=content, headers=headers)
        return await _while_there(request, self._client.send(made, stream=True))

    async def _whole(self, chat: _Chat, answer: bytes) -> bytes:
        """An answer that is not a stream, with one field more; as it is when it is none."""
        try:
            data = json.loads(answer)
        except (ValueError, RecursionError):
            return answer
        if not isinstance(data, dict) or "error" in data:
            return answer
        reply = Reply()
        reply.read(data)
        return with_object(answer, "backread", await self._finished(chat, reply))

    async def _streamed(self, chat: _Chat, response: httpx2.Response) -> AsyncIterator[bytes]:
        reply = Reply()
        try:
            async for piece in insert(response.aiter_bytes(), reply, partial(self._finished, chat, reply)):
                yield piece
        except httpx2.HTTPError as error:
            _log.warning("the server behind broke off: %s", self.upstream.access.cleaned(repr(error)))
            told = json_text(_error_object("the server behind broke off", "upstream_broke_off"))
            yield f"\n\ndata: {told}\n\n".encode()

    async def _finished(self, chat: _Chat, reply: Reply) -> str:
        """Keep a reply that is complete; the field `backread`, as JSON."""
        stored: list[str] = []
        if chat.taken is not None:
            stored.extend(chat.taken.stored)
            if chat.single and reply.choices == 1:
                keep = partial(self._conversations.reply, chat.taken, reply.message(), datetime.now(chat.at.tzinfo))
                turn_id = await _tried("store", run_in_threadpool(keep), chat.degraded)
                if turn_id is not None:
                    stored.append(turn_id)
                    chat.service.metrics.turns.inc()
        recall = chat.recall
        told = Remembered(
            user_id=chat.user_id,
            session_id=None if chat.taken is None else chat.taken.session_id,
            stored=tuple(stored),
            citations=() if recall is None else recalled(recall).evidence,
            tokens=0 if recall is None else recall.tokens,
            prompt_hash=prompt_hash(),
            degraded=tuple(chat.degraded),
        )
        return json_text(carried(told))


class _Stream(StreamingResponse):
    """A stream that ends the one behind it, however it ends."""

    def __init__(self, pieces: AsyncIterator[bytes], behind: httpx2.Response, headers: dict[str, str]) -> None:
        super().__init__(pieces, behind.status_code, {**headers, "X-Accel-Buffering": "no"})
        self._behind = behind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await self._behind.aclose()


async def _while_there(request: Request, work: Awaitable[T]) -> T:
    """What the work gives; it is cancelled when the client goes away.

    Raises:
        _RefusedError: the client went away.
    """

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise _RefusedError(_CLIENT_GONE, "the client went away", "client_gone")
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _tried(part: str, work: Awaitable[T], degraded: list[Degradation]) -> T | None:
    """What the work gives; None, and said in `degraded`, when it fails."""
    try:
        return await work
    except TimeoutError:
        degraded.append(Degradation(part, "took too long; the chat went on without"))
    except Exception as error:  # noqa: BLE001 -- memory that fails must not keep a chat from going on
        degraded.append(Degradation(part, problem_of(error).detail))
    return None


def _object(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise _RefusedError(400, "the body is not a JSON object", "invalid_json")
    return data


def _header(request: Request, name: str) -> str | None:
    """A header that holds an id: percent-encoded UTF-8, as in a path."""
    value = request.headers.get(name)
    if value is None:
        return None
    try:
        return _NAME.validate_python(value)
    except ValidationError as error:
        what = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise _RefusedError(400, f"the header {name} {what}", "invalid_header") from None


def _encoded(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _error_object(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "backread_error", "param": None, "code": code}}


def _error(status: int, message: str, code: str) -> Response:
    """A failure in the form of OpenAI's API."""
    return Response(json_text(_error_object(message, code)), status, media_type="application/json")
