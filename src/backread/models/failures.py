"""What the official client raises, and errors inside a 200, as errors of this package."""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import math
from collections.abc import Iterator, Mapping

from backread.errors import ContextWindowError, ModelNotAvailableError, ModelOutputError, ModelRequestError
from backread.models.completions import short
from backread.models.context_window import RAISE_WINDOW, overflow
from backread.secret import Access

__all__ = ["detail_of", "error_inside", "mapped_failures", "retry_after", "words_of"]

_BROKEN = ("ReadError", "WriteError", "CloseError", "RemoteProtocolError")
_HINTS = {
    401: "check OPENAI_API_KEY",
    403: "check OPENAI_API_KEY and what it may use",
    404: "is the model served under this name, and is the address right?",
}


@contextlib.contextmanager
def mapped_failures(where: str, reached: Access, timeout: float) -> Iterator[None]:
    """Errors of the client and of its transport become `ModelError`s that say where.

    They are not chained: the client's own hold the request, and what they say may repeat a key.

    Raises:
        ModelNotAvailableError: nothing answers.
        ModelRequestError: no answer in time, a connection that broke, or an error status.
        ModelOutputError: an answer that is no JSON.
    """
    import openai

    try:
        yield
    except openai.APITimeoutError:
        raise _timeout(where, timeout) from None
    except openai.APIConnectionError as error:
        raise _connection(error.__cause__ or error, where, reached) from None
    except openai.APIStatusError as error:
        body = reached.cleaned(error.body)
        said = f"{where}: HTTP {error.status_code}: {detail_of(body) or _words(error.message, reached)}"
        raise _error(error.status_code, body, said, error.response.headers) from None
    except openai.OpenAIError as error:
        raise ModelRequestError(f"{where}: {_words(error, reached)}") from None
    except ValueError as error:
        raise ModelOutputError(f"{where}: the answer is not JSON: {_words(error, reached)}") from None
    except Exception as error:  # the transport's own, out of a stream that breaks
        if type(error).__module__.split(".")[0] not in ("httpx", "httpx2"):
            raise
        if "Timeout" in type(error).__name__:
            raise _timeout(where, timeout) from None
        raise _connection(error, where, reached) from None


def error_inside(error: object, where: str) -> ModelRequestError:
    """The error for an answer with status 200 that is one, by the code it gives itself."""
    code = error.get("code") if isinstance(error, Mapping) else None
    status = int(code) if isinstance(code, int | str) and str(code).isdecimal() and 400 <= int(code) <= 599 else None
    return _error(status, error, f"{where}: the answer is an error: {detail_of(error)}", {})


def _error(status: int | None, body: object, said: str, headers: Mapping[str, str]) -> ModelRequestError:
    """429 and 5xx may pass, except an exhausted quota, what is not implemented, and a prompt that is too long."""
    words = words_of(body, said)
    too_long = overflow(words, body)
    if too_long is not None and status not in (401, 403, 404, 429):
        return ContextWindowError(said, hint=RAISE_WINDOW, status=status, window=too_long.window, sent=too_long.sent)
    passing = status is not None and (status in (408, 429) or (status >= 500 and status != 501))
    return ModelRequestError(
        said,
        hint=_HINTS.get(status or 0),
        status=status,
        retry_after=retry_after(headers),
        retryable=passing and "insufficient_quota" not in words,
    )


def detail_of(body: object) -> str | None:
    """The server's own words out of an error body, whatever its shape."""
    if isinstance(body, Mapping):
        inner = next((body[key] for key in ("error", "message", "detail") if body.get(key)), None)
        return detail_of(inner) if inner is not None else None
    return short(str(body)) if body else None


def words_of(body: object, detail: str) -> str:
    """Everything an error says that can be searched: its words, code and type."""
    told = body if isinstance(body, Mapping) else {}
    told = told["error"] if isinstance(told.get("error"), Mapping) else told
    return " ".join([detail, *(str(told[key]) for key in ("code", "type") if told.get(key))])


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks to wait, from `Retry-After` in seconds or as a date, or `retry-after-ms`.

    A date is compared with the server's own `Date`, so that its clock may be wrong.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with contextlib.suppress(ValueError):
            seconds = float(headers.get(name, "")) / unit
            return max(0.0, seconds) if math.isfinite(seconds) else None
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        until = email.utils.parsedate_to_datetime(value)
        said = headers.get("date")
        now = email.utils.parsedate_to_datetime(said) if said else datetime.datetime.now(datetime.UTC)
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):
        return None


def _timeout(where: str, timeout: float) -> ModelRequestError:
    return ModelRequestError(f"{where}: no answer within {timeout:g} seconds", retryable=True)


def _connection(cause: BaseException, where: str, reached: Access) -> ModelRequestError | ModelNotAvailableError:
    if type(cause).__name__ in _BROKEN:
        return ModelRequestError(f"{where}: the connection broke: {_words(cause, reached)}", retryable=True)
    return ModelNotAvailableError(f"{where}: {_words(cause, reached)}", hint=f"is a server running at {reached.shown}?")


def _words(error: object, reached: Access) -> str:
    return short(str(reached.cleaned(str(error))))
