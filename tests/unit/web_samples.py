"""What the tests of the page share: a browser of sorts in process, and HTML taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import httpx2
from starlette.testclient import TestClient

from backread import Memory
from backread.server.app import create_app
from backread.server.keys import Keys

__all__ = ["Browser", "Element", "browser", "elements"]

_VOID: Final = frozenset({"br", "input", "link", "meta", "rect", "path"})


@dataclass
class Element:
    """An element of a page: its tag, its attributes, and all text in it, white space folded."""

    tag: str
    attributes: dict[str, str]
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[Element] = []
        self._open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.found.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.parts.append(data)

    def close(self) -> None:
        super().close()
        assert not self._open, f"<{self._open[-1].tag}> is left open"


def elements(html: str) -> list[Element]:
    """All elements of a page or a part in order; every one must be closed where it should be."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    return parser.found


class Browser:
    """Requests as a browser sends them that has the page open; redirects are not followed."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def get(self, path: str, status: int = 200, **headers: str) -> httpx2.Response:
        """A GET, which must end with this status."""
        return self._get(path, status, headers)

    def _get(self, path: str, status: int, headers: Mapping[str, str]) -> httpx2.Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        response = self.client.get(path, headers=sent, follow_redirects=False)
        assert response.status_code == status, response.text
        return response

    def post(
        self,
        path: str,
        status: int = 200,
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        **fields: str,
    ) -> httpx2.Response:
        """A form that the page sends, which must end with this status."""
        sent = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        sent |= headers or {}
        content = urlencode({**(form or {}), **fields})
        response = self.client.post(path, content=content, headers=sent, follow_redirects=False)
        assert response.status_code == status, response.text
        return response

    def seen(self, path: str, tag: str | None = None, *, kind: str | None = None, **headers: str) -> list[Element]:
        """Elements of a page, of a tag or with a class when one is named."""
        found = elements(self._get(path, 200, headers).text)
        return [item for item in found if tag in (None, item.tag) and (kind is None or kind in item.classes)]

    def main(self, path: str, **headers: str) -> str:
        """The text of a page's main part."""
        return self.seen(path, "main", **headers)[0].text


@contextmanager
def browser(memory: Memory, keys: Keys | None = None, *, reports: Path | None = None) -> Iterator[Browser]:
    """A browser at a server over `memory`."""
    app = create_app(memory, keys=keys, reports=reports)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield Browser(client)
