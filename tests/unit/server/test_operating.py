"""Health, counts and metrics, and what the server says of itself."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from memory_samples import opened
from prometheus_client.parser import text_string_to_metric_families
from rest_samples import KEYS, Rest, rest, users_path

from backread import Memory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def server(memory: Memory) -> Iterator[Rest]:
    with rest(memory) as made:
        yield made


def samples(server: Rest) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every number of /metrics by its name and the values of its labels."""
    found = {}
    for family in text_string_to_metric_families(server.send("GET", "/metrics").text):
        for sample in family.samples:
            found[sample.name, tuple(sample.labels.values())] = sample.value
    return found


def test_health(server: Rest) -> None:
    assert server.get("/healthz") == {"status": "ok"}
    assert server.get("/readyz") == {"status": "ok"}


def test_a_store_that_is_closed_is_not_ready(memory: Memory) -> None:
    with rest(memory) as server:
        memory.close()
        assert server.get("/healthz") == {"status": "ok"}
        assert server.problem("GET", "/readyz", status=500)["type"] == "urn:backread:StoreError"


def test_counts(server: Rest) -> None:
    server.add("a", "b")
    server.add("c", user_id="bo")
    found = server.get("/v1/stats")
    assert (found["users"], found["sessions"], found["turns"], found["embedder"]) == (2, 2, 3, None)
    assert found["bytes"] > 0


def test_a_delete_beside_a_reader_is_done_and_its_scrub_is_finished_later(server: Rest, memory: Memory) -> None:
    server.add("my code is zebra-7731", user_id="ann")
    path = memory.settings.path
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchone()
        receipt = server.delete("/v1/users/ann?confirm=everything")
        assert (receipt["turns"], receipt["pending_scrub"]) == (1, True)
        assert server.problem("POST", "/v1/scrub", status=503)["type"] == "urn:backread:StoreBusyError"
        reader.execute("ROLLBACK")
    assert server.post("/v1/scrub", None) == {"scrubbed": True}
    assert [file.name for file in path.parent.glob("m.db*") if b"zebra-7731" in file.read_bytes()] == []


class TestMetrics:
    def test_what_is_counted(self, server: Rest) -> None:
        path = users_path("ann-secret", "turns")
        server.add("a", "b", user_id="ann-secret")
        server.get(path)
        server.problem("GET", f"{path}/none", status=404)
        server.problem("GET", "/nothing", status=404)
        server.send("BREW", "/nothing")
        found = samples(server)
        route = "/v1/users/{user_id}/turns"
        counted = {labels: value for (name, labels), value in found.items() if name == "backread_requests_total"}
        by_label = {frozenset(labels): value for labels, value in counted.items()}
        assert by_label[frozenset({"POST", route, "200"})] == 1
        assert by_label[frozenset({"GET", route, "200"})] == 1
        assert by_label[frozenset({"GET", f"{route}/{{turn_id}}", "404"})] == 1
        assert by_label[frozenset({"GET", "unmatched", "404"})] == 1
        assert by_label[frozenset({"other", "unmatched", "404"})] == 1
        assert found["backread_turns_stored_total", ()] == 2
        assert found["backread_requests_in_flight", ()] == 1  # this one

    def test_nothing_stored_and_no_id_is_a_label(self, server: Rest) -> None:
        server.add("hello-word", user_id="ann-secret", session_id="session-secret")
        server.get(users_path("ann-secret", "sessions", "session-secret", "turns"))
        server.post(users_path("ann-secret", "ask"), {"question": "hello-word"})
        server.send("POST", users_path("ann-secret", "builds"), {})
        told = server.send("GET", "/metrics").text
        assert not re.search("secret|hello", told)

    def test_two_servers_count_apart(self, server: Rest, memory: Memory) -> None:
        server.add("a")
        with rest(memory) as other:
            assert samples(other)["backread_turns_stored_total", ()] == 0


class TestDescription:
    @pytest.fixture
    def described(self, server: Rest) -> dict[str, Any]:
        found: dict[str, Any] = server.get("/v1/openapi.json")
        return found

    def test_every_operation(self, described: dict[str, Any]) -> None:
        found = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
        user = "/v1/users/{user_id}"
        assert found == {
            "GET /healthz",
            "GET /metrics",
            "GET /readyz",
            "GET /v1/stats",
            "GET /v1/users",
            f"DELETE {user}",
            f"DELETE {user}/sessions/{{session_id}}",
            f"DELETE {user}/turns/{{turn_id}}",
            f"GET {user}/builds",
            f"GET {user}/builds/{{build_id}}",
            f"GET {user}/entries",
            f"GET {user}/export",
            f"GET {user}/sessions",
            f"GET {user}/sessions/{{session_id}}/turns",
            f"GET {user}/turns",
            f"GET {user}/turns/{{turn_id}}",
            "POST /v1/scrub",
            f"GET {user}/turns/{{turn_id}}/attachments/{{number}}",
            f"POST {user}/ask",
            f"POST {user}/builds",
            f"POST {user}/builds/{{build_id}}/cancel",
            f"POST {user}/recall",
            f"POST {user}/search",
            f"POST {user}/turns",
        }

    def test_every_failure_is_a_problem(self, described: dict[str, Any]) -> None:
        for methods in described["paths"].values():
            for operation in methods.values():
                assert {"200", "202"} & set(operation["responses"])
                assert {"401", "403", "422", "500", "503"} <= set(operation["responses"])
                for status, response in operation["responses"].items():
                    if status >= "400":
                        assert list(response["content"]) == ["application/problem+json"]
        assert set(described["components"]["schemas"]["Problem"]["required"]) >= {"type", "title", "status", "detail"}

    def test_no_field_of_an_answer_may_be_missing(self, described: dict[str, Any]) -> None:
        schemas = described["components"]["schemas"]
        for name in ("SentTurn", "SentHits", "Recall", "Answer", "Build", "AddReceipt", "Page_SentTurn_"):
            assert schemas[name]["required"] == sorted(schemas[name]["properties"])
        assert schemas["SearchRequest"]["required"] == ["query"]
        assert schemas["SearchRequest"]["additionalProperties"] is False

    def test_references_lead_somewhere(self, server: Rest, described: dict[str, Any]) -> None:
        named = set(re.findall(r'"#/components/schemas/([^"]+)"', server.send("GET", "/v1/openapi.json").text))
        assert named == set(described["components"]["schemas"])

    def test_operations_have_short_names_and_a_group(self, described: dict[str, Any]) -> None:
        operations = [item for path in described["paths"].values() for item in path.values()]
        names = [item["operationId"] for item in operations]
        assert len(set(names)) == len(names)
        assert {"add_turns", "search", "ask", "delete_user", "health"} <= set(names)
        assert all(name.isidentifier() and len(name) <= 16 for name in names)
        groups = {group["name"] for group in described["tags"]}
        assert all(set(item["tags"]) <= groups and item["tags"] for item in operations)

    def test_examples_of_requests_are_accepted(self, server: Rest, described: dict[str, Any]) -> None:
        tried = 0
        for path, methods in described["paths"].items():
            if "post" not in methods or "requestBody" not in methods["post"]:
                continue
            (name,) = re.findall(r"schemas/(\w+Request)", json.dumps(methods["post"]["requestBody"]))
            for example in described["components"]["schemas"][name]["examples"]:
                answer = server.send("POST", path.format(user_id="ann"), example)
                assert answer.status_code in {200, 201, 202}, answer.text
                tried += 1
        assert tried == 5

    def test_keys_are_described(self, memory: Memory) -> None:
        with rest(memory, KEYS) as server:
            described = server.get("/v1/openapi.json")
        assert described["paths"]["/v1/users"]["get"]["security"] == [{"key": []}]
        assert "security" not in described["paths"]["/healthz"]["get"]
        assert described["components"]["securitySchemes"]["key"]["scheme"] == "bearer"

    def test_unknown_queries_are_refused_everywhere(self, server: Rest, described: dict[str, Any]) -> None:
        server.add("kept")
        for path, methods in described["paths"].items():
            for method in methods:
                name = path.format(user_id="ann", turn_id="x", session_id="s1", build_id="b", number=0)
                body: dict[str, Any] | None = {} if method == "post" else None
                told = server.problem(
                    method.upper(), f"{name}?confirm=everything&odd=1&strategy=naive_rag", body, status=422
                )
                assert "query.odd" in [place["where"] for place in told["errors"]], path
        server.problem("GET", "/v1/openapi.json?odd=1", status=422)
        assert len(server.get(users_path("ann", "turns"))["items"]) == 1

    def test_what_is_blank_is_described(self, described: dict[str, Any]) -> None:
        pattern = described["components"]["schemas"]["SearchRequest"]["properties"]["query"]["pattern"]
        signs = [chr(code) for code in range(0x110000)]
        assert [sign for sign in signs if not re.search(pattern, sign)] == [s for s in signs if not s.strip()]
