"""The schedules of a source: the checks of freshness and overdue reviews, the rolling rebuild of its newest days, and tuning.

The rolling rebuild and tuning exist only if the contract requests them. The ticks read with delta-rs. The schedules of metrics
are in ``close_schedules``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import dagster as dg

from lakehouse.bronze import checks as bronze_checks
from lakehouse.calendar.days import rolling
from lakehouse.lateness import tuning
from lakehouse.lateness.recommendation import tunable
from lakehouse.ledger import ingestions
from lakehouse.orchestration.assets.source_assets import keys
from lakehouse.orchestration.common.dagster_internals import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

if TYPE_CHECKING:
    from lakehouse.contracts import SourceContract
    from lakehouse.contracts.publication import RollingBackfill
    from lakehouse.lake import Lake


def of_source(lake: Lake, contract: SourceContract) -> list[dg.ScheduleDefinition]:
    """The schedules of a source: the rolling backfill and tuning only if the contract requests them."""
    terms, watermark = contract.rolling_backfill, tunable(contract)
    schedules = [_freshness(lake, contract), *([_rolling(lake, contract, terms)] if terms else [])]
    return [*schedules, *([_tuning(lake, contract)] if watermark and watermark.tuning.auto else [])]


def _freshness(lake: Lake, contract: SourceContract) -> dg.ScheduleDefinition:
    """Evaluates checks whose result changes with time alone: the age of the newest arrival, and overdue reviews."""
    source = contract.dataset
    key = keys(source)[1]
    checks = {name: dg.AssetCheckKey(key, name) for name in bronze_checks.source_check_names(contract)}

    @dg.schedule(
        name=f"freshness_{source}",
        cron_schedule=lake.settings.freshness_cron,
        execution_timezone="UTC",
        target=dg.AssetSelection.checks(*checks.values()),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Checks whether {source} is still sending, and whether rows wait too long for a steward.",
    )
    def look() -> dg.RunRequest | dg.SkipReason:
        names = bronze_checks.time_dependent_checks(lake, contract)
        if not names:
            return dg.SkipReason(f"the contract of {source} requires no freshness, and no row has ever waited for a steward")
        return dg.RunRequest(asset_selection=[], asset_check_keys=[checks[name] for name in names])

    return look


def _tuning(lake: Lake, contract: SourceContract) -> dg.ScheduleDefinition:
    """Takes the daily tuning step in the tick itself, without a run, because it writes only one decision."""
    source = contract.dataset

    @dg.schedule(
        name=f"tune_watermark_{source}",
        cron_schedule=lake.settings.tuning_cron,
        execution_timezone="UTC",
        target=dg.AssetSelection.assets(keys(source)[0]),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Lets the event-time watermark of {source} follow its rows: by at most one band a day, within bounds.",
    )
    def tune_watermark() -> dg.SkipReason:
        return dg.SkipReason(tuning.apply_daily(lake, contract))

    return tune_watermark


def _rolling(lake: Lake, contract: SourceContract, terms: RollingBackfill) -> dg.ScheduleDefinition:
    """Materializes the days of the window in one run: pending inputs are applied, the other days are rebuilt from Bronze.

    New files are left to the landing sensor. Unchanged days are not written and start nothing downstream.
    """
    source = contract.dataset
    key = keys(source)[2]

    @dg.schedule(
        name=f"rolling_{source}",
        cron_schedule=terms.at,
        execution_timezone=contract.clocks.timezone,
        target=dg.AssetSelection.assets(key),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Rebuilds {terms.days} event days of silver/{source} from Bronze, the last one {terms.delay} days ago.",
    )
    def roll(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        now = lake.settings.now or context.scheduled_execution_time
        days = rolling(now.astimezone(ZoneInfo(contract.clocks.timezone)).date(), terms.days, terms.delay)
        window = f"{days[0]} to {days[-1]}"
        days = [day for day in days if day >= contract.first_event_day]
        known = ingestions.ingested(ingestions.all_of(lake, source)).values()
        if {day for entry in known for day in entry.touched_days}.isdisjoint(days):
            return dg.SkipReason(f"nothing of {source} has arrived for {window}")
        tags = {ASSET_PARTITION_RANGE_START_TAG: f"{days[0]}", ASSET_PARTITION_RANGE_END_TAG: f"{days[-1]}"}
        # The daemon starts one run per tick and key, however often it evaluates the tick.
        return dg.RunRequest(run_key=f"{source}:{days[0]}:{days[-1]}", asset_selection=[key], tags=tags)

    return roll
