"""A chat model on this machine: a GGUF file behind xllamacpp's OpenAI-compatible server on loopback.

    chat = open_local("local:qwen-1.5b", directory=models_dir())      # "backread models fetch qwen-1.5b" came before
    chat.complete(...)                                                # the first call starts the server
    chat.close()

Nothing is downloaded here.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backread.errors import ContextWindowError, InvalidInputError, ModelError, ModelNotAvailableError, NotFoundError
from backread.models.base import ChatMessage, ChatReply
from backread.models.fetch import MODELS, find, known_spec, not_available
from backread.models.gguf import HubFile
from backread.models.local_server import CONTEXT, LocalServer, check_gguf, need_xllamacpp
from backread.models.openai import OpenAIChat

__all__ = ["PREFIX", "LocalChat", "LocalServer", "open_local"]

PREFIX = "local:"
"""Names of local chat models begin with it: local:smollm2, local:/path/to/model.gguf, local:org/repo/file.gguf."""

TIMEOUT = 600.0


class LocalChat:
    """A `ChatModel` over a `LocalServer` that is started by the first call. Threads may share one object.

    Calls are answered one after another. A prompt that doesn't fit the context is a `ModelError` of the client.

    Args:
        name: recorded beside everything the model writes.
        weights: the GGUF file, or what finds it and its hash (None when that is not known) when it is needed.
        threads, context, repeat_penalty: see `LocalServer.start`.
        timeout: seconds for one call, once it is its turn.
    """

    def __init__(
        self,
        name: str,
        weights: Path | Callable[[], tuple[Path, str | None]],
        *,
        threads: int = 1,
        context: int = CONTEXT,
        repeat_penalty: float = 1.0,
        timeout: float = TIMEOUT,
    ) -> None:
        self._name = name
        self._find = weights if callable(weights) else lambda: (weights, None)
        self.threads = threads
        self.context = context
        self.repeat_penalty = repeat_penalty
        self._sha256: str | None = None
        self._timeout = timeout
        self._lock = threading.Lock()
        self._opened: tuple[LocalServer, OpenAIChat] | None = None

    @property
    def name(self) -> str:
        """The name as given."""
        return self._name

    @property
    def weights(self) -> Path:
        """The GGUF file.

        Raises:
            MissingExtraError, ModelNotAvailableError: see `open_local`.
        """
        return self._find()[0]

    @property
    def weights_sha256(self) -> str:
        """Hash of the weights, for records; reads the file once when it was not checked before."""
        if self._sha256 is None:
            weights, self._sha256 = self._find()
            if self._sha256 is None:
                with weights.open("rb") as file:
                    self._sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return self._sha256

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """As `OpenAIChat.complete`; the first call loads the model, which takes seconds.

        Raises:
            MissingExtraError, ModelNotAvailableError: see `LocalServer.start`.
            ModelError: see `OpenAIChat.complete`.
        """
        with self._serving() as client:
            return client.complete(
                messages, purpose=purpose, max_tokens=max_tokens, temperature=temperature, schema=schema
            )

    def stream(
        self,
        messages: Sequence[ChatMessage],
        on_text: Callable[[str], None],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
    ) -> ChatReply:
        """As `OpenAIChat.stream`, with a server as for `complete`."""
        with self._serving() as client:
            return client.stream(messages, on_text, purpose=purpose, max_tokens=max_tokens, temperature=temperature)

    def window(self) -> int:
        """Tokens of prompt and reply together."""
        return self.context

    def client(self) -> OpenAIChat:
        """The client of the running server, which is started when it isn't."""
        return self._open()[1]

    def close(self) -> None:
        """Close the connections and stop using the server. A later call starts again."""
        with self._lock:
            self._release()

    def _open(self) -> tuple[LocalServer, OpenAIChat]:
        with self._lock:
            if self._opened is None or not self._opened[0].running:
                self._release()
                server = LocalServer.start(
                    self.weights, threads=self.threads, context=self.context, repeat_penalty=self.repeat_penalty
                )
                self._opened = (server, _client(self._name, server, self._timeout))
            return self._opened

    @contextmanager
    def _serving(self) -> Iterator[OpenAIChat]:
        """The client for one call; what goes wrong in it is said in terms of this class."""
        try:
            server, client = self._open()
            with server.turn:
                yield client
        except ContextWindowError as error:
            error.hint = f"lower the budget, or open {self._name} with a context above {self.context}"
            raise
        except ModelError as error:
            with self._lock:
                if self._opened is None or self._opened[0].healthy():
                    raise
                self._release()
            raise ModelNotAvailableError(
                f"{self._name}: the server ended while it worked",
                hint="if memory was short, use a smaller context or model",
            ) from error

    def _release(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1].close()
            opened[0].close()


def open_local(
    name: str, *, directory: Path, threads: int = 1, context: int = CONTEXT, check: bool = True
) -> LocalChat:
    """The chat model called `name`; nothing is loaded before its first call, and nothing downloaded ever.

    Args:
        name: "smollm2", "qwen-1.5b", the path of a GGUF file, or "org/repo/file.gguf" (or "org/repo@revision/...")
            that was fetched from the hub; with or without "local:" before it. What exists as a path is a path.
        directory: see `backread.models.fetch.models_dir`.
        threads: see `LocalServer.start`.
        context: see `LocalServer.start`.
        check: look for xllamacpp and the weights now; else the first call does, and says what is missing.

    Raises:
        NotFoundError: no chat model has this name.
        InvalidInputError: neither a path nor a file on the hub, or `threads` or `context` below 1.
        MissingExtraError: xllamacpp is not installed.
        ModelNotAvailableError: the weights are missing or damaged; the hint says how to fetch them.
    """
    if threads < 1 or context < 1:
        raise InvalidInputError(f"threads and context are 1 or more, not {threads} and {context}")
    name = name.removeprefix(PREFIX)
    if name not in MODELS and _is_path(name):
        path = Path(name).expanduser().absolute()
        chat = LocalChat(f"{PREFIX}{path.name}", lambda: _given(path), threads=threads, context=context)
    else:
        name = _checked(name)
        penalty = MODELS[name].repeat_penalty if name in MODELS else 1.0
        chat = LocalChat(
            f"{PREFIX}{name}",
            lambda: _fetched(name, directory),
            threads=threads,
            context=context,
            repeat_penalty=penalty,
        )
    if check:
        _ = chat.weights
    return chat


def _is_path(name: str) -> bool:
    return name.startswith(("/", "~", ".")) or "\\" in name or Path(name).is_file()


def _checked(name: str) -> str:
    """The name of a model that can be fetched and can chat."""
    if "/" in name:
        return HubFile.parse(name).name
    chat = sorted(spec.name for spec in MODELS.values() if spec.kind == "chat")
    if name not in chat:
        raise NotFoundError(
            f"no local chat model is called {name!r}; there is: {', '.join(chat)}",
            hint="or give a path, local:/path/to/model.gguf, or a file on the hub, local:org/repo/file.gguf",
        )
    return name


def _given(path: Path) -> tuple[Path, str | None]:
    need_xllamacpp()
    check_gguf(path)
    return path, None


def _fetched(name: str, directory: Path) -> tuple[Path, str | None]:
    """Weights and hash of a model that `backread models fetch` brought."""
    need_xllamacpp()
    spec = known_spec(name, directory)
    folder = None if spec is None else find(name, directory)
    if spec is None or folder is None:
        raise not_available(name, f"they are not in {directory}")
    weights = folder / spec.files[0].name
    check_gguf(weights)
    return weights, spec.sha256


def _client(name: str, server: LocalServer, timeout: float) -> OpenAIChat:
    """A client that no proxy setting sends elsewhere."""
    import openai

    http_client = openai.DefaultHttpxClient(trust_env=False, follow_redirects=False)
    return OpenAIChat(name, base_url=server.base_url, api_key=server.api_key, timeout=timeout, http_client=http_client)
