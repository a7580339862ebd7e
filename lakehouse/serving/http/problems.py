"""Errors as RFC 9457 problem documents, without details of the implementation.

A value that one reader refreshes for all requests when it is too old.
"""

from __future__ import annotations

import asyncio
import json
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fastapi.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastapi import Request
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException


MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "The request makes no sense",
    401: "A token is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "The request is too slow",
    409: "Conflict",
    413: "The request is too large",
    414: "The address is too long",
    415: "Media type not supported",
    421: "Host name not accepted",
    422: "The request is not as documented",
    429: "Too many requests",
    431: "The headers are too large",
    500: "Something went wrong here",
    503: "The tables cannot be read",
}
_TITLES_OF_KINDS = {"too-many-connections": "Too many connections"}


class Problem(Exception):  # noqa: N818 (as the RFC calls it)
    """An error for the client. ``kind`` is a stable identifier for programs."""

    def __init__(self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers, self.more = status, kind, detail, dict(headers or {}), more

    def body(self) -> dict[str, Any]:
        """The problem document."""
        title = _TITLES_OF_KINDS.get(self.kind) or TITLES.get(self.status, "Error")
        return {"type": f"urn:lakehouse:{self.kind}", "title": title, "status": self.status, "detail": self.detail, **self.more}

    def response(self) -> Response:
        """The response."""
        return Response(json.dumps(self.body()), self.status, self.headers, MEDIA_TYPE)


async def on_problem(_: Request, problem: Exception) -> Response:
    """Handle a :class:`Problem`."""
    assert isinstance(problem, Problem)  # noqa: S101 (how FastAPI calls it)
    return problem.response()


async def on_http(_: Request, error: Exception) -> Response:
    """Handle requests rejected by the framework: an unknown path, a wrong method, an invalid body."""
    if isinstance(error.__cause__, Problem):  # raised while the body was read
        return error.__cause__.response()
    refused: HTTPException = error  # type: ignore[assignment]
    kind = {404: "no-such-path", 405: "no-such-method"}.get(refused.status_code, "refused")
    detail = {404: "there is nothing at this address; /openapi.json lists the addresses"}.get(refused.status_code, refused.detail)
    return Problem(refused.status_code, kind, str(detail), refused.headers).response()


async def on_invalid(_: Request, error: Exception) -> Response:
    """Handle invalid parameters: list each with its location, without its value."""
    invalid: RequestValidationError = error  # type: ignore[assignment]
    errors = [{"where": ".".join(map(str, mistake["loc"])), "message": _plain(mistake)} for mistake in invalid.errors()[:20]]
    detail = "; ".join(f"{mistake['where']}: {mistake['message']}" for mistake in errors[:3])
    return Problem(422, "not-as-documented", detail, errors=errors).response()


def _plain(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown; /openapi.json lists the parameters"
    return str(error["msg"]).removeprefix("Value error, ")


T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class RefreshedValue(Generic[T]):
    """Caches the result of ``read``.

    The first request after the value is older than ``after`` seconds starts a thread that reads it again. In the meantime,
    requests get the old value; if it is older than ``at_most`` seconds, they wait. The value is replaced as a whole, so
    everything that a request reads from it is consistent. An instance belongs to one event loop.

    :param read: returns the new value; its argument is the cached value, None at first.
    """

    def __init__(self, read: Callable[[T | None], T], after: float, at_most: float) -> None:
        self._read, self._after, self._at_most = read, after, at_most
        self._value: T | None = None
        self._read_at = float("-inf")
        self._reading: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the value, refreshed if necessary.

        :raises Exception: the error of ``read``, if no value is recent enough.
        """
        age = monotonic() - self._read_at
        if self._value is not None and age <= self._after:
            return self._value
        if self._reading is None:
            self._reading = asyncio.create_task(self._refresh())
            self._reading.add_done_callback(_log_failure)
        if self._value is not None and age <= self._at_most:
            return self._value
        return await asyncio.shield(self._reading)  # a cancelled request does not cancel the read for the others

    async def _refresh(self) -> T:
        started = monotonic()
        try:
            self._value = await asyncio.to_thread(self._read, self._value)
            self._read_at = started
            return self._value
        finally:
            self._reading = None


def _log_failure(reading: asyncio.Task[T]) -> None:
    """Log a failure even if no request waits for the value."""
    if not reading.cancelled() and (problem := reading.exception()) is not None:
        _LOG.warning("cannot be read again: %s", problem)
