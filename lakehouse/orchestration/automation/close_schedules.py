"""The daily close: numbers whose next state is due are recomputed and published in that state.

Due numbers are read from the tables, so that a tick makes up for missed ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_due
from lakehouse.orchestration.assets.metric_assets import gold_key
from lakehouse.orchestration.common.run_events import tags_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake


def daily_close(lake: Lake, catalog: Catalog, metric: MetricContract) -> dg.ScheduleDefinition:
    """Publishes days as preliminary and as final on the dates that the contract determines."""

    def due(lake: Lake) -> list[date]:
        return find_due(lake, catalog.sources[metric.source], served_version.daily(lake, catalog, metric))

    return _close(lake, metric.name, due)


def period_close(lake: Lake, contract: SourceContract, rollup: Series) -> dg.ScheduleDefinition:
    """Publishes longer periods as preliminary and as final on the dates that the contract determines."""

    def due(lake: Lake) -> list[date]:
        return find_due(lake, contract, rollup)

    return _close(lake, rollup.name, due)


def _close(lake: Lake, name: str, due: Callable[[Lake], list[date]]) -> dg.ScheduleDefinition:
    key = gold_key(name)

    @dg.schedule(
        name=f"close_{name}",
        cron_schedule=lake.settings.close_cron,
        execution_timezone="UTC",
        target=dg.AssetSelection.assets(key),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Publishes the due numbers of gold/{name} in their next state: live, preliminary, final.",
    )
    def close() -> dg.RunRequest | dg.SkipReason:
        starts = due(lake.cached())
        if not starts:
            return dg.SkipReason(f"no number of {name} is due to change its state")
        return dg.RunRequest(asset_selection=[key], tags=tags_for(starts))

    return close
