"""Every way backread can fail.

```
BackreadError                    anything this package raises on purpose; `.hint` says what to do next
├── InvalidInputError (ValueError)   the caller's data or arguments; nothing was stored or deleted
│   ├── BlankTextError               a message with no text and no attachment
│   ├── TurnTooLargeError            a message above the size limit
│   ├── QuotaError                   a message for which the user's quota has no room left
│   ├── TimeError                    a time that can't be read; never replaced by now
│   └── ConflictError                an external id that already names different content
├── NotFoundError (LookupError)      no such user, session, turn, entry or name, seen from this user
├── StoreError                       the record could not be read or written
│   ├── StoreBusyError               another process held the write lock past the limit
│   ├── StoreCorruptError            the file is damaged or is not a backread store
│   ├── SchemaTooNewError            written by a newer backread
│   ├── StoreReplacedError           the file isn't the one that was opened, or lies beside another's log
│   └── StaleVersionError            a commit on an old version of the history: read again and retry
├── ModelError                       a model could not do its work
│   ├── ModelNotAvailableError       weights or endpoint are not there
│   ├── ModelRequestError            the endpoint refused, timed out or answered with an error
│   │   └── ContextWindowError           the prompt does not fit the model's window, or was cut to it
│   ├── ModelOutputError             the answer came but can't be used
│   └── ModelMismatchError           stored vectors belong to another embedder
├── CancelledError                   nobody waits for the result any longer: what was being done was broken off
├── ImportFormatError                a file an importer can't read as its format
└── MissingExtraError (ImportError)  an optional dependency is not installed; names the install command
```

Operational errors (`StoreError`, `ModelError`) may go away when tried again; `InvalidInputError` never does.
This module imports nothing and has no logic.
"""

from __future__ import annotations

__all__ = [
    "BackreadError",
    "BlankTextError",
    "CancelledError",
    "ConflictError",
    "ContextWindowError",
    "ImportFormatError",
    "InvalidInputError",
    "MissingExtraError",
    "ModelError",
    "ModelMismatchError",
    "ModelNotAvailableError",
    "ModelOutputError",
    "ModelRequestError",
    "NotFoundError",
    "QuotaError",
    "SchemaTooNewError",
    "StaleVersionError",
    "StoreBusyError",
    "StoreCorruptError",
    "StoreError",
    "StoreReplacedError",
    "TimeError",
    "TurnTooLargeError",
]


class BackreadError(Exception):
    """Base of every error this package raises on purpose.

    Args:
        message: what was wrong and where.
        hint: what to do next, shown under the message by the command line.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class InvalidInputError(BackreadError, ValueError):
    """The caller's data or arguments can't be used; nothing was stored or deleted."""


class BlankTextError(InvalidInputError):
    """A message has no text (or only white space) and no attachment."""


class TurnTooLargeError(InvalidInputError):
    """A message is larger than the store's limit for one turn."""


class QuotaError(InvalidInputError):
    """The bytes a user may store are used up."""


class TimeError(InvalidInputError):
    """A time that can't be read. It is never replaced by the current time."""


class ConflictError(InvalidInputError):
    """An external id already names different content; edits are new turns that supersede the old."""


class NotFoundError(BackreadError, LookupError):
    """No such user, session, turn, entry or name; another user's id looks exactly like a missing one."""


class StoreError(BackreadError):
    """The record could not be read or written."""


class StoreBusyError(StoreError):
    """Another process held the write lock for longer than the busy timeout."""


class StoreCorruptError(StoreError):
    """The file is damaged, or is not a backread store."""


class SchemaTooNewError(StoreError):
    """The store was written by a newer version of backread."""


class StoreReplacedError(StoreError):
    """The file isn't the one that was opened, is gone, or lies beside the log of another; nothing was written."""


class StaleVersionError(StoreError):
    """A commit named an old version of the history; read it again and retry."""


class ModelError(BackreadError):
    """A model could not do its work.

    Args:
        message: what was wrong and where.
        hint: what to do next.
        usage: what the failed call took, a `types.Usage`, as far as the endpoint said; None when it didn't.
    """

    def __init__(self, message: str, *, hint: str | None = None, usage: object = None) -> None:
        super().__init__(message, hint=hint)
        self.usage = usage


class ModelNotAvailableError(ModelError):
    """The weights or the endpoint of a model are not there."""


class ModelRequestError(ModelError):
    """The endpoint refused, timed out or answered with an error.

    Args:
        message: what was wrong and where.
        hint: what to do next.
        usage: see `ModelError`.
        status: the HTTP status, or the code an error inside a 200 gave; None when there was no answer.
        retry_after: seconds the endpoint asked to wait.
        retryable: True when the same request may succeed later: 429, 5xx, a timeout, a connection that broke.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        usage: object = None,
        status: int | None = None,
        retry_after: float | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message, hint=hint, usage=usage)
        self.status, self.retry_after, self.retryable = status, retry_after, retryable


class ContextWindowError(ModelRequestError):
    """The prompt does not fit the model's window, or the endpoint cut it: send a smaller one.

    Args:
        message: what was wrong and where.
        hint: what to do next.
        usage: see `ModelError`.
        status: see `ModelRequestError`.
        window: tokens of the window, None when unknown.
        sent: tokens of the prompt, counted by the endpoint or estimated here.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        usage: object = None,
        status: int | None = None,
        window: int | None = None,
        sent: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint, usage=usage, status=status)
        self.window, self.sent = window, sent


class ModelOutputError(ModelError):
    """The model answered, but the answer can't be used (no text, wrong count, NaN, wrong format, cut off).

    Args:
        message: what was wrong and where.
        hint: what to do next.
        usage: see `ModelError`.
        raw: the text that can't be used, None when there was none. It may quote the record: it is not for logs.
        cut: True when the output ended at its limit, so that the format is not to blame.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        usage: object = None,
        raw: str | None = None,
        cut: bool = False,
    ) -> None:
        super().__init__(message, hint=hint, usage=usage)
        self.raw, self.cut = raw, cut


class ModelMismatchError(ModelError):
    """Stored vectors belong to another embedder than the one that is open."""


class CancelledError(BackreadError):
    """Nobody waits for the result any longer: what was being done was broken off."""


class ImportFormatError(BackreadError):
    """A file can't be read as the format it was said to be; says where."""


class MissingExtraError(BackreadError, ImportError):
    """An optional dependency is not installed; the message names the install command."""
