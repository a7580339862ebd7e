"""Responses as JSON with an ETag, and the JSON of versions, numbers and estimates, shared by all routes.

The response models are in ``api.models``.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from datetime import date, datetime, timedelta, timezone
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Any

from fastapi.responses import Response

from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lateness.completeness import Estimate, Unknown
from lakehouse.reports.formatting import LABELS
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastapi import Request

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
