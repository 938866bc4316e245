"""GGUF files on the Hugging Face hub, by name: "org/repo/file.gguf" or "org/repo@revision/file.gguf".

    spec = ask_hub(HubFile.parse("Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q4_k_m.gguf"))

Nobody pinned such a file: the hub is asked once for its commit, size and sha256, the download is checked against them,
and from then on the file on this machine is checked against the hash of that day.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from backread.errors import InvalidInputError, ModelNotAvailableError, ModelRequestError
from backread.models.sources import DEFAULT_HUB, probe
from backread.models.specs import ModelFile, ModelSpec
from backread.secret import Access

__all__ = ["HubFile", "ask_hub", "known_hub"]

_PART = r"[A-Za-z0-9_][\w.-]*"
_NAME = re.compile(
    rf"(?P<repo>{_PART}/{_PART})(?:@(?P<revision>[\w.-]+))?/(?P<file>(?:{_PART}/)*{_PART}\.gguf)", re.ASCII
)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository; the hub's newest revision when none is given."""

    repo: str
    filename: str
    revision: str | None = None

    @classmethod
    def parse(cls, name: str) -> Self:
        """A name as users write it.

        Raises:
            InvalidInputError: it has another form.
        """
        match = _NAME.fullmatch(name)
        if match is None or ".." in name:
            raise InvalidInputError(
                f"{name!r} does not name a GGUF file on the hub",
                hint="write org/repo/file.gguf or org/repo@revision/file.gguf",
            )
        return cls(match["repo"], match["file"], match["revision"])

    @property
    def name(self) -> str:
        """The name as users write it; also the folder of the file under the models' folder."""
        return f"{self.repo}{f'@{self.revision}' if self.revision else ''}/{self.filename}"

    def spec(self, revision: str, sha256: str, size: int) -> ModelSpec:
        """The model that this file is."""
        return ModelSpec(
            name=self.name,
            files=(ModelFile(self.filename, sha256, size),),
            repo=self.repo,
            revision=revision,
            publisher=f"{self.repo.partition('/')[0]} on the hub",
            licence="see its page",
            homepage=f"{DEFAULT_HUB}/{self.repo}",
            kind="chat",
            good_for="not tried by backread",
        )


def ask_hub(file: HubFile, *, endpoint: str | None = None) -> ModelSpec:
    """The file as the hub has it: commit, size and sha256. At most five seconds are spent on reaching the hub.

    Args:
        file: which.
        endpoint: base URL; None takes HF_ENDPOINT, else the public hub.

    Raises:
        ModelNotAvailableError: the hub can't be reached, has no such file, or gives no sha256 for it.
    """
    import huggingface_hub

    endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or DEFAULT_HUB).rstrip("/")
    url = huggingface_hub.hf_hub_url(file.repo, file.filename, revision=file.revision, endpoint=endpoint)
    hint = "a GGUF file that is already here needs no fetching: use it as local:/path/to/file.gguf"
    try:
        probe(url)
        found = huggingface_hub.get_hf_file_metadata(url)
    except ModelRequestError as error:
        raise ModelNotAvailableError(f"the hub can't be asked for {file.name}: {error}", hint=hint) from error
    except Exception as error:  # noqa: BLE001 -- of the hub client's HTTP library, another one in every version
        reason = " ".join(Access(endpoint).cleaned(str(error)).split())[:300]
        raise ModelNotAvailableError(f"the hub does not give {file.name}: {reason}", hint=hint) from None
    if not _SHA256.fullmatch(found.etag or "") or not found.size or not found.commit_hash:
        raise ModelNotAvailableError(f"the hub gives no sha256 for {file.name}, so it can't be checked", hint=hint)
    return file.spec(found.commit_hash, str(found.etag), found.size)


def known_hub(file: HubFile, folder: Path, record: str) -> ModelSpec | None:
    """The file as it was when it was fetched, by the record that `backread.models.fetch` keeps; None when it wasn't."""
    try:
        size, _, sha256 = json.loads((folder / record).read_bytes())[file.filename]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if not isinstance(size, int) or not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        return None
    return file.spec(file.revision or "", sha256, size)
