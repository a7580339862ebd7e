"""``/sources/{source}/rows``: a limited number of silver rows, as of now, of a time of knowledge, or of a snapshot.

The response model and its example are in this module, too. ``lakehouse rows`` returns any number of rows.
"""

from __future__ import annotations

import shlex
from asyncio import Semaphore
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.gold.numbers import version_selector
from lakehouse.serving import parameters, responses
from lakehouse.serving.models import Row, Shape
from lakehouse.serving.parameters import Day, Limit, Parameters, SourceName
from lakehouse.serving.responses import Problem
from lakehouse.snapshots import input_sets, local_rows
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.serving.published_cache import PublishedCache
    from lakehouse.snapshots.input_sets import NamedSnapshot


#: The number of keys and rows that a request may compute from Bronze, and the number of requests that read rows at once.
_COMPUTED, _AT_ONCE = 10_000, 2
_MOMENT = f"^{parameters.MOMENT}$"


class RowsParameters(Parameters):
    """The rows to return."""

    date: Annotated[Day | None, Field(description="Only this event day.")] = None
    start_date: Annotated[Day | None, Field(description="From this event day on.")] = None
    end_date: Annotated[Day | None, Field(description="Through this event day.")] = None
    key: Annotated[str | None, Field(min_length=1, max_length=500, description="Only rows of this key.")] = None
    known_at: Annotated[
        str | None, Field(pattern=_MOMENT, description="With what was known by this ISO time (a day: at its end).")
    ] = None
    snapshot: Annotated[str | None, Field(pattern=input_sets.NAME, description="With the inputs of this snapshot.")] = None
    limit: Limit = 100


class RowsModel(Shape):
    """Rows of silver by event day and key, with the columns of the contract and their origin."""

    source: str
    known_at: datetime | None
    snapshot: str | None
    rows: list[Row]
    more: bool = Field(description="Whether there are more rows than the limit.")
    command: str = Field(description="The command that writes all rows of these days to a file.")


EXAMPLE: dict[str, Any] = {
    "source": "sales",
    "known_at": None,
    "snapshot": None,
    "rows": [
        {
            "record_key": "s-17",
            "sale_id": "s-17",
            "amount": "24.50",
            "event_ts": "2024-11-07T18:02:11Z",
            "event_date": "2024-11-07",
            "source_system": "sales",
            "arrival_ts": "2024-11-08T05:58:12Z",
            "arrival_date": "2024-11-08",
            "source_file": "sales-2024-11-08.csv",
            "ingestion_id": "3f1c0b9a7d2e4f60",
            "line_number": 18,
            "source_sequence": 0,
            "source_order": None,
            "change_op": "insert",
            "is_correction": False,
            "corrects_key": None,
            "corrected_by": None,
            "correction_reason": None,
            "corrected_field": None,
        }
    ],
    "more": False,
    "command": "lakehouse rows sales --date 2024-11-07 --to rows.parquet",
}


def routes(cache: PublishedCache, steward: Callable[..., Any]) -> APIRouter:
    """The routes of this resource.

    :param steward: the dependency that requires a steward's token, because only stewards may see the values of rows.
    """
    router = APIRouter(prefix="/sources", tags=["sources"])
    at_once = Semaphore(_AT_ONCE)

    @router.get("/{source}/rows", dependencies=[Depends(steward)], response_model=RowsModel, summary="Rows of a source")
    async def rows(request: Request, source: SourceName, wanted: Annotated[RowsParameters, Query()]) -> Response:
        """Requires a steward's token. Returns silver's current rows; with `known_at` or `snapshot`, the rows that silver would
        have with that knowledge. Redacted fields are null. For large results, use `command`.
        """
        contract = cache.source(source)
        span = _span(wanted)
        async with at_once:
            body = await run_in_threadpool(_body, cache.lake, contract, wanted, span)
        return responses.respond(request, body)

    return router


def _span(wanted: RowsParameters) -> tuple[date | None, date | None]:
    """The first and the last event day; None if the request sets no limit.

    :raises Problem: for limits that contradict each other.
    """
    if wanted.date and (wanted.start_date or wanted.end_date):
        raise Problem(400, "makes-no-sense", "date is one day: use it without start_date and end_date")
    if wanted.known_at and wanted.snapshot:
        raise Problem(400, "makes-no-sense", "snapshot names the inputs: use it without known_at")
    first, last = wanted.date or wanted.start_date, wanted.date or wanted.end_date
    if first and last:
        return parameters.span(first, last)
    return first, last


def _body(lake: Lake, contract: SourceContract, wanted: RowsParameters, span: tuple[date | None, date | None]) -> dict[str, Any]:
    as_of, keys = _as_of(lake, contract.dataset, wanted), [wanted.key] if wanted.key else None
    command = _command(contract.dataset, wanted)
    days = local_rows.days_of(lake, contract, *span, keys)
    answer: pa.Table | None
    if as_of is None:
        answer = local_rows.first_rows(lake, contract, days, wanted.limit + 1, keys)
    else:
        answer = local_rows.computed(lake, contract, days, as_of, _COMPUTED, keys)
    if answer is None:
        detail = f"more than {_COMPUTED:,} rows have to be computed: ask for fewer days or a key, or run: {command}"
        raise Problem(400, "too-many-rows", detail)
    shown = answer.slice(0, wanted.limit).to_pylist()
    return {
        "source": contract.dataset,
        "known_at": as_of if isinstance(as_of, datetime) else None,
        "snapshot": wanted.snapshot,
        "rows": [{name: json_value(value) for name, value in row.items()} for row in shown],
        "more": len(answer) > wanted.limit,
        "command": command,
    }


def _as_of(lake: Lake, source: str, wanted: RowsParameters) -> datetime | NamedSnapshot | None:
    """:raises Problem: if the snapshot is unknown, or a text is not a time."""
    try:
        if wanted.snapshot:
            return input_sets.find_snapshot(lake, source, wanted.snapshot)
        return version_selector.parse_moment(parameters.with_plus(wanted.known_at)) if wanted.known_at else None
    except input_sets.SnapshotError as problem:
        raise Problem(404, "unknown-snapshot", f"{problem}") from None
    except version_selector.UnknownVersionError as problem:
        raise Problem(400, "makes-no-sense", f"{problem}") from None


def _command(source: str, wanted: RowsParameters) -> str:
    """The command that writes all rows of the requested days."""
    names = ("date", "start_date", "end_date", "known_at", "snapshot")
    given = {name: parameters.with_plus(f"{getattr(wanted, name)}") for name in names if getattr(wanted, name)}
    options = "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in given.items())
    return f"lakehouse rows {source}{options} --to rows.parquet"
