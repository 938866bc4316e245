"""The pages about the proxy and the tools: their examples do what they say."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from fake_chat_server import FakeChatServer
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from running import running

from backread import Memory
from backread.server.app import create_app
from backread.server.proxy import proxy_router
from backread.server.tools import TOOLS
from backread.server.upstream import Upstream

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.enable_socket, pytest.mark.timeout(120)]

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    with Memory.open(tmp_path / "m.db", embedder="none") as memory, running(FakeChatServer()) as behind:
        app = create_app(memory)
        app.include_router(proxy_router(Upstream.at(behind), keyed=False, user_id="ann"))
        with running(app, lifespan="on") as url:
            yield url


@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="needs curl and bash")
def test_the_examples_of_the_proxy(proxy: str) -> None:
    page = (DOCS / "proxy.md").read_text(encoding="utf-8").replace("http://127.0.0.1:8765", proxy)
    (code,) = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "proxy.md", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == "I don't know.\nYou said: I put the spare key under the blue pot.\n"
    ((command, shown),) = re.findall(r"^```bash\n(curl .*?)^```\n\n```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, encoding="utf-8", check=True)
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    assert re.fullmatch(pattern, done.stdout.strip(), re.DOTALL), done.stdout


def test_the_configuration_of_the_tools_starts_them(tmp_path: Path) -> None:
    page = (DOCS / "mcp.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    given = json.loads(block)["mcpServers"]["backread"]
    assert given["command"] == "backread"
    env = {**os.environ, "BACKREAD_EMBEDDER": "none", "BACKREAD_PATH": str(tmp_path / "m.db")}
    server = StdioServerParameters(command=sys.executable, args=["-m", "backread", *given["args"]], env=env)

    async def names() -> list[str]:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            async with Client(stdio_client(server, errlog=nowhere)) as client:
                return [tool.name for tool in (await client.list_tools()).tools]

    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert anyio.run(names) == rows == list(TOOLS)
