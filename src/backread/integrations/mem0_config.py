"""mem0's configuration, a dictionary, as settings: what has a place here is honoured, the rest is refused by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from backread.errors import InvalidInputError
from backread.secret import Address, Secret
from backread.settings import Settings, resolve

__all__ = ["settings_of"]

_ENDPOINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "openai": "openai_base_url",
        "ollama": "ollama_base_url",
        "vllm": "vllm_base_url",
        "lmstudio": "lmstudio_base_url",
    }
)
"""Providers whose API is OpenAI's, with the key that mem0 has their address under."""

_SAMPLING: Final = ("temperature", "max_tokens", "top_p", "top_k")
"""Keys of an `llm` that steer what mem0 has a model write of memories, which nothing writes here: without effect."""

_WITHOUT_EFFECT: Final = ("history_db_path", "version")
"""Top-level keys without effect: the history of a memory is read from the record."""


def settings_of(config: Mapping[str, Any]) -> Settings:
    """The settings of a configuration, over those of file and environment.

    - `vector_store`: the store is the file `<path>/<collection_name>.db`, whoever the provider is; without a path it
      lies beside the settings' store, and the name is "mem0" when none is given. Servers are refused.
    - `llm`: the chat model that answers, of an endpoint that speaks OpenAI's API.
    - `embedder`: of such an endpoint, or of "huggingface" by sentence-transformers.

    A section that is empty counts as absent.

    Raises:
        InvalidInputError: something that isn't listed here, by its name.
    """
    if not isinstance(config, Mapping):
        raise InvalidInputError(f"a configuration is a dictionary, not a {type(config).__name__}")
    given = {name: value for name, value in config.items() if value}
    _known("the configuration", given, ("vector_store", "llm", "embedder", *_WITHOUT_EFFECT))
    settings = resolve()
    if "vector_store" in given:
        settings = _store(settings, *_section("vector_store", given["vector_store"]))
    if "llm" in given:
        settings = _model(settings, *_section("llm", given["llm"]))
    if "embedder" in given:
        settings = _embedder(settings, *_section("embedder", given["embedder"]))
    return settings


def _known(where: str, given: Mapping[str, Any], names: Collection[str]) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InvalidInputError(
            f"{', '.join(map(repr, unknown))} of {where} has no place in backread", hint=f"honoured: {', '.join(names)}"
        )


def _section(name: str, section: object) -> tuple[str, dict[str, Any]]:
    """(provider, config) of a section."""
    if not isinstance(section, Mapping):
        raise InvalidInputError(f"{name} is a dictionary with provider and config, not a {type(section).__name__}")
    _known(name, section, ("provider", "config"))
    config = section.get("config") or {}
    if not isinstance(config, Mapping):
        raise InvalidInputError(f"config of {name} is a dictionary, not a {type(config).__name__}")
    return str(section.get("provider") or "openai"), {key: value for key, value in config.items() if value is not None}


def _store(settings: Settings, provider: str, config: Mapping[str, Any]) -> Settings:
    where = f"the vector_store {provider!r}"
    _known(where, config, ("path", "collection_name", "embedding_model_dims", "on_disk"))
    name = str(config.get("collection_name", "mem0"))
    if not re.fullmatch(r"[\w-][\w.-]{0,99}", name):
        raise InvalidInputError(f"collection_name of {where} can't name a file: {name!r}")
    folder = Path(str(config["path"])).expanduser() if "path" in config else settings.path.parent
    return replace(settings, path=folder / f"{name}.db")


def _model(settings: Settings, provider: str, config: Mapping[str, Any]) -> Settings:
    model, base_url, api_key = _endpoint("llm", provider, config, _SAMPLING)
    if base_url is None:
        return replace(settings, model=model, api_key=Secret(api_key) if api_key else settings.api_key)
    key = None if api_key is None else Secret(api_key)
    return replace(settings, model=model, base_url=Address(base_url), api_key=key)


def _embedder(settings: Settings, provider: str, config: Mapping[str, Any]) -> Settings:
    if provider == "huggingface":
        _known("the embedder 'huggingface'", config, ("model", "embedding_dims"))
        return replace(settings, embedder=f"st:{_named('embedder', config)}")
    model, base_url, api_key = _endpoint("embedder", provider, config, ("embedding_dims",))
    dimension = config.get("embedding_dims")
    address = None if base_url is None else Address(base_url)
    key = None if api_key is None else Secret(api_key)
    if address is None and settings.base_url is None:  # both are OpenAI's own, which has one key for both
        key = key or settings.embedder_api_key or settings.api_key
    name = f"openai:{model}" if dimension is None else f"openai:{model}@{dimension}"
    return replace(settings, embedder=name, embedder_base_url=address, embedder_api_key=key)


def _endpoint(
    section: str, provider: str, config: Mapping[str, Any], others: tuple[str, ...]
) -> tuple[str, str | None, str | None]:
    """(model, address, key); the address is None for OpenAI's own."""
    if provider not in _ENDPOINTS:
        raise InvalidInputError(
            f"the provider {provider!r} of {section} has no place in backread",
            hint=f"providers: {', '.join(_ENDPOINTS)}; openai with openai_base_url is any server that speaks its API",
        )
    key = _ENDPOINTS[provider]
    _known(f"the {section} {provider!r}", config, ("model", "api_key", key, *others))
    base_url = config.get(key)
    if base_url is None and provider != "openai":
        raise InvalidInputError(f"the {section} {provider!r} has no {key}", hint="name the address of the server")
    if provider == "ollama" and not str(base_url).rstrip("/").endswith("/v1"):
        base_url = f"{str(base_url).rstrip('/')}/v1"
    api_key = config.get("api_key")
    return (
        _named(section, config),
        None if base_url is None else str(base_url),
        None if api_key is None else str(api_key),
    )


def _named(section: str, config: Mapping[str, Any]) -> str:
    model = config.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidInputError(f"config of {section} names no model")
    return model
