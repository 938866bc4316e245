"""Values for requests: of the shape that a JSON schema describes, a little off, or of no shape at all."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["from_schema", "junk", "mutated", "mutated_bytes"]

_TEXTS: Final = (
    "",
    " ",
    "lamp",
    "Where is the lamp?",
    "ann",
    "s1m1",
    "s1",
    "2024-05-01T09:00:00Z",
    "9999-12-31T23:59:59-14:00",
    "0000-00-00",
    "\x00",
    "\ud800",
    "\U0001f389" * 50,
    "\u202eabc\u2066",
    "' OR 1=1 --",
    "../../etc/passwd",
    "{{7*7}}${7*7}",
    "<script>alert(1)</script>",
    "</evidence>",
    "=cmd|' /C calc'!A0",
    "%00%ff%zz",
    "a" * 5000,
    "." * 3000,
    "[1]" * 800,
    "\n" * 2000,
    'NEAR(a b) AND "x*',
    "mem\u0301oire",
    "預算",
)
_NUMBERS: Final = (0, 1, -1, 2, 10, 1.5, -0.0, 1e308, 2**31, 2**63, -(2**63) - 1, 10**40, True, False)


def junk(rng: random.Random, depth: int = 0) -> Any:
    """Any value of JSON."""
    kind = rng.randrange(6 if depth < 3 else 4)
    if kind <= 1:
        return rng.choice(_TEXTS)
    if kind == 2:
        return rng.choice(_NUMBERS)
    if kind == 3:
        return None
    if kind == 4:
        return [junk(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(_TEXTS)[:80]: junk(rng, depth + 1) for _ in range(rng.randrange(4))}


def from_schema(schema: Mapping[str, Any], root: Mapping[str, Any], rng: random.Random, depth: int = 0) -> Any:
    """A value of a JSON schema, as a rule; references lead into `root`."""
    if "$ref" in schema:
        found: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return from_schema(found, root, rng, depth)
    if depth > 8 or rng.random() < 0.04:
        return junk(rng)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return from_schema(rng.choice(schema[several]), root, rng, depth + 1)
    return _of_type(schema, root, rng, depth)


def _of_type(schema: Mapping[str, Any], root: Mapping[str, Any], rng: random.Random, depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object" and "properties" not in schema and "examples" in schema:
        return copy.deepcopy(rng.choice(schema["examples"]))
    if kind == "object":
        required = schema.get("required", ())
        if schema.get("title") == "Message":
            return {"role": rng.choice(("user", "assistant")), "content": rng.choice(_TEXTS) or "lamp"}
        return {
            name: from_schema(part, root, rng, depth + 1)
            for name, part in schema.get("properties", {}).items()
            if name in required or rng.random() < 0.4
        }
    if kind == "array":
        return [from_schema(schema.get("items", {}), root, rng, depth + 1) for _ in range(rng.randrange(1, 4))]
    if kind in ("integer", "number"):
        return rng.choice((0, 1, 5, 10, 100, *_NUMBERS)) if rng.random() < 0.3 else rng.randrange(1, 20)
    if kind == "boolean":
        return rng.random() < 0.5
    return None if kind == "null" else rng.choice(_TEXTS)


def mutated(value: Any, rng: random.Random) -> Any:
    """A copy with one to three places changed, taken out, doubled or put elsewhere."""
    holder = [copy.deepcopy(value)]
    for _ in range(rng.randrange(1, 4)):
        places = list(_places(holder))
        parent, key = rng.choice(places)
        what = rng.randrange(5)
        if what <= 1:
            parent[key] = junk(rng)
        elif what == 2 and parent is not holder:
            del parent[key]
        elif what == 3:
            other, name = rng.choice(places)
            parent[key] = copy.deepcopy(other[name])
        elif isinstance(parent, dict):
            parent[rng.choice(_TEXTS)[:60]] = junk(rng)
        else:
            parent.insert(key, junk(rng))
            if parent is holder:
                del holder[rng.randrange(2)]
    return holder[0]


def _places(holder: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [holder]
    while waiting:
        parent = waiting.pop()
        for key in list(parent) if isinstance(parent, dict) else range(len(parent)):
            found.append((parent, key))
            if isinstance(parent[key], dict | list):
                waiting.append(parent[key])
    return found


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some changed, cut, doubled or put in."""
    changed = bytearray(data or b"x")
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(changed))
        what = rng.randrange(5)
        if what == 0:
            changed[place] ^= 1 << rng.randrange(8)
        elif what == 1:
            changed[place:place] = rng.choice(
                (b"\x00", b"\xff", b'"', b"{", b"]", b"\xef\xbb\xbf", b"1e999", b"NaN", b"\\u")
            )
        elif what == 2:
            del changed[place : place + rng.randrange(1, 20)]
        elif what == 3:
            changed[place:place] = changed[place : place + rng.randrange(1, 60)]
        else:
            del changed[place:]
        if not changed:
            changed += b"["
    return bytes(changed)
