"""Responses as JSON with an ETag, errors as problem documents, and the JSON of versions, numbers and estimates of all routes.

Errors are RFC 9457 problem documents, without details of the implementation. Here is also a value that a single reader refreshes
for all requests when it is too old. The response models are in ``models``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta, timezone
from itertools import accumulate, islice
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from fastapi.responses import Response

from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lateness.completeness import Estimate, Unknown
from lakehouse.reports.formatting import LABELS
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastapi import Request
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion

JsonObject = dict[str, Any]
#: The greatest number of grain rows in a response: of one number, or of all numbers on a page.
MOST_ROWS = 10_000


def respond(request: Request, body: JsonObject, ticking: JsonObject | None = None, tag: str = "") -> Response:
    """Respond with the body as JSON, or with 304 if the client already has it.

    :param ticking: fields that change constantly and are not part of the ETag.
    :param tag: the readable beginning of the ETag.
    """
    text = json.dumps(body, default=_plain)
    etag = f'W/"{tag}{"-" if tag else ""}{_digest(text)}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if _is_cached(request, etag):
        return Response(status_code=304, headers=headers)
    if ticking:
        text = json.dumps(body | ticking, default=_plain)
    return Response(text, headers=headers, media_type="application/json")


def respond_with_text(request: Request, text: str, media_type: str) -> Response:
    """Respond with a text of another media type, or with 304 if the client already has it."""
    etag = f'W/"{_digest(text)}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    return Response(status_code=304, headers=headers) if _is_cached(request, etag) else Response(text, 200, headers, media_type)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _is_cached(request: Request, etag: str) -> bool:
    """Whether the client has the response with this ETag."""
    cached = request.headers.get("if-none-match")
    if request.method != "GET" or cached is None:
        return False
    return cached.strip() == "*" or etag in [value.strip() for value in cached.split(",")]


def fitting(sizes: Iterable[int]) -> int:
    """The count of numbers that fit on a page, given the rows of each; the first number always fits, possibly in part."""
    total = list(accumulate(sizes))
    return max(bisect_right(total, MOST_ROWS), min(len(total), 1))


def version(published: PublishedVersion, first: int = 0) -> JsonObject:
    """A version of a number: its content, its state and its origin.

    :param first: the position of the first grain row in ``result``.
    """
    row = published.row
    return {
        "version_name": published.name,
        "version": published.label,
        "revision": published.revision,
        "adjustment": published.adjustment,
        "state": published.state.value,
        "label": LABELS[published.state.value],
        "is_final": published.state is State.FINAL,
        "is_latest": published.is_latest,
        "result": [
            {name: json_value(value) for name, value in values.items()} for values in published.rows[first : first + MOST_ROWS]
        ],
        "total_rows": len(published.rows),
        "event_count": sum(values["row_count"] or 0 for values in published.rows),
        "undecided_rows": row["undecided_rows"] or 0,
        "changed_rows": row["changed_rows"],
        "computed_at": published.published_at,
        "superseded_at": published.superseded_at,
        "reason": published.reason.value,
        "restated_on": published.restated_on,
        "restatement_reason": published.restatement_reason,
        "booked_on": row["booked_on"],
        "known_through": row["known_through"],
        "due_on": published.due_on,
        "dataset_version": published.dataset_version,
        "signed_off_by": row["signed_off_by"],
        "sign_off_reason": row["sign_off_reason"],
    }


def sides(numbers: Sides) -> JsonObject:
    """Both sides of a number and their difference. ``percent`` is None if undefined or too large for a double."""
    percent = None if numbers.percent is None else float(numbers.percent)
    return numbers.as_json() | {"percent": percent if percent is None or isfinite(percent) else None}


def moves(by_measure: Mapping[str, Sides]) -> JsonObject:
    """The changes of a version, measure by measure."""
    return {name: sides(numbers) for name, numbers in by_measure.items()}


def completeness(estimate: Estimate | Unknown) -> JsonObject:
    """The estimated share of rows that a number contains, with its basis; or the reason for a missing estimate."""
    if isinstance(estimate, Unknown):
        return {"known": False, "because": estimate.because}
    return {
        "known": True,
        "share": estimate.share,
        "low": estimate.low,
        "high": estimate.high,
        "coverage": estimate.coverage,
        "earlier_periods": estimate.periods,
        "age_hours": estimate.age_hours,
        "horizon_hours": estimate.horizon_hours,
    }


def measures(series: Series) -> list[JsonObject]:
    """The measures of a metric."""
    return [
        {"name": measure.name, "type": measure.type, "additive": measure.additive, "description": measure.description}
        for measure in series.metric.measures
    ]


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    return str(value)


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
    errors = [
        {"where": ".".join(map(str, mistake["loc"])), "message": _plain_problem(mistake)} for mistake in invalid.errors()[:20]
    ]
    detail = "; ".join(f"{mistake['where']}: {mistake['message']}" for mistake in errors[:3])
    return Problem(422, "not-as-documented", detail, errors=errors).response()


def _plain_problem(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown; /openapi.json lists the parameters"
    return str(error["msg"]).removeprefix("Value error, ")


T = TypeVar("T")
_LOG = logging.getLogger(__name__)


#: Calls a function with an argument in a thread.
Runner = Callable[[Callable[[Any], Any], Any], Awaitable[Any]]


class RefreshedValue(Generic[T]):
    """Caches the result of ``read``.

    The first request after the value is older than ``after`` seconds starts a thread that reads it again. In the meantime,
    requests get the old value; if it is older than ``at_most`` seconds, they wait. The value is replaced as a whole, so
    everything that a request reads from it is consistent. An instance belongs to one event loop.

    :param read: returns the new value; its argument is the cached value, None at first.
    :param run: calls ``read`` with its argument in a thread; by default one of the event loop.
    """

    def __init__(self, read: Callable[[T | None], T], after: float, at_most: float, run: Runner | None = None) -> None:
        self._read, self._after, self._at_most, self._run = read, after, at_most, run or asyncio.to_thread
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
            self._value = await self._run(self._read, self._value)
            self._read_at = started
            return self._value
        finally:
            self._reading = None


@overload
async def gathered(values: Iterable[Awaitable[T]]) -> list[T]: ...


@overload
async def gathered(values: Iterable[Awaitable[T]], *, failures: Literal[True]) -> list[T | BaseException]: ...


async def gathered(values: Iterable[Awaitable[T]], *, failures: bool = False) -> list[Any]:
    """The results of many awaitables, some at a time, so that other requests get their turn.

    :param failures: whether an error is a result, as with ``return_exceptions`` of ``asyncio.gather``.
    """
    waiting, results = iter(values), list[Any]()
    while some := [*islice(waiting, _SOME)]:
        results += await asyncio.gather(*some, return_exceptions=failures)
    return results


#: How many reads wait at once for the few threads that run them.
_SOME = 16


class ComposedValue(RefreshedValue[T]):
    """A value that a coroutine makes of other refreshed values, such as the overview of all metrics.

    What is made at once is made for each request. What takes longer, with hundreds of metrics, is kept. It is made again when it
    is four times as old as its making took, or five seconds; requests get it until it is ten times as old, at least three seconds
    and at most thirty.

    :param make: makes the value.
    :param is_kept: False to make it for each request, however long it takes.
    """

    def __init__(self, make: Callable[[], Awaitable[T]], *, is_kept: bool = True) -> None:
        async def run(_: Callable[[Any], Any], _before: Any) -> T:
            return await make()

        super().__init__(cast("Callable[[T | None], T]", make), -1.0, -1.0, run)
        self._is_kept = is_kept

    async def _refresh(self) -> T:
        started = monotonic()
        value = await super()._refresh()
        took = monotonic() - started
        is_kept = self._is_kept and took > _AT_ONCE
        self._after, self._at_most = (min(4 * took, _AFTER), min(max(10 * took, _KEPT), _AT_MOST)) if is_kept else (-1.0, -1.0)
        return value


#: Seconds: within which a value is made at once, how old one that is kept may be at least and at most, and after which it is made
#: again at the latest.
_AT_ONCE, _KEPT, _AT_MOST, _AFTER = 0.05, 3.0, 30.0, 5.0


def _log_failure(reading: asyncio.Task[T]) -> None:
    """Log a failure even if no request waits for the value."""
    if not reading.cancelled() and (problem := reading.exception()) is not None:
        _LOG.warning("cannot be read again: %s", problem)
