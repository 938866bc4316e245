"""What the server says of itself: OpenAPI that holds for every response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from backread.server.guard import OPEN_PATHS
from backread.server.problems import Problem

__all__ = ["described"]

_REF = "#/components/schemas/{model}"

_TAGS: Final = (
    ("turns", "Add, read, export and erase what was said."),
    ("finding", "Search the record, collect evidence, ask."),
    ("building", "What designs write ahead of questions."),
    ("operating", "For whoever runs the server."),
)

_EXAMPLES: Final[Mapping[str, Mapping[str, object]]] = {
    "AddRequest": {
        "session_id": "2025-03-27",
        "messages": [
            {"role": "user", "content": "The spare key is under the blue pot.", "timestamp": "2025-03-27T16:10:00Z"},
            {"role": "assistant", "content": "I shall remember that.", "timestamp": "2025-03-27T16:10:05Z"},
        ],
    },
    "SearchRequest": {"query": "spare key", "top_k": 5, "after": "2025-03-01"},
    "AskRequest": {"question": "Where is the spare key?", "asked_at": "2025-04-01T09:00:00Z"},
    "BuildRequest": {"strategy": "leanmem", "flush": True},
}
"""A body that each request could have."""


def described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of `app`, with what FastAPI can't know.

    That is: problems, keys, examples, short names of operations, and that no field is left out of an answer.
    """
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    problem = TypeAdapter(Problem).json_schema(mode="serialization", ref_template=_REF)
    schemas.update(problem.pop("$defs", {}), Problem=problem)
    document["tags"] = [{"name": name, "description": about} for name, about in _TAGS]
    for name, schema in schemas.items():
        if name in _EXAMPLES:
            schema["examples"] = [_EXAMPLES[name]]
        if name.endswith(("Request", "Query")):
            continue
        schema["required"] = sorted(schema.get("properties", {}))
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "Not needed on a server without keys."}
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            # FastAPI's own ends in path and method; client generators make names of functions from it.
            operation["operationId"] = operation["operationId"].removesuffix(re.sub(r"\W", "_", f"{path}_{method}"))
            if path not in OPEN_PATHS:
                operation["security"] = [{"key": []}]
    return document
