"""``/lineage``: the inputs, code and contract of a number, and the trigger of its publication.

``/metrics/{name}/publications/{publication_id}`` is the restatement report of a publication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.gold.publication import attribute_changes, restatement_reports
from lakehouse.ledger import publications
from lakehouse.serving.api import quality_models
from lakehouse.serving.api.metrics import window
from lakehouse.serving.http import parameters, responses
from lakehouse.serving.http.parameters import MetricName, NoParameters, Parameters, WindowName
from lakehouse.serving.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.gold.publication.restatement_reports import RestatementReport
    from lakehouse.serving.http.published_cache import PublishedCache, PublishedSeries
    from lakehouse.settings import Settings

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


def routes(cache: PublishedCache) -> APIRouter:
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
        body["publication"] = await run_in_threadpool(_publication, cache.settings, published.series.name, publication_id)
        body["because"] = await run_in_threadpool(attribute_changes.because, cache.settings, published.series, version)
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
    stored = await run_in_threadpool(restatement_reports.find, cache.settings, sorted(series), publication_id)
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


def _publication(settings: Settings, series: str, publication_id: str) -> dict[str, Any] | None:
    publication = publications.find(settings, series, publication_id)
    if publication is None:
        return None
    rest = {"downstream": publication.downstream, "dimension_changes": attribute_changes.recorded(settings, publication)}
    return {name: getattr(publication, name) for name in _COMMIT} | rest
