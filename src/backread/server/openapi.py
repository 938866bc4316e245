"""What the server says of itself: OpenAPI that holds for every response."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from backread.server.guard import OPEN_PATHS
from backread.server.problems import Problem

__all__ = ["described"]

_REF = "#/components/schemas/{model}"


def described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of `app`, with what FastAPI can't know: problems, keys, and that no field is left out."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    problem = TypeAdapter(Problem).json_schema(mode="serialization", ref_template=_REF)
    schemas.update(problem.pop("$defs", {}), Problem=problem)
    for name, schema in schemas.items():
        if name.endswith(("Request", "Query")):
            continue
        schema["required"] = sorted(schema.get("properties", {}))
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "Not needed on a server without keys."}
    }
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path not in OPEN_PATHS:
                operation["security"] = [{"key": []}]
    return document
