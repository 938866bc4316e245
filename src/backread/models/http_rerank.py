"""A reranker behind HTTP: Cohere, Jina, vLLM and all that took over their shape, and TEI with its own.

    Cohere v2, Jina, vLLM   {"model", "query", "documents", "top_n"} -> {"results": [{"index", "relevance_score"}]}
    TEI                     {"query", "texts"}                       -> [{"index", "score"}]

The answer comes in the order of relevance: scores are tied to texts by `index`, and an answer whose indexes are not
exactly those of the texts is an error, never read by place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from backread.arrays import NDArray, np
from backread.errors import ModelNotAvailableError, ModelOutputError
from backread.models.json_endpoint import JsonEndpoint, address
from backread.secret import Secret
from backread.text.fencing import safe

__all__ = ["HttpReranker"]

BATCH: Mapping[str, int] = {"results": 500, "tei": 32}
"""Texts of one request; 32 is what TEI takes unless told otherwise, Cohere takes 1,000."""
BLANK = "."
SHOWN = 8


class HttpReranker:
    """An endpoint as a `Reranker`. Threads may share one object; nothing is contacted before the first use.

    Every text has one score of its own, so that scores of several requests compare.

    Args:
        model: as the endpoint calls it; None where it has only one (TEI).
        base_url: with or without "/rerank"; a bare host of the first shape gets "/v1".
        shape: of request and answer, see the module.
        api_key: None sends none.
        name: what it is called; the model when None.
        needs_key: refuse to call without a key, for hosted endpoints.
        timeout: seconds without a sign of the server.
        http_client: see `JsonEndpoint`.

    Raises:
        InvalidInputError: the address is not http(s).
    """

    def __init__(
        self,
        model: str | None,
        *,
        base_url: str | Secret,
        shape: Literal["results", "tei"] = "results",
        api_key: str | Secret | None = None,
        name: str | None = None,
        needs_key: bool = False,
        timeout: float = 60.0,
        http_client: Any = None,  # noqa: ANN401 -- an httpx2.Client
    ) -> None:
        self._model, self._shape, self._name = model, shape, name or model or shape
        self._lacks_key = needs_key and not api_key
        self._endpoint = JsonEndpoint(
            address(base_url, "/rerank", bare="/v1" if shape == "results" else ""),
            what=f"reranker {self._name!r}",
            api_key=api_key,
            timeout=timeout,
            http_client=http_client,
        )

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Shape, address and model; which weights a server has under a name it does not tell."""
        return f"http:{self._shape}:{self._endpoint.url}:{self._model or ''}"

    def rerank(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """The endpoint's scores, float32 (len(texts),), score i for texts[i]; higher is better, never NaN.

        Raises:
            ModelNotAvailableError: nothing answers, or a hosted endpoint has no key.
            ModelRequestError: the endpoint refused or timed out.
            ModelOutputError: scores that are missing, given twice, for texts that weren't sent, or not finite.
        """
        size = BATCH[self._shape]
        blocks = [self._request(question, texts[start : start + size]) for start in range(0, len(texts), size)]
        return np.concatenate(blocks) if blocks else np.empty(0, np.float32)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._endpoint.close()

    def _request(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._lacks_key:
            raise ModelNotAvailableError(f"{self._endpoint.what} has no key", hint="this endpoint wants one")
        shown = [safe(text) if text.strip() else BLANK for text in texts]
        asked = safe(question)
        body: dict[str, object]
        if self._shape == "tei":
            body = {"query": asked, "texts": shown, "truncate": True}
        else:
            body = {"model": self._model, "query": asked, "documents": shown, "top_n": len(shown)}
        answer = self._endpoint.post(body)
        items = answer.get("results") if isinstance(answer, Mapping) else answer
        if not isinstance(items, list):
            raise self._endpoint.unusable(answer, "scores")
        return self._scores(items, len(texts))

    def _scores(self, items: Sequence[object], count: int) -> NDArray[np.float32]:
        """Scores by index, each text exactly once."""
        scores = np.full(count, np.nan, np.float32)
        twice, foreign, unusable = [], [], []
        for item in items:
            index = item.get("index") if isinstance(item, Mapping) else None
            value = item.get("score", item.get("relevance_score")) if isinstance(item, Mapping) else None
            if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
                foreign.append(index)
            elif not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                unusable.append(index)
            elif not np.isnan(scores[index]):
                twice.append(index)
            else:
                scores[index] = value
        missing = [index for index in np.flatnonzero(np.isnan(scores)).tolist() if index not in unusable]
        problems = [
            f"{what} {', '.join(map(str, indexes[:SHOWN]))}{' …' if len(indexes) > SHOWN else ''}"
            for what, indexes in (
                ("indexes of no text:", foreign),
                ("no usable score for", unusable),
                ("two scores for", twice),
                ("no score for", missing),
            )
            if indexes
        ]
        if problems:
            raise ModelOutputError(f"{self._endpoint.where}: {count} texts, but {'; '.join(problems)}")
        return scores
