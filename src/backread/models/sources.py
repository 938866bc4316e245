"""Where the bytes of a model may come from: a folder, the Hugging Face hub, or an address with the files.

A source only brings bytes; `backread.models.fetch` checks every hash before a file gets its name. Nothing that is
downloaded is ever imported, unpickled or run.
"""

from __future__ import annotations

import base64
import http.client
import importlib
import inspect
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from backread.errors import ModelNotAvailableError, ModelRequestError
from backread.models.specs import ModelFile, ModelSpec
from backread.secret import Access, shown_url

__all__ = ["HubSource", "PathSource", "Progress", "Source", "UrlSource", "probe"]

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all); done never shrinks and ends at the total when the source succeeded."""

CHUNK = 1 << 20
CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
DEFAULT_HUB = "https://huggingface.co"
_NETWORK = (OSError, http.client.HTTPException, ValueError)


class Source(Protocol):
    """A place to get a model from."""

    def describe(self, spec: ModelSpec) -> str:
        """The place in words for the user, for example "hub org/name@1110a243"."""
        ...

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        """Put every file of `spec` into the existing folder `into`, under its name; the caller checks the hashes.

        Raises:
            ModelRequestError: the place can't be reached or does not have the files; another source may.
            ModelNotAvailableError: the place gave other bytes than the pinned ones; no other source is tried.
        """
        ...


class PathSource:
    """Files the user already has: a folder with them, or any file in that folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def describe(self, spec: ModelSpec) -> str:
        """The path."""
        return f"path {self.path}"

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        """Copy the files; every failure is final, because the user named this place."""
        folder = self.path if self.path.is_dir() else self.path.parent
        missing = [file.name for file in spec.files if not (folder / file.name).is_file()]
        if missing or not self.path.exists():
            raise ModelNotAvailableError(
                f"{self.path} is not the place of {spec.name}: missing {', '.join(missing) or self.path.name}",
                hint=f"give a folder with {', '.join(file.name for file in spec.files)}",
            )
        done = 0
        for file in spec.files:
            try:
                shutil.copyfile(folder / file.name, into / file.name)
            except OSError as error:
                raise ModelNotAvailableError(f"{folder / file.name} can't be copied: {_reason(error)}") from error
            done += file.size
            on_progress(done, spec.size)


class HubSource:
    """The Hugging Face hub at the pinned revision, through `huggingface_hub`; its local cache is used when it has them.

    Args:
        endpoint: base URL; None takes HF_ENDPOINT, else the public hub.
        cache: the hub client's cache folder; None is its own default.
    """

    def __init__(self, endpoint: str | None = None, cache: Path | None = None) -> None:
        self.endpoint = endpoint
        self.cache = cache

    def describe(self, spec: ModelSpec) -> str:
        """Repository and short revision."""
        return f"hub {spec.repo}@{spec.revision[:8]}"

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        """Download each file; at most five seconds are spent on finding out that the hub can't be reached."""
        import huggingface_hub

        cached = [
            huggingface_hub.try_to_load_from_cache(spec.repo, f.name, self.cache, spec.revision) for f in spec.files
        ]
        if all(isinstance(path, str) for path in cached):
            for file, path in zip(spec.files, cached, strict=True):
                shutil.copyfile(str(path), into / file.name)
            on_progress(spec.size, spec.size)
            return
        endpoint = (self.endpoint or os.environ.get("HF_ENDPOINT") or DEFAULT_HUB).rstrip("/")
        probe(f"{endpoint}/{spec.repo}/resolve/{spec.revision}/{spec.files[-1].name}")
        counter = _Counter(spec.size, on_progress)
        for file in spec.files:
            self._download(spec, file, into, endpoint, counter)
        shutil.rmtree(into / ".cache", ignore_errors=True)
        counter.finish()

    def _download(self, spec: ModelSpec, file: ModelFile, into: Path, endpoint: str, counter: _Counter) -> None:
        import huggingface_hub

        options: dict[str, Any] = {}
        if "tqdm_class" in inspect.signature(huggingface_hub.hf_hub_download).parameters:  # not before 1.0
            options["tqdm_class"] = _bar_class(counter)
        try:
            huggingface_hub.hf_hub_download(
                spec.repo,
                file.name,
                revision=spec.revision,
                local_dir=into,
                etag_timeout=CONNECT_SECONDS,
                endpoint=endpoint,
                **options,
            )
        except Exception as error:  # noqa: BLE001 -- of the hub client's HTTP library, another one in every version
            reason = Access(endpoint).cleaned(_reason(error.__cause__ or error))
            raise ModelRequestError(f"{file.name}: {reason}") from None  # the cause says the address as it is


class UrlSource:
    """A web address under which a model's files lie by their names: a mirror, or a bucket.

    Args:
        url: http or https. User and password in it are sent to its host only, and never shown.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def describe(self, spec: ModelSpec) -> str:
        """The address, without user and password."""
        return f"address {shown_url(self.url)}"

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        """Download each file; every failure is final, because the user named this place."""
        counter = _Counter(spec.size, on_progress)
        base, _, query = self.url.partition("?")
        for file in spec.files:
            address = f"{base.rstrip('/')}/{urllib.parse.quote(file.name)}" + (f"?{query}" if query else "")
            try:
                _stream(address, into / file.name, file.size, counter)
            except _NETWORK as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                raise ModelNotAvailableError(_told(error, address)) from None
        counter.finish()


class _Counter:
    """Adds up bytes for a progress callback, never above the total."""

    def __init__(self, total: int, on_progress: Progress) -> None:
        self.total, self.done, self.on_progress = total, 0, on_progress

    def add(self, count: float | None) -> None:
        self.done = min(self.total, self.done + max(0, int(count or 0)))
        self.on_progress(self.done, self.total)

    def finish(self) -> None:
        self.done = self.total
        self.on_progress(self.total, self.total)


def _bar_class(counter: _Counter) -> type:
    """A progress bar class for the hub client that shows nothing and counts."""
    base: Any = importlib.import_module("huggingface_hub.utils").tqdm

    class Bar(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401
            super().__init__(*args, **(options | {"disable": True}))

        def update(self, n: float | None = 1) -> bool | None:
            counter.add(n)
            return None

    return Bar


def probe(url: str) -> None:
    """Raise ModelRequestError unless something answers at `url` within five seconds; any HTTP status is an answer."""
    try:
        with _open(url, CONNECT_SECONDS, method="HEAD"):
            return
    except urllib.error.HTTPError as error:
        error.close()
    except _NETWORK as error:
        raise ModelRequestError(_told(error, url)) from None


def _open(url: str, seconds: float, *, method: str = "GET") -> http.client.HTTPResponse:
    """An open response; http(s) only. User and password in the URL become a header that redirects don't carry."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not an http(s) address: {shown_url(url)}")
    address = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    headers = {"User-Agent": "backread"}
    request = urllib.request.Request(address, headers=headers, method=method)
    if parts.username:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode("ascii"))
    response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=seconds)
    return response


def _told(error: Exception, url: str) -> str:
    return f"{Access(url).cleaned(_reason(error))} ({shown_url(url)})"


def _stream(url: str, target: Path, size: int, counter: _Counter) -> None:
    """Download to a file; OSError when the connection ends before `size` bytes, and no more than that is read."""
    done = 0
    with _open(url, READ_SECONDS) as response, target.open("wb") as file:
        while done < size and (chunk := response.read(min(CHUNK, size - done))):
            file.write(chunk)
            done += len(chunk)
            counter.add(len(chunk))
    if done < size:
        raise OSError(f"the connection ended after {done} of {size} bytes")


def _reason(error: BaseException) -> str:
    """One line on what went wrong, with the error's kind when its text says too little."""
    wrapped = isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError)
    cause = getattr(error, "reason", error) if wrapped else error
    text = " ".join(str(cause).split())
    return text[:300] if text else type(error).__name__
