"""``/page/lateness``: the lateness of a source's rows, the share that a watermark catches, and the trend by day."""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.lateness import measurement
from lakehouse.lateness import rules as judging
from lakehouse.operations.alerts import figures
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.serving.http import parameters
from lakehouse.serving.http.parameters import Day, Parameters
from lakehouse.serving.web.charts import lateness as charts
from lakehouse.serving.web.page import PREFIX, respond
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from fastapi import APIRouter

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.lateness.measurement import EventTypeLateness, LatenessMeasurement
    from lakehouse.operations.alerts.figures import ArrivalFigure
    from lakehouse.serving.http.published_cache import PublishedCache
    from lakehouse.settings import Settings

_CHOICES = (7, 28, 92)
_KEPT = 32
_PERCENTILES = ("p50", "p95", "p99")


class LatenessPageParameters(Parameters):
    """The source, and the arrival days: ``days`` days ``through`` a day, by default the newest."""

    source: Annotated[str | None, Field(pattern=parameters.NAME)] = None
    through: Day | None = None
    days: Annotated[int, Field(ge=1, le=max(_CHOICES))] = 28
    by: Literal["day", "hour"] = "day"


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @lru_cache(_KEPT)
    def measured(source: str, first: date, last: date, _version: Hashable) -> dict[str, Any]:
        contract = cache.source(source)
        rows = measurement.measure(cache.settings, contract, first, last)
        return _by_type(contract, rows) | _trend(measurement.by_day(cache.settings, contract, first, last))

    def page_values(wanted: LatenessPageParameters) -> dict[str, Any]:
        sources = sorted(cache.catalog.sources)
        newest = {name: measurement.newest_arrival(cache.settings, name) for name in sources}
        with_rows = [name for name in sources if newest[name] is not None]
        source = cache.source(wanted.source).dataset if wanted.source else next(iter(with_rows or sources), None)
        about: dict[str, Any] = {"sources": sources, "source": source, "days": wanted.days, "choices": _CHOICES, "by": wanted.by}
        last = None if source is None else newest[source]
        if source is None or last is None:
            return about | {"found": None, "first": None, "last": None}
        _, through = parameters.span(wanted.through or last, wanted.through or last)
        first, last = measurement.window(through, wanted.days)
        version = measurement.version(cache.settings, source)
        about |= {"found": measured(source, first, last, version), "first": first, "last": last}
        return about | _watched(cache.settings, cache.catalog, cache.source(source), last, wanted)

    @router.get(PREFIX + "/lateness")
    async def late(request: Request, wanted: Annotated[LatenessPageParameters, Query()]) -> Response:
        return respond(request, "lateness", "lateness", await run_in_threadpool(page_values, wanted))


def _watched(
    settings: Settings, catalog: Catalog, contract: SourceContract, through: date, wanted: LatenessPageParameters
) -> dict[str, Any]:
    """The figures that alerts compare with a bound, and these alerts if they are open."""
    arrivals = figures.by_arrival(settings, contract, through, wanted.days, wanted.by)
    names = tuple(one.name for one in arrivals)
    shares = charts.against_bound(
        names, tuple(one.share for one in arrivals), tuple(one.share_bound for one in arrivals), in_percent=True
    )
    hours = [tuple(None if one is None else one / 3600 for one in line) for line in _lags(arrivals)]
    weekly = [each for metric in catalog.metrics_of(contract.dataset) if (each := figures.by_week(settings, catalog, metric))]
    restated = [
        {
            "figure": each,
            "chart": charts.against_bound(tuple(each.weeks), tuple(each.counts), (each.bound,) * len(each.weeks)),
            "open": figures.open_alerts(settings, each.metric, [AlertKind.RESTATEMENTS]).get(AlertKind.RESTATEMENTS),
        }
        for each in weekly
    ]
    of_source = figures.open_alerts(settings, contract.dataset, [AlertKind.LATE_SHARE, AlertKind.LAG])
    return {
        "arrivals": arrivals,
        "shares": shares,
        "lags": charts.against_bound(names, *hours),
        "share_alert": of_source.get(AlertKind.LATE_SHARE),
        "lag_alert": of_source.get(AlertKind.LAG),
        "lag_terms": contract.alerts.lag,
        "restated": restated,
    }


def _lags(arrivals: Sequence[ArrivalFigure]) -> list[tuple[float | None, ...]]:
    return [tuple(one.p99 for one in arrivals), tuple(one.p99_bound for one in arrivals)]


def _by_type(contract: SourceContract, measured: LatenessMeasurement) -> dict[str, Any]:
    types = [_type(contract, of_type, measured.next_day) for of_type in measured.largest_first]
    beyond = [line["beyond"] for line in types if line["beyond"] is not None]
    return {
        "rows": measured.rows,
        "late": measured.late,
        "beyond": judging.late_share(sum(beyond), measured.rows) if beyond else None,
        "unclocked": measured.unclocked,
        "historical": measured.historical,
        "contract": contract.lateness,
        "types": types,
        "dispositions": measured.dispositions.most_common(),
        **_source_bounds(contract, measured),
    }


def _type(contract: SourceContract, of_type: EventTypeLateness, day: date) -> dict[str, Any]:
    watermark = contract.lateness.as_of(of_type.event_type, day).watermark
    counts = {"type": of_type.event_type, "rows": of_type.rows, "late": of_type.late, "most": of_type.latest}
    bounds = {"watermark": watermark, "beyond": of_type.beyond(watermark)}
    return counts | judging.percentiles(of_type.seconds, _PERCENTILES) | bounds


def _source_bounds(contract: SourceContract, measured: LatenessMeasurement) -> dict[str, Any]:
    """The rows to which the source's bounds apply; ``own`` has the proposals for event types with separate bounds."""
    seconds, expected = measurement.pools(contract, measured)[None], contract.lateness.expected
    proposals = measurement.proposals(contract, measured)
    proposal = proposals.pop(None)
    watermark, tiers = proposal.current, {tier.within: tier.serves for tier in contract.lateness.tiers}
    bounds = [charts.Bound("expected", f"on time: {format_duration(expected)}", _whole(expected))]
    if watermark is not None:
        bounds.append(charts.Bound("watermark", f"cutoff: {format_duration(watermark)}", _whole(watermark)))
    if proposal.moves and proposal.watermark is not None:
        bounds.append(charts.Bound("asked", f"proposed: {format_duration(proposal.watermark)}", _whole(proposal.watermark)))
    return {
        "own": {kind: of_type for kind, of_type in proposals.items() if of_type.rows},
        "watermark": watermark,
        "proposal": proposal,
        "evidence": judging.evidence(seconds, [watermark, proposal.watermark, expected, *tiers]),
        "tiers": tiers,
        "distribution": charts.distribution(tuple(int(second) for second in seconds), tuple(bounds)) if len(seconds) else None,
        "bounds": bounds,
    }


def _trend(days: dict[date, Any]) -> dict[str, Any]:
    lines = [
        {"day": f"{day}", "rows": len(seconds)} | judging.percentiles(seconds, _PERCENTILES) for day, seconds in days.items()
    ]
    columns = [tuple(line[name] for line in lines) for name in ("day", *_PERCENTILES)]
    return {"trend": lines, "chart": charts.trend(*columns) if lines else None}


def _whole(bound: timedelta) -> int:
    return int(bound.total_seconds())
