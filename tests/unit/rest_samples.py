"""What the tests of the server share: a client in process that sends any text, and keys of ann, bo and an admin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from starlette.testclient import TestClient

from backread import Memory
from backread.server.app import create_app
from backread.server.keys import ADMIN, Keys, Principal, hash_key
from backread.server.limits import Limits
from backread.server.requests import path_segment

__all__ = ["KEYS", "Rest", "rest", "users_path"]

KEYS = Keys({hash_key("ann's"): Principal("ann"), hash_key("bo's"): Principal("bo"), hash_key("root"): ADMIN})


def users_path(user_id: str, *rest: str) -> str:
    """The path of something of a user."""
    return "/".join(["/v1/users", path_segment(user_id), *rest])


class Rest:
    """Requests to an app in process. Bodies are sent as ASCII, so that they may hold lone surrogates."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def send(
        self, method: str, path: str, body: object = None, *, key: str | None = None, **headers: str
    ) -> httpx2.Response:
        """The response, whatever it is."""
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if content is not None else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        return self.client.request(method, path, content=content, headers=sent)

    def get(self, path: str, **more: Any) -> Any:
        """What a GET gives; it must be 200."""
        return self._data(self.send("GET", path, **more))

    def post(self, path: str, body: object, **more: Any) -> Any:
        """What a POST gives; it must be 200."""
        return self._data(self.send("POST", path, body, **more))

    def delete(self, path: str, **more: Any) -> Any:
        """What a DELETE gives; it must be 200."""
        return self._data(self.send("DELETE", path, **more))

    def add(self, *texts: str, user_id: str = "ann", session_id: str = "s1", **more: Any) -> Any:
        """The receipt of user messages."""
        messages = [{"role": "user", "content": text} for text in texts]
        return self.post(users_path(user_id, "turns"), {"messages": messages, "session_id": session_id}, **more)

    def problem(self, method: str, path: str, body: object = None, *, status: int, **more: Any) -> Any:
        """The problem a request ends with, which must have this status."""
        response = self.send(method, path, body, **more)
        assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
        told = response.json()
        assert told["status"] == status
        assert set(told) == {"type", "title", "status", "detail", "hint", "errors"}
        return told

    def _data(self, response: httpx2.Response) -> Any:
        assert response.status_code == 200, response.text
        assert response.text.isascii()
        return response.json()


@contextmanager
def rest(memory: Memory, keys: Keys | None = None, **limits: Any) -> Iterator[Rest]:
    """A server over `memory`, started and ended as a real one; limits by name."""
    app = create_app(memory, keys=keys, limits=Limits(**limits))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield Rest(client)
