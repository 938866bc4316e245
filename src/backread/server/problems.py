"""Every failure as one kind of response: problem details (RFC 9457), with a hint that says what to do next."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from backread import errors
from backread.errors import BackreadError, ModelRequestError, StoreError
from backread.wire import json_text

__all__ = [
    "PROBLEM_TYPE",
    "SECURITY_HEADERS",
    "STATUS",
    "FieldProblem",
    "Problem",
    "install",
    "problem",
    "problem_of",
    "respond",
]

_log = logging.getLogger(__name__)

PROBLEM_TYPE: Final = "application/problem+json"

SECURITY_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
)
"""Sent with every response that doesn't set them itself. No CORS header is ever sent."""


STATUS: Mapping[type[BackreadError], int] = MappingProxyType(
    {
        errors.BackreadError: 500,
        errors.InvalidInputError: 422,
        errors.BlankTextError: 422,
        errors.TurnTooLargeError: 413,
        errors.QuotaError: 507,
        errors.TimeError: 422,
        errors.ConflictError: 409,
        errors.NotFoundError: 404,
        errors.StoreError: 500,
        errors.StoreBusyError: 503,
        errors.StoreCorruptError: 500,
        errors.SchemaTooNewError: 500,
        errors.StoreReplacedError: 500,
        errors.StaleVersionError: 503,
        errors.ModelError: 502,
        errors.ModelNotAvailableError: 503,
        errors.ModelRequestError: 502,
        errors.ContextWindowError: 502,
        errors.ModelOutputError: 502,
        errors.ModelMismatchError: 503,
        errors.CancelledError: 503,
        errors.ImportFormatError: 422,
        errors.MissingExtraError: 501,
    }
)
"""The status of each error. 503 may go away when tried again, or needs whoever runs the server; 502 is the model's."""

RETRY_AFTER_S: Final = 5
"""What is said where the cause doesn't say how long to wait."""

_MOST_PLACES: Final = 20
_INPUT_HINT: Final = "send what /v1/openapi.json describes"
_HINTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: "send JSON in UTF-8",
        404: "paths are listed in /v1/openapi.json",
        405: "methods are listed in /v1/openapi.json",
        413: "send it in several requests",
        500: "the log of the server says more",
    }
)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one place of a request: `where` is such as "body.top_k"."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem details (RFC 9457).

    Attributes:
        type: names the kind of failure, such as "urn:backread:NotFoundError"; "about:blank" where the status says all.
        title: the status in words.
        status: the HTTP status.
        detail: what was wrong, and where.
        hint: what to do next.
        errors: each place of the request that can't be used.
    """

    type: str
    title: str
    status: int
    detail: str
    hint: str | None = None
    errors: tuple[FieldProblem, ...] = ()


def problem(
    status: int, detail: str, *, hint: str | None = None, name: str | None = None, places: Sequence[FieldProblem] = ()
) -> Problem:
    """The problem of a status; `name` is that of the error behind it."""
    kind = "about:blank" if name is None else f"urn:backread:{name}"
    if hint is None and (name is None or status == HTTPStatus.INTERNAL_SERVER_ERROR):
        hint = _HINTS.get(status)
    return Problem(kind, HTTPStatus(status).phrase, status, detail, hint, tuple(places))


def problem_of(error: Exception) -> Problem:
    """The problem of any error. What names files of the server, or is unexpected, is logged and not told."""
    if not isinstance(error, BackreadError):
        _log.error("unexpected error", exc_info=error)
        return problem(500, "an error that was not expected: a bug of the server")
    name = type(error).__name__
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    if isinstance(error, StoreError):
        _log.error("%s: %s", name, error)
        detail = (type(error).__doc__ or "").split("\n", maxsplit=1)[0]
        hint = "try again" if status == HTTPStatus.SERVICE_UNAVAILABLE else None
        return problem(status, detail, hint=hint, name=name)
    if isinstance(error, ModelRequestError) and error.retryable:
        status = 503
    return problem(status, str(error), hint=error.hint, name=name)


def respond(told: Problem, *, headers: Mapping[str, str] | None = None) -> Response:
    """A problem as a response."""
    return Response(json_text(told), told.status, headers, media_type=PROBLEM_TYPE)


def install(app: FastAPI) -> None:
    """Make every failure of `app` a problem: ours, requests of the wrong shape, unknown paths, and bugs."""
    app.add_exception_handler(BackreadError, _ours)
    app.add_exception_handler(RequestValidationError, _shape)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


def _ours(request: Request, error: Exception) -> Response:
    told = problem_of(error)
    wait = getattr(error, "retry_after", None) or RETRY_AFTER_S
    retry = told.status == HTTPStatus.SERVICE_UNAVAILABLE
    return respond(told, headers={"Retry-After": str(math.ceil(wait))} if retry else None)


def _shape(request: Request, error: Exception) -> Response:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    if any(item["type"] == "json_invalid" for item in found):
        return respond(problem(400, "the body is not JSON"))
    places = [FieldProblem(".".join(map(str, item["loc"])), _what(item)) for item in found[:_MOST_PLACES]]
    detail = "; ".join(f"{place.where}: {place.what}" for place in places)
    return respond(problem(422, detail, hint=_INPUT_HINT, places=places))


def _what(item: Mapping[str, Any]) -> str:
    return str(item["msg"]).removeprefix("Value error, ")


def _http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    detail = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = "there is nothing at this path"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"this path has no method {request.method}"
    return respond(problem(error.status_code, detail), headers=error.headers)


def _bug(request: Request, error: Exception) -> Response:
    told = problem(500, "an error that was not expected: a bug of the server")
    return respond(told, headers=dict(SECURITY_HEADERS))  # this one is made outside of all middleware
