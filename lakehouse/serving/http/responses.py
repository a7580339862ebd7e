"""How versions are told: plain values, the same wherever they stand, and the answer with its ETag."""

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
from lakehouse.serving.reports.wording import LABELS
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastapi import Request

    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion

Values = dict[str, Any]
#: So many rows of the grain an answer carries: of one number, or of all those on a page.
MOST_ROWS = 10_000


def respond(request: Request, body: Values, ticking: Values | None = None, tag: str = "") -> Response:
    """The answer as JSON, or that it is still the one that the reader has.

    :param ticking: what is another at any moment, and makes no other answer.
    :param tag: begins the ETag, for people.
    """
    text = json.dumps(body, default=_plain)
    etag = f'W/"{tag}{"-" if tag else ""}{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    known = request.headers.get("if-none-match")
    if (
        request.method == "GET"
        and known is not None
        and (known.strip() == "*" or etag in [one.strip() for one in known.split(",")])
    ):
        return Response(status_code=304, headers=headers)
    if ticking:
        text = json.dumps(body | ticking, default=_plain)
    return Response(text, headers=headers, media_type="application/json")


def fitting(sizes: Iterable[int]) -> int:
    """How many numbers of so many rows fit on a page, from the first one on: that one does, as far as it goes."""
    total = list(accumulate(sizes))
    return max(bisect_right(total, MOST_ROWS), min(len(total), 1))


def version(found: PublishedVersion, first: int = 0) -> Values:
    """A version of a number: what it says, how sure it is, and how it came to be.

    :param first: the row of the grain with which ``result`` begins.
    """
    said = found.row
    return {
        "version_name": found.name,
        "version": found.label,
        "revision": found.revision,
        "adjustment": found.adjustment,
        "state": found.state.value,
        "label": LABELS[found.state.value],
        "is_final": found.state is State.FINAL,
        "is_latest": found.is_latest,
        "result": [{name: json_value(value) for name, value in row.items()} for row in found.rows[first : first + MOST_ROWS]],
        "total_rows": len(found.rows),
        "event_count": sum(row["row_count"] or 0 for row in found.rows),
        "undecided_rows": said["undecided_rows"] or 0,
        "changed_rows": said["changed_rows"],
        "computed_at": found.published_at,
        "superseded_at": found.superseded_at,
        "reason": found.reason.value,
        "restated_on": found.restated_on,
        "restatement_reason": found.restatement_reason,
        "booked_on": said["booked_on"],
        "known_through": said["known_through"],
        "due_on": found.due_on,
        "dataset_version": found.dataset_version,
        "signed_off_by": said["signed_off_by"],
        "sign_off_reason": said["sign_off_reason"],
    }


def sides(numbers: Sides) -> Values:
    """Both sides of a number and what lies between them; ``percent`` is a number here, None also where no double holds it."""
    percent = None if numbers.percent is None else float(numbers.percent)
    return numbers.as_json() | {"percent": percent if percent is None or isfinite(percent) else None}


def moves(told: Mapping[str, Sides]) -> Values:
    """What a version moved, measure by measure."""
    return {name: sides(one) for name, one in told.items()}


def completeness(found: Estimate | Unknown) -> Values:
    """How much of the rows is in a number, and from how much that is known; or why it is not."""
    if isinstance(found, Unknown):
        return {"known": False, "because": found.because}
    return {
        "known": True,
        "share": found.share,
        "low": found.low,
        "high": found.high,
        "coverage": found.coverage,
        "earlier_periods": found.periods,
        "age_hours": found.age_hours,
        "horizon_hours": found.horizon_hours,
    }


def measures(series: Series) -> list[Values]:
    """What a metric measures."""
    return [
        {"name": one.name, "type": one.type, "additive": one.additive, "description": one.description}
        for one in series.metric.measures
    ]


def _plain(one: object) -> object:
    if isinstance(one, datetime):
        return one.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(one, date):
        return one.isoformat()
    if isinstance(one, timedelta):
        return int(one.total_seconds())
    return str(one)
