"""An embedder behind any endpoint that speaks OpenAI's embeddings: hosted, vLLM, Ollama, llama.cpp, TEI.

What comes back is tied to the texts by `index`, and count, size and finiteness are checked item by item: a vector is
never attached by its place alone when the endpoint says otherwise, and an unusable one is an error that names its text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from backread import forking
from backread.arrays import NDArray, np
from backread.errors import InvalidInputError, ModelNotAvailableError, ModelOutputError
from backread.models.json_endpoint import JsonEndpoint, address
from backread.secret import Secret
from backread.text.fencing import safe

__all__ = ["OpenAIEmbedder"]

HOSTED = "https://api.openai.com/v1"
BATCH = 32  # what TEI takes in one request unless told otherwise
BLANK = "."  # OpenAI refuses an empty text
SMALLEST_NORM = 1e-6
CHARACTERS = 4

DIMENSIONS: Mapping[str, int] = MappingProxyType(
    {"text-embedding-3-large": 3072, "text-embedding-3-small": 1536, "text-embedding-ada-002": 1536}
)
"""Of models whose size is known without asking."""

_TOKEN = re.compile(r"[A-Za-z0-9]+|\S")


class OpenAIEmbedder:
    """An `Embedder` over HTTP. Threads may share one object; nothing is contacted before the first use.

    Tokens are not counted by the model's tokenizer, which is not here, but estimated on the high side: four letters or
    digits a token, every other sign one. `max_tokens` is small enough for every server; longer texts are passages.

    Args:
        model: as the endpoint calls it.
        base_url: with or without "/v1"; None is OpenAI's own, which needs a key.
        api_key: None sends none, as local servers expect.
        dimension: of a vector. None: known for OpenAI's models, and for others the endpoint is asked once, at the first
            use of `dimension`, `fingerprint` or `embed`. Smaller than the known one, the endpoint is asked to shorten.
        max_tokens: that are sent of one text.
        query_prompt: put before a query, as models trained with an instruction want it.
        timeout: seconds without a sign of the server.
        http_client: see `JsonEndpoint`.

    Raises:
        InvalidInputError: the address is not http(s), or a number is below 1.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | Secret | None = None,
        api_key: str | Secret | None = None,
        dimension: int | None = None,
        max_tokens: int = 512,
        query_prompt: str = "",
        timeout: float = 60.0,
        http_client: Any = None,  # noqa: ANN401 -- an httpx2.Client
    ) -> None:
        if max_tokens < 1 or (dimension is not None and dimension < 1):
            raise InvalidInputError(f"dimension {dimension} and max_tokens {max_tokens} must be at least 1")
        self._model, self._max_tokens, self._query_prompt = model, max_tokens, query_prompt
        self._known = dimension or DIMENSIONS.get(model)
        self._shorten = dimension if dimension and dimension != DIMENSIONS.get(model, dimension) else None
        self._needs_key = base_url is None and api_key is None
        self._endpoint = JsonEndpoint(
            address(base_url or HOSTED, "/embeddings", bare="/v1"),
            what=f"embedder {self.name!r}",
            api_key=api_key,
            timeout=timeout,
            http_client=http_client,
        )
        self._lock = forking.Lock()

    @property
    def name(self) -> str:
        """The model as users write it, "openai:" before it."""
        return f"openai:{self._model}"

    @property
    def fingerprint(self) -> str:
        """Model, prompt and dimension; not the address, so that a server may move. Asks for the dimension if need be.

        Nothing tells which weights a server has under a name: a server whose model was exchanged under the same name
        and with the same dimension goes unnoticed.
        """
        digest = hashlib.blake2b(self._query_prompt.encode(), digest_size=4).hexdigest() if self._query_prompt else ""
        return f"{self.name}:{digest and f'q{digest}:'}{self.dimension}"

    @property
    def dimension(self) -> int:
        """Columns of a vector.

        Raises:
            ModelError: it has to be asked for, and the endpoint can't be.
        """
        if self._known is None:
            self._request(["dimension"])
        assert self._known is not None
        return self._known

    @property
    def max_tokens(self) -> int:
        """As given."""
        return self._max_tokens

    def count_tokens(self, text: str) -> int:
        """An estimate, on the high side for words in Latin letters."""
        return sum(-(-len(match[0]) // CHARACTERS) for match in _TOKEN.finditer(text))

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """Unit vectors, float32, shape (len(texts), dimension), row i for texts[i]; blank text is sent as a full stop.

        Raises:
            ModelNotAvailableError: nothing answers, or there is neither address nor key.
            ModelRequestError: the endpoint refused or timed out.
            ModelOutputError: vectors that are too few, of another size, not finite, all zero, or not tied to a text.
        """
        prompt = self._query_prompt if kind == "query" else ""
        blocks = [
            self._request([prompt + self._shown(text) for text in texts[start : start + BATCH]])
            for start in range(0, len(texts), BATCH)
        ]
        return np.concatenate(blocks) if blocks else np.empty((0, self.dimension), np.float32)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._endpoint.close()

    def _shown(self, text: str) -> str:
        """What is sent of a text: safe for the wire, cut at `max_tokens`, never blank."""
        text = safe(text)
        left = self._max_tokens
        for match in _TOKEN.finditer(text):
            tokens = -(-len(match[0]) // CHARACTERS)
            if tokens > left:
                text = text[: match.start() + left * CHARACTERS].rstrip() if left else text[: match.start()].rstrip()
                break
            left -= tokens
        return text if text.strip() else BLANK

    def _request(self, texts: list[str]) -> NDArray[np.float32]:
        if self._needs_key:
            raise ModelNotAvailableError(
                f"{self._endpoint.what} has no endpoint", hint="give it a key for OpenAI, or the address of a server"
            )
        body: dict[str, object] = {"model": self._model, "input": texts}
        if self._shorten:
            body["dimensions"] = self._shorten
        answer = self._endpoint.post(body)
        data = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(data, list):
            raise self._endpoint.unusable(answer, "vectors")
        items = self._in_order(data, len(texts))
        return np.stack([self._vector(item, place, len(texts)) for place, item in enumerate(items, 1)])

    def _in_order(self, data: list[object], count: int) -> list[object]:
        """The vectors in the order of the texts: by `index`, or as they come where no item has one."""
        if len(data) != count:
            raise ModelOutputError(f"{self._endpoint.where}: {len(data)} vectors for {count} texts")
        items = [item if isinstance(item, Mapping) else {} for item in data]
        indexes = [item.get("index") for item in items]
        if all(index is None for index in indexes):
            return [item.get("embedding") for item in items]
        places = {index: item.get("embedding") for index, item in zip(indexes, items, strict=True) if _is_int(index)}
        if places.keys() != set(range(count)):
            raise ModelOutputError(f"{self._endpoint.where}: {count} texts, but the vectors are for {indexes}")
        return [places[place] for place in range(count)]

    def _vector(self, value: object, place: int, count: int) -> NDArray[np.float32]:
        """One checked unit vector."""
        said = f"{self._endpoint.where}: text {place} of {count}:"
        numbers = value if isinstance(value, list) else []
        if not numbers or not all(isinstance(number, int | float) for number in numbers):
            raise ModelOutputError(f"{said} what came is not a vector of numbers")
        vector = np.array(numbers, np.float64)
        with self._lock:
            self._known = self._known or len(vector)
        if len(vector) != self._known:
            raise ModelOutputError(
                f"{said} the vector has {len(vector)} dimensions, expected {self._known}",
                hint="is another model served under this name now?",
            )
        norm = float(np.linalg.norm(vector))
        if not np.isfinite(norm):
            raise ModelOutputError(f"{said} the vector has values that are not finite")
        if norm < SMALLEST_NORM:
            raise ModelOutputError(f"{said} the vector is all zero")
        unit: NDArray[np.float32] = (vector / norm).astype(np.float32)
        return unit


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
