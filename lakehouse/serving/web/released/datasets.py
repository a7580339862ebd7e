"""``/page/datasets/{name}/{version}``: the manifest of released labels or of a training set, with a summary of each column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.contracts import TrainingSetContract
from lakehouse.serving.api.released.datasets import DatasetName, ReleasedVersion, described
from lakehouse.serving.http.parameters import NoParameters
from lakehouse.serving.web.page import PREFIX, respond
from lakehouse.serving.web.released import distributions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from lakehouse.serving.http.published_cache import PublishedCache


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get(PREFIX + "/datasets/{name}/{version}")
    async def dataset(request: Request, name: DatasetName, version: ReleasedVersion, _: NoParameters) -> Response:
        values = await run_in_threadpool(described, cache.settings, name, version)
        manifest = values["manifest"]
        shown = {"it": values, "manifest": manifest, "columns": _columns(manifest), "times": in_time(manifest.get("time"))}
        return respond(request, "dataset", "overview", shown)


def in_time(parts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parts of a set with their time ranges, in order of time."""
    spans = {name: part for name, part in (parts or {}).items() if isinstance(part, dict)}
    return dict(sorted(spans.items(), key=lambda item: str(item[1].get("from"))))


def definition(feature: Mapping[str, Any] | None) -> str:
    """The definition of a feature, in words."""
    if not feature:
        return ""
    if "metric" in feature:
        return f"{feature['measure']} of the metric {feature['metric']}"
    if "dimension" in feature:
        return f"{feature['column']} of {feature['dimension']}"
    return f"{feature['sql']}, of {feature['source']}"


def _columns(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The columns for the page, in the order of the set; the label is last."""
    columns = manifest.get("columns") or {}
    if not columns:
        return []
    names = TrainingSetContract.model_validate(manifest["contract"]).features.names
    return [_column(name, columns[name], manifest) for name in [*names, "label"] if name in columns]


def _column(name: str, column: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    feature = manifest.get("features", {}).get(name)
    return {
        "name": name,
        "definition": definition(feature) or "the label",
        "contract_version": (feature or {}).get("contract_version"),
        "nulls": column["nulls"],
        "shown": distributions.shown(column),
    }
