"""The daily close: numbers whose next state is due are recomputed and published in that state.

Due numbers are read from the tables, so that a tick makes up for missed ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.delta.table_cache import with_table_cache
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_due
from lakehouse.orchestration.assets.metric_assets import gold_key
from lakehouse.orchestration.common.run_events import tags_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.settings import Settings


def daily_close(settings: Settings, catalog: Catalog, metric: MetricContract) -> dg.ScheduleDefinition:
    """Publishes days as preliminary and as final on the dates that the contract determines."""

    def due(settings: Settings) -> list[date]:
        return find_due(settings, catalog.sources[metric.source], served_version.daily(settings, catalog, metric))

    return _close(settings, metric.name, due)


def period_close(settings: Settings, contract: SourceContract, rollup: Series) -> dg.ScheduleDefinition:
    """Publishes longer periods as preliminary and as final on the dates that the contract determines."""

    def due(settings: Settings) -> list[date]:
        return find_due(settings, contract, rollup)

    return _close(settings, rollup.name, due)


def _close(settings: Settings, name: str, due: Callable[[Settings], list[date]]) -> dg.ScheduleDefinition:
    key = gold_key(name)

    @dg.schedule(
        name=f"close_{name}",
        cron_schedule=settings.close_cron,
        execution_timezone="UTC",
        target=dg.AssetSelection.assets(key),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Publishes the due numbers of gold/{name} in their next state: live, preliminary, final.",
    )
    def close() -> dg.RunRequest | dg.SkipReason:
        starts = due(with_table_cache(settings))
        if not starts:
            return dg.SkipReason(f"no number of {name} is due to change its state")
        return dg.RunRequest(asset_selection=[key], tags=tags_for(starts))

    return close
