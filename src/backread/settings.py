"""What a user sets, resolved once: defaults < TOML file < environment < arguments.

Options of a part (a retriever's constants, a strategy's `top_k`) live with the part, not here.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from backread.errors import InvalidInputError
from backread.secret import Address, Secret

__all__ = ["ENVIRONMENT", "Settings", "resolve"]

_SECRET: Mapping[str, type[Secret]] = {"Address | None": Address, "Secret | None": Secret}
"""What a text becomes that is given for a field of this type."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a `Memory`.

    Keys are `Secret`s and addresses are `Address`es, made from text where text is given: printing settings, one by one
    or all together, shows no key.

    Attributes:
        path: the store's file.
        models_dir: where weights are kept; None is the user's cache directory.
        embedder: name of the embedder, or "none" to search by text only.
        embedder_base_url: endpoint of an "openai:" embedder; the chat's is never used for it.
        embedder_api_key: its key; never shown.
        reranker: name of a reranker that reads the best turns of a search once more; None does without.
        reranker_base_url: endpoint of a "cohere:", "jina:", "vllm:" or "tei" reranker.
        reranker_api_key: its key; never shown.
        rerank_depth: turns a reranker reads at least.
        sparse_encoder: name of a learned sparse encoder, for the search mode "sparse"; None does without.
        model: name of the chat model; None answers by quoting.
        build_model: the one that writes memory; None is `model`, as for the next three.
        recall_model: the one that works on evidence when a question comes.
        answer_model: the one that answers.
        judge_model: the one that grades answers in the bench.
        base_url: an OpenAI-compatible endpoint; None is OpenAI's own, which needs a key.
        api_key: its key; never shown.
        timeout: seconds to wait for a chat model.
        context_window: tokens a chat model can read and write together; a larger prompt is not sent. 0 is unknown.
        prices: TOML file with prices of models; without one costs are unknown.
        strategy: how memory is made when a question comes.
        budget: tokens of evidence shown to the answerer, fence and numbers included.
        concurrency: calls of a chat model at the same time, at most.
        zone: time zone of times that come without one.
        threads: threads of local models; 0 chooses by the machine.
        catch_up_seconds: how long a search may spend on vectors that are still pending.
        vector_cache_mb: memory for vectors between searches; 0 reads them from the file every time.
        turn_mb: text of one turn at most, in MiB of UTF-8; larger messages are refused.
        user_mb: what one user may store at most, in MiB of texts and attachments; 0 is no quota.
    """

    path: Path = field(default_factory=lambda: _data_dir() / "memory.db")
    models_dir: Path | None = None
    embedder: str = "minilm"
    embedder_base_url: Address | None = None
    embedder_api_key: Secret | None = None
    reranker: str | None = None
    reranker_base_url: Address | None = None
    reranker_api_key: Secret | None = None
    rerank_depth: int = 50
    sparse_encoder: str | None = None
    model: str | None = None
    build_model: str | None = None
    recall_model: str | None = None
    answer_model: str | None = None
    judge_model: str | None = None
    base_url: Address | None = None
    api_key: Secret | None = None
    timeout: float = 120.0
    context_window: int = 0
    prices: Path | None = None
    strategy: str = "naive_rag"
    budget: int = 1000
    concurrency: int = 4
    zone: str = "UTC"
    threads: int = 0
    catch_up_seconds: float = 0.5
    vector_cache_mb: int = 256
    turn_mb: int = 8
    user_mb: int = 0

    def __post_init__(self) -> None:
        for item in fields(self):
            kind = _SECRET.get(str(item.type))
            value = getattr(self, item.name)
            if kind is not None and value is not None and type(value) is not kind:
                object.__setattr__(self, item.name, kind(value))

    @property
    def zone_info(self) -> ZoneInfo:
        """`zone` as a time zone.

        Raises:
            InvalidInputError: there is no such zone.
        """
        try:
            return ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise InvalidInputError(
                f"there is no time zone {self.zone!r}", hint="use a name like Europe/Paris"
            ) from error


ENVIRONMENT: Mapping[str, str] = {
    "path": "BACKREAD_PATH",
    "models_dir": "BACKREAD_MODELS_DIR",
    "embedder": "BACKREAD_EMBEDDER",
    "embedder_base_url": "BACKREAD_EMBEDDER_BASE_URL",
    "embedder_api_key": "BACKREAD_EMBEDDER_API_KEY",
    "reranker": "BACKREAD_RERANKER",
    "reranker_base_url": "BACKREAD_RERANKER_BASE_URL",
    "reranker_api_key": "BACKREAD_RERANKER_API_KEY",
    "rerank_depth": "BACKREAD_RERANK_DEPTH",
    "sparse_encoder": "BACKREAD_SPARSE_ENCODER",
    "model": "BACKREAD_MODEL",
    "build_model": "BACKREAD_BUILD_MODEL",
    "recall_model": "BACKREAD_RECALL_MODEL",
    "answer_model": "BACKREAD_ANSWER_MODEL",
    "judge_model": "BACKREAD_JUDGE_MODEL",
    "base_url": "OPENAI_BASE_URL",
    "api_key": "OPENAI_API_KEY",
    "timeout": "BACKREAD_TIMEOUT",
    "context_window": "BACKREAD_CONTEXT_WINDOW",
    "prices": "BACKREAD_PRICES",
    "strategy": "BACKREAD_STRATEGY",
    "budget": "BACKREAD_BUDGET",
    "concurrency": "BACKREAD_CONCURRENCY",
    "zone": "BACKREAD_ZONE",
    "threads": "BACKREAD_THREADS",
    "catch_up_seconds": "BACKREAD_CATCH_UP_SECONDS",
    "vector_cache_mb": "BACKREAD_VECTOR_CACHE_MB",
    "turn_mb": "BACKREAD_TURN_MB",
    "user_mb": "BACKREAD_USER_MB",
}
"""The environment variable of each setting. BACKREAD_CONFIG names the TOML file."""


def _data_dir() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("backread"))


def resolve(environment: Mapping[str, str] | None = None, **arguments: Any) -> Settings:  # noqa: ANN401
    """Settings from all sources; an argument that is None was not given.

    Args:
        environment: variables to read, `os.environ` when None. An empty value counts as not set.
        arguments: settings by name; unknown names are refused.

    Raises:
        InvalidInputError: an unknown setting, or a value of the wrong type, with the place it came from.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, tuple[Any, str]] = {}
    for name, value in _toml(environment).items():
        values[name] = (value, "the configuration file")
    for name, variable in ENVIRONMENT.items():
        if environment.get(variable):
            values[name] = (environment[variable], variable)
    for name, value in arguments.items():
        if value is not None:
            values[name] = (value, "the arguments")
    kinds = {item.name: str(item.type) for item in fields(Settings)}
    given = {}
    for name, (value, origin) in values.items():
        if name not in kinds:
            raise InvalidInputError(f"unknown setting {name!r} in {origin}", hint=f"settings: {', '.join(kinds)}")
        given[name] = _converted(name, value, kinds[name], origin)
    return replace(Settings(), **given)


def _toml(environment: Mapping[str, str]) -> dict[str, Any]:
    import platformdirs

    named = environment.get("BACKREAD_CONFIG")
    path = Path(named) if named else Path(platformdirs.user_config_dir("backread")) / "config.toml"
    if not named and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}", hint="BACKREAD_CONFIG names a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: {error}", hint="mend the TOML file") from error


def _converted(name: str, value: Any, kind: str, origin: str) -> Any:  # noqa: ANN401
    try:
        if kind.startswith("Path"):
            return Path(value).expanduser()
        if kind == "int":
            return int(value)
        if kind == "float":
            return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} in {origin} must be a {kind}, not {value!r}") from error
    if isinstance(value, str):
        return value
    if kind in _SECRET:
        if isinstance(value, Secret):
            return value
        raise InvalidInputError(f"{name} in {origin} must be text")
    raise InvalidInputError(f"{name} in {origin} must be text, not {value!r}")
