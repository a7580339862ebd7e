"""The routes that explain and compare published numbers: lineage, restatement report, two versions, and yesterday's number.

``/lineage`` has the inputs, code and contract of a number, and the trigger of its publication.
``/metrics/{name}/publications/{publication_id}`` is the restatement report of a publication. ``/metrics/{name}/compare`` has two
versions of a number, ``/at-this-time`` yesterday's as known at this time of day.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.days import same_time_before
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import window_history
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.numbers.routes import window
from lakehouse.gold.numbers.version_selector import SelectBy, UnknownVersionError
from lakehouse.gold.publication import restatement_reports
from lakehouse.ledger import publications
from lakehouse.live import routes as live_numbers
from lakehouse.live.compared import MissingLiveNumberError, compared
from lakehouse.reports.formatting import LABELS
from lakehouse.serving import models, parameters, quality_models, responses
from lakehouse.serving.parameters import Limit, MetricName, Moment, NoParameters, Offset, Parameters, WindowName
from lakehouse.serving.responses import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from lakehouse.calendar.periods import Period
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.gold.publication.restatement_reports import RestatementReport
    from lakehouse.lake import Lake
    from lakehouse.live.compared import ComparedNumber, ComparedSide
    from lakehouse.serving.published_cache import PublishedCache, PublishedSeries


class ComparisonParameters(Parameters):
    """The two versions to compare."""

    window: parameters.PeriodOrWindow
    version_a: parameters.VersionOrLive = "first"
    version_b: Annotated[
        parameters.VersionOrLive | None,
        Field(description="Default: the final number, with the adjustments booked for it."),
    ] = None
    limit: Limit = 1000
    offset: Offset = 0


#: The days after which a day of the week comes again.
_WEEK = 7


class AtThisTimeParameters(Parameters):
    """The time that counts as now, and the window."""

    at: Annotated[Moment | None, Field(description="The time that counts as now; default: now.")] = None
    window: Annotated[
        str | None,
        Field(
            description="A window of a day, as 2024-01-15T14: it is compared in place of today, with the same hour of the day "
            "before and of the same weekday. Also a day in place of today.",
            pattern=parameters.PERIOD_OR_WINDOW,
        ),
    ] = None


def comparison_routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/metrics", tags=["metrics"])

    @router.get("/{name}/compare", response_model=models.ComparisonModel, summary="Compare two versions of a number")
    async def compare(request: Request, name: MetricName, wanted: Annotated[ComparisonParameters, Query()]) -> Response:
        """The difference per measure and row of the grain, absolute and in percent; percent is null if the base is 0.

        By default, the first number is compared with the final one, including the adjustments booked for it. For a window of a
        day, the window's numbers are compared; for a live metric, also the numbers of the stream, as `live`.
        """
        metric = cache.metric(name)
        period, start = parameters.period_or_window(metric, wanted.window)
        names = (wanted.version_a, wanted.version_b)
        if live_numbers.LIVE in names:
            live_numbers.check_live(metric)
            live_numbers.check_kind(metric, period.kind)
        published = await cache.published(metric, period.kind)
        period_versions = published.versions_of(period)

        def body() -> dict[str, Any]:
            known = period_versions.versions(published.series)
            made = _compared(cache.lake, published, period, start, known, names)
            sides = {side: _side(one) for side, one in zip(("version_a", "version_b"), made.sides)}
            return window(published, period, start) | sides | _changes(made, (wanted.offset, wanted.limit))

        return responses.respond(request, await run_in_threadpool(body))

    @router.get("/{name}/at-this-time", response_model=models.AtThisTimeModel, summary="Yesterday as it was known at this time")
    async def at_this_time(request: Request, name: MetricName, wanted: Annotated[AtThisTimeParameters, Query()]) -> Response:
        """Compares today so far with yesterday, and with the same day of the week before, at the same time of day. Returns what
        was known of these then, what is known of yesterday now, and today.

        With `window`, the window takes the place of today, and the same hours of the two other days that of theirs.
        """
        metric = cache.metric(name)
        published = await cache.published(metric)
        contract = published.series.metric
        zone = ZoneInfo(contract.publication.timezone or "UTC")
        now = _zoned(wanted.at or cache.lake.now(), zone)
        period, start = parameters.period_or_window(metric, wanted.window) if wanted.window else (None, None)
        if period is not None and period.kind is not Kind.DAY:
            raise Problem(400, "makes-no-sense", f"{wanted.window} is no day, and no window of a day")
        today = period.start if period is not None else now.date()
        wanted_sides = ((1, 1, SelectBy.LATEST), (1, 0, SelectBy.FINAL), (0, 0, SelectBy.LATEST), (_WEEK, _WEEK, SelectBy.LATEST))
        try:
            of_days = []
            for days, age, by in wanted_sides:
                of_window = None if start is None else same_time_before(start, days, zone)
                of_days.append((today - timedelta(days=days), of_window, same_time_before(now, age, zone), by))
        except OverflowError:
            raise Problem(400, "makes-no-sense", "there is no day, or no week, before that") from None
        sides = [await run_in_threadpool(_number_at, published, *side) for side in of_days]
        names = ("yesterday_at_this_time", "yesterday", "today", "same_weekday_at_this_time")
        body: dict[str, Any] = {"metric": contract.metric, "series": published.series.name}
        numbers = {name: number for name, (number, _) in zip(names, sides)}
        totals = [_totals(published, version) for _, version in sides]
        body["yesterday_moved"] = responses.moves(_between(totals[0], totals[1]))
        body["today_against_yesterday"] = responses.moves(_between(totals[0], totals[2]))
        body["today_against_same_weekday"] = responses.moves(_between(totals[3], totals[2]))
        ticking = {"at": now} | numbers
        steady = {name: {**numbers[name], "at": None} for name in names}
        return responses.respond(request, body | steady, ticking)

    return router


def _zoned(moment: datetime, zone: ZoneInfo) -> datetime:
    """:raises Problem: if the time is outside the calendar."""
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(zone)
    except OverflowError:
        raise Problem(400, "makes-no-sense", "that time is outside the calendar") from None


def _compared(
    lake: Lake,
    published: PublishedSeries,
    period: Period,
    start: datetime | None,
    known: list[PublishedVersion],
    names: tuple[str, str | None],
) -> ComparedNumber:
    """:raises Problem: if a requested version, or number of the stream, does not exist."""
    written = (parameters.with_plus(names[0]), names[1] and parameters.with_plus(names[1]))
    try:
        return compared(lake, published.series, period, start, known, written)
    except UnknownVersionError as problem:
        raise Problem(404, "unknown-version", f"{problem}") from None
    except MissingLiveNumberError as problem:
        raise Problem(404, "no-live-numbers", f"{problem}") from None


def _side(side: ComparedSide) -> dict[str, Any]:
    version = side.version
    return {
        "asked": side.wanted,
        "version_name": version.name,
        "version": version.label,
        "state": None if version.is_live else version.state.value,
        "label": live_numbers.LABEL if version.is_live else LABELS[version.state.value],
        "computed_at": version.published_at,
        "note": side.note,
    }


def _changes(made: ComparedNumber, page: tuple[int, int]) -> dict[str, Any]:
    """A page of the differences, with their totals."""
    comparison, (offset, limit) = made.comparison, page
    changes = [
        {"grain": dict(change.grain), "measure": change.measure, **responses.sides(change.sides)}
        for change in comparison.changes[offset : offset + limit]
    ]
    more = offset + len(changes)
    return {
        "changes": changes,
        "total": len(comparison.changes),
        "next_offset": more if more < len(comparison.changes) else None,
        "totals": responses.moves(comparison.totals()),
        "reason": next((change.reason for change in comparison.changes), None),
        "changed_rows": next((change.rows for change in comparison.changes), None),
    }


def _number_at(
    published: PublishedSeries, day: date, start: datetime | None, at: datetime, by: SelectBy
) -> tuple[dict[str, Any], PublishedVersion | None]:
    """The number of a day, or of a window of it, as known at a given time: as JSON, and as a version."""
    named = f"{day}" if start is None else window_history.text(WINDOW_START, start, published.series.metric)
    seen = published.seen_at(day, at, by, start)
    if seen is None:
        return {"window": named, "at": at, "number": None, "note": "nothing had been published"}, None
    version, note = seen
    return {"window": named, "at": at, "number": responses.version(version), "note": note}, version


def _totals(published: PublishedSeries, version: PublishedVersion | None) -> dict[str, Sides]:
    return numbers_history.moved(published.series, [version])[0] if version is not None else {}


def _between(before: dict[str, Sides], after: dict[str, Sides]) -> dict[str, Sides]:
    """The difference between two numbers, measure by measure."""
    names = dict.fromkeys([*before, *after])
    missing = Sides(None, None)
    return {name: Sides(before.get(name, missing).after, after.get(name, missing).after) for name in names}


_SAID = ("inputs", "inputs_without", "known_through", "silver_version", "code_version", "contract_version", "run_id")
_COMMIT = (
    "publication_id",
    "gold_version",
    "recorded_at",
    "job_name",
    "code_commit",
    "trigger",
    "input_versions",
    "validation",
    "keys",
)
PublicationId = Annotated[
    str,
    Path(description="As returned by GET /lineage.", pattern="^[0-9a-zA-Z_-]{1,64}$", examples=["8e1f6d2ab3904c57"]),
]

PUBLICATION_EXAMPLE: dict[str, Any] = {
    "publication_id": "8e1f6d2ab3904c57",
    "gold_version": 730,
    "recorded_at": "2024-11-08T06:00:01Z",
    "job_name": "follow_silver",
    "code_commit": "3f2a9c1b7d4e",
    "trigger": {"run": "5d0c8f6e", "reason": "late_data"},
    "input_versions": {"silver/sales": {"version": 412, "arrivals_from": "2023-11-08", "arrivals_through": "2024-11-08"}},
    "validation": {"checks": 4, "failed": 0, "held": 0},
    "keys": {"2024-11-07": {"changed": 3, "sample": ["s-1", "s-2", "s-3"]}},
    "dimension_changes": {},
    "downstream": ["gold/revenue_weekly", "the daily report"],
}
_MOVED = {"revenue": {"before": "1180.00", "after": "1204.50", "difference": "24.50", "percent": 2.08}}
REPORT_EXAMPLE: dict[str, Any] = {
    "metric": "revenue",
    "series": "revenue",
    "publication_id": "8e1f6d2ab3904c57",
    "gold_version": 730,
    "run_id": "5d0c8f6e",
    "published_at": "2024-11-08T06:00:00Z",
    "reason": "late_data",
    "reasons": {"late_data": 1},
    "grain": [],
    "measures": ["revenue"],
    "period_count": 1,
    "totals": _MOVED,
    "periods": [
        {"window": "2024-11-07", "start": "2024-11-07", "before": "r1", "after": "r2", "state": "preliminary"}
        | {"reason": "late_data", "explanation": "late_data: 3 inserted", "changed_rows": 3}
        | {"moved": _MOVED, "row_count": 0, "rows": []}
    ],
    "causes": {"files": ["sales-2024-11-08.csv"], "files_in_all": 1, "by_hand": []},
    "by": None,
    "signed_off_by": None,
    "sign_off_reason": None,
}


class LineageParameters(Parameters):
    """The version whose lineage is returned."""

    version: parameters.Version = "latest"


def lineage_routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(tags=["lineage"])

    @router.get("/lineage/{name}/{window_name}", response_model=quality_models.LineageModel, summary="The lineage of a number")
    async def lineage(
        request: Request, name: MetricName, window_name: WindowName, wanted: Annotated[LineageParameters, Query()]
    ) -> Response:
        """The inputs of the number's revision, the commit that published it, and its downstream effects."""
        metric = cache.metric(name)
        period = parameters.period_of(metric, window_name)
        published = await cache.published(metric, period.kind)
        period_versions = published.versions_of(period)
        summary, _ = parameters.chosen(published, period, period_versions, parameters.version_of(wanted.version))
        version = period_versions.version(published.series, summary)
        body = window(published, period) | {"version": version.label, "version_name": version.name, "state": version.state.value}
        body |= {name: version.row[name] for name in (*_SAID, "signed_off_by", "sign_off_reason")}
        body |= {"source": published.series.metric.source, "made_from": version.made_from.as_json()}
        publication_id = version.row["publication_id"]
        body["publication"] = await run_in_threadpool(_publication, cache.lake, published.series.name, publication_id)
        body["because"] = await run_in_threadpool(restatement_reports.because, cache.lake, published.series, version)
        return responses.respond(request, body)

    @router.get(
        "/metrics/{name}/publications/{publication_id}",
        response_model=quality_models.RestatementReportModel,
        summary="What a publication restated",
    )
    async def report(request: Request, name: MetricName, publication_id: PublicationId, _: NoParameters) -> Response:
        """The report stored with a publication: its periods before and after, the reason, and the author.

        It does not change, even if the contract does. `GET /lineage` names the publication of a number.
        """
        published, stored = await report_of(cache, name, publication_id)
        body = vars(stored) | {"metric": published.series.metric.metric, "reason": stored.reason.value}
        body |= {"totals": _moves(stored.totals), "periods": _periods(stored)}
        return responses.respond(request, body)

    return router


async def report_of(cache: PublishedCache, name: str, publication_id: str) -> tuple[PublishedSeries, RestatementReport]:
    """The report of a publication of a metric, and its series; for the API and the pages.

    :raises Problem: if it does not exist.
    """
    series = {one.series.name: one for one in await cache.all_published([name])}
    stored = await run_in_threadpool(restatement_reports.find, cache.lake, sorted(series), publication_id)
    if stored is None:
        detail = f"{name} has no publication {publication_id} that restated a number, or its report is not written yet"
        raise Problem(404, "unknown-publication", detail)
    return series[stored.series], stored


def _periods(stored: RestatementReport) -> list[dict[str, Any]]:
    """The periods of a report, in order."""
    in_order = sorted(stored.periods.items(), key=lambda item: str(item[1]["start"]))
    return [
        {"window": window_name, **entry, "moved": _moves(entry["moved"])}
        | {"rows": [{"grain": row["grain"], "moved": _moves(row["moved"])} for row in entry["rows"]]}
        for window_name, entry in in_order
    ]


def _moves(stored: Mapping[str, Any]) -> dict[str, Any]:
    return responses.moves({name: restatement_reports.sides_of(values) for name, values in stored.items()})


def _publication(lake: Lake, series: str, publication_id: str) -> dict[str, Any] | None:
    publication = publications.find(lake, series, publication_id)
    if publication is None:
        return None
    rest = {"downstream": publication.downstream, "dimension_changes": restatement_reports.recorded_changes(lake, publication)}
    return {name: getattr(publication, name) for name in _COMMIT} | rest
