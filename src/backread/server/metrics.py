"""What is counted for Prometheus: requests, turns, tokens, builds. No label ever holds an id, or anything stored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backread.types import Usage

__all__ = ["METRICS_TYPE", "Counted", "Metrics"]

METRICS_TYPE: Final = CONTENT_TYPE_LATEST
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._registry = registry
        names = ("method", "route")
        self.requests = Counter("backread_requests", "Requests answered.", (*names, "status"), registry=registry)
        self.seconds = Histogram(
            "backread_request_seconds", "From request to end of response.", names, registry=registry, buckets=_BUCKETS
        )
        self.in_flight = Gauge("backread_requests_in_flight", "Requests being answered.", registry=registry)
        self.turns = Counter("backread_turns_stored", "Turns stored that were new.", registry=registry)
        self._calls = Counter("backread_model_calls", "Calls of chat models.", ("purpose", "model"), registry=registry)
        self._tokens = Counter(
            "backread_model_tokens",
            "Tokens of chat models, as far as they are known.",
            ("purpose", "model", "direction"),
            registry=registry,
        )
        self._builds = Counter("backread_builds", "Builds that are over.", ("status",), registry=registry)

    def used(self, usage: Sequence[Usage]) -> None:
        """Count what calls of models took; unknown numbers are not counted."""
        for item in usage:
            self._calls.labels(item.purpose, item.model).inc(item.calls)
            for direction, tokens in (("input", item.input_tokens), ("output", item.output_tokens)):
                if tokens is not None:
                    self._tokens.labels(item.purpose, item.model, direction).inc(tokens)

    def built(self, status: str) -> None:
        """Count a build that is over."""
        self._builds.labels(status).inc()

    def exposition(self) -> bytes:
        """All counters in Prometheus' text format."""
        return generate_latest(self._registry)


class Counted:
    """Counts and times every request by the template of its route; what matches none is "unmatched"."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500  # where the app raises before it answers

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        started = time.perf_counter()
        try:
            with self._metrics.in_flight.track_inprogress():
                await self._app(scope, receive, noted)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            route = getattr(scope.get("route"), "path", "unmatched")
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(method, route).observe(time.perf_counter() - started)
