"""``/page/models``: all models with champion and versions, and the complete lineage of a version."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.models.routes import ModelName, details, lineage_of, summaries
from lakehouse.serving.page import PREFIX, respond
from lakehouse.serving.parameters import NoParameters
from lakehouse.training_sets.pages import definition, in_time
from lakehouse.training_sets.routes import ReleasedVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from lakehouse.serving.published_cache import PublishedCache


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the pages."""

    @router.get(PREFIX + "/models")
    async def models(request: Request, _: NoParameters) -> Response:
        every = await run_in_threadpool(lambda: [details(cache, model["model"]) for model in summaries(cache)])
        return respond(request, "models", "overview", {"models": every, "percent_of": percent_of})

    @router.get(PREFIX + "/models/{name}/{version}")
    async def model(request: Request, name: ModelName, version: ReleasedVersion, _: NoParameters) -> Response:
        lineage = await run_in_threadpool(lineage_of, cache, name, version)
        body = lineage.as_json()
        values = {
            "it": body,
            "released_at": lineage.release.recorded_at,
            "features": [_feature(name, body["features"].get(name)) for name in body["feature_names"]],
            "set_parts": _parts(body),
            "measures": list(dict.fromkeys(name for of_part in body["metrics"].values() for name in of_part)),
            "backtests": [_backtest(version, backtest) for backtest in reversed(body["backtests"])],
            "canaries": [_canary(event) for event in body["canaries"]],
            "promotions": [_with_time(entry, "recorded_at") for entry in reversed(body["promotions"])],
            "ended": body["deprecated"] and _with_time(body["deprecated"], "at"),
            "set_ended": body["training_set_deprecated"] and _with_time(body["training_set_deprecated"], "at"),
        }
        return respond(request, "model", "overview", values)


def percent_of(share: str) -> str:
    """A share as text in percent: ``0.2`` is ``20 %``."""
    return f"{(Decimal(share) * 100).normalize():f} %"


def estimate(value: Mapping[str, Any] | None, *, signed: bool = False) -> str:
    """A measure with its interval: ``0.8123 (0.7910 to 0.8345)``."""
    if value is None or value["value"] is None:
        return "none"
    form = "{:+.4f}" if signed else "{:.4f}"
    bounds = "" if value["low"] is None else f" ({form.format(value['low'])} to {form.format(value['high'])})"
    return form.format(value["value"]) + bounds


def _feature(name: str, feature: Mapping[str, Any] | None) -> dict[str, Any]:
    version = (feature or {}).get("contract_version")
    return {"name": name, "definition": definition(feature), "contract_version": version}


def _parts(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of the set, each with its time range and its use."""
    times = in_time(body["training_set"].get("time"))
    uses = {body["fit_on"]: ["learned from"]}
    uses.setdefault(body["evaluated_on"], []).append("measured on")
    names = list(dict.fromkeys([*times, *body["part_rows"]]))
    return [
        {
            "name": name,
            "use": " and ".join(uses.get(name, [])) or "not used",
            "rows": body["part_rows"].get(name, times.get(name, {}).get("rows")),
            "first": _day(times.get(name, {}).get("from")),
            "last": _day(times.get(name, {}).get("to")),
            "metrics": body["metrics"].get(name, {}),
        }
        for name in names
    ]


def _day(text: str | None) -> str:
    return (text or "")[: len("2024-01-15")]


def _backtest(version: str, backtest: Mapping[str, Any]) -> dict[str, Any]:
    months = list(dict.fromkeys([backtest["first_month"], backtest["last_month"]]))
    measures = [
        {
            "name": name.replace("_", " "),
            "champion": estimate(sides["champion"]),
            "challenger": estimate(sides["challenger"]),
            "difference": estimate(sides["difference"], signed=True),
        }
        for name, sides in backtest["measures"].items()
    ]
    return _with_time(backtest, "recorded_at") | {
        "months": " to ".join(months),
        "rows_of": measures,
        "is_challenger": backtest["version"] == version,
        "report_name": backtest["report"].rsplit("/", 1)[-1],
    }


def _canary(event: Mapping[str, Any]) -> dict[str, Any]:
    return _with_time(event, "recorded_at") | {"percent": percent_of(event["share"])}


def _with_time(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An entry with its time parsed, for the templates."""
    return {**entry, "when": datetime.fromisoformat(entry[name])}
