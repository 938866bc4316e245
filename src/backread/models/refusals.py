"""Parameters an endpoint refuses: found in its error, left out or renamed, remembered.

Servers that call themselves OpenAI-compatible differ in what they take. The client sends the best request it knows and,
when the endpoint names a parameter as the reason of its error, the next best; from then on that is the first one sent.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Collection, Mapping
from typing import Any

from backread import forking

__all__ = ["Refusals"]

_log = logging.getLogger(__name__)

STATUSES = (400, 422, 500, 501)
_NEEDED = ("model", "messages", "stream", "extra_body")
_LIMITS = ("max_tokens", "max_completion_tokens")
_FORMAT_WORDS = re.compile(r"response[_ ]?format|json[_ ]?schema|json[_ ]?object|\bschema\b|\bgrammar\b", re.IGNORECASE)
_SCHEMA_WORDS = re.compile(r"\b(?:schema|grammar)\b", re.IGNORECASE)
_REFUSED = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected|available)"
    r"|not (?:supported|allowed|permitted|available|recogni[sz]ed)"
    r"|(?:does not|doesn't) support|no such|invalid (?:parameter|field|argument|key)|extra_forbidden",
    re.IGNORECASE,
)
_VALUE = re.compile(r"must be\b", re.IGNORECASE)
_NO_NAME = re.compile(
    r"(?:unknown|unrecogni[sz]ed|unexpected|unsupported|extra|additional) (?:\w+ )?"
    r"(?:fields?|parameters?|arguments?|inputs?|keys?|propert(?:y|ies))|extra_forbidden",
    re.IGNORECASE,
)
_OTHER_FIELD = re.compile(r"\b(?:model|messages|role|content)\b", re.IGNORECASE)


class Refusals:
    """What one endpoint refused so far. Threads may share one object.

    Refusals are written "temperature", "json_object", "json_schema", or "json_schema:<digest>" when only that schema
    was too much for the endpoint.
    """

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        self._lock = forking.Lock()

    @property
    def known(self) -> tuple[str, ...]:
        """Every refusal that is remembered, sorted."""
        return tuple(sorted(self._known))

    def remember(self, refusals: Collection[str], where: str) -> None:
        """Send requests without these from now on."""
        with self._lock:
            new = frozenset(refusals) - self._known
            self._known |= new
        for name in sorted(new):
            _log.info("%s refuses %s: left out from now on", where, name)

    def adapt(self, body: Mapping[str, Any], also: Collection[str] = ()) -> dict[str, Any]:
        """`body` without what is refused: formats step down, the two names of the limit stand in for each other."""
        refused = self._known | frozenset(also)
        sent = {name: value for name, value in body.items() if name in (*_NEEDED, *_LIMITS) or name not in refused}
        for name, other in (_LIMITS, _LIMITS[::-1]):
            if name in sent and name in refused:
                limit = sent.pop(name)
                if other not in refused:
                    sent[other] = limit
                break
        wanted = sent.pop("response_format", None)
        if wanted is not None and not {"json_schema", f"json_schema:{_digest(wanted)}"} & refused:
            sent["response_format"] = wanted
        elif wanted is not None and "json_object" not in refused:
            sent["response_format"] = {"type": "json_object"}
        if "extra_body" in sent:
            sent["extra_body"] = {name: value for name, value in sent["extra_body"].items() if name not in refused}
        return sent

    def blamed(self, sent: Mapping[str, Any], status: int, detail: str, param: str | None = None) -> str | None:
        """The refusal that an error speaks of; None when the error has another reason.

        Args:
            sent: the request that failed, as `adapt` made it.
            status: of the error.
            detail: the server's words, codes included. A prompt that is too long must have been ruled out before.
            param: the parameter that the error names in a field of its own, if any.
        """
        if status not in STATUSES:
            return None
        refused = bool(_REFUSED.search(detail))
        about_format = _FORMAT_WORDS.search(detail) or (param or "").startswith("response_format")
        if "response_format" in sent and about_format and (status < 500 or refused):
            return self._format(sent["response_format"], detail)
        optional: list[str] = [*(name for name in sent if name not in _NEEDED), *sent.get("extra_body", {})]
        if not refused:  # the value 0 of a temperature may be refused, a limit may only be too large
            optional = [name for name in optional if name not in _LIMITS] if _VALUE.search(detail) else []
        named = {name: re.search(rf"\b{re.escape(name)}\b", detail) for name in optional}
        places = {name: match.start() for name, match in named.items() if match}
        if param in optional:
            return param
        if places:
            return min(places, key=lambda name: places[name])
        if status < 500 and _NO_NAME.search(detail) and not _OTHER_FIELD.search(detail):
            return self._unnamed(sent)
        return None

    def _format(self, wanted: Mapping[str, Any], detail: str) -> str:
        if wanted["type"] == "json_schema" and _SCHEMA_WORDS.search(detail):
            return f"json_schema:{_digest(wanted)}"
        return str(wanted["type"])

    def _unnamed(self, sent: Mapping[str, Any]) -> str | None:
        """The parameter most servers lack among those sent, when the error names none."""
        if "stream_options" in sent:
            return "stream_options"
        if "response_format" in sent:
            return str(sent["response_format"]["type"])
        return next(iter(sent.get("extra_body", {})), None)


def _digest(wanted: object) -> str:
    return hashlib.sha256(json.dumps(wanted, sort_keys=True, default=str).encode()).hexdigest()[:12]
