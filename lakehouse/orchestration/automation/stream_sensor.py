"""The sensor that starts Bronze for waiting messages of a source's topic. It starts no JVM."""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003 (Dagster reads the annotations of a sensor)
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import dagster as dg

from lakehouse.calendar.days import business_day_of
from lakehouse.lateness import missing_inputs
from lakehouse.orchestration.common.plan_runs import BACKFILL_RUNNING, is_backfill_running
from lakehouse.orchestration.common.resources import LakeTables  # noqa: TC001 (Dagster reads the annotations of a sensor)
from lakehouse.orchestration.common.run_requests import ATTEMPTS, NO_RETRIES, plan_run_requests, short_hash
from lakehouse.streams import gap_log, status
from lakehouse.streams.client import StreamProblem

if TYPE_CHECKING:
    from lakehouse.contracts import SourceContract
    from lakehouse.contracts.inputs import KafkaTopic
    from lakehouse.lake import Lake
    from lakehouse.streams.status import TopicStatus

#: Set on runs for waiting messages: the source and the offsets from which they wait.
WAITS_TAG = "lakehouse/waits"


def stream_sensor(lake: Lake, contract: SourceContract, kafka: KafkaTopic) -> dg.SensorDefinition:
    """Runs bronze when messages wait in the topic; one run ingests all of them."""
    source = contract.dataset
    key = dg.AssetKey(["bronze", source])

    @dg.sensor(
        name=f"landing_{source}",
        target=dg.AssetSelection.assets(key),
        minimum_interval_seconds=lake.settings.sensor_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"New messages of {kafka.topic} start bronze.",
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> Iterator[dg.RunRequest | dg.SkipReason]:
        if is_backfill_running(lake, source):
            yield dg.SkipReason(BACKFILL_RUNNING)
            return
        reading = tables.reading(lake)
        try:
            known = status.of_topic(reading, contract, kafka)
        except StreamProblem as problem:
            yield dg.SkipReason(f"{problem}")
            return
        today = business_day_of(lake.now(), ZoneInfo(contract.clocks.timezone))
        cause = _cause(reading, source, known)
        planned = plan_run_requests(context.instance, WAITS_TAG, [cause] if cause else [])
        given_up = {today: f"{ATTEMPTS} runs failed to take messages of {kafka.topic}"} if planned.given_up else {}
        missing_inputs.record(reading, source, "failed_ingestion", given_up)
        if cause in planned.run_keys:
            tags = {WAITS_TAG: cause, **NO_RETRIES}
            yield dg.RunRequest(planned.run_keys[cause], partition_key=f"{today}", asset_selection=[key], tags=tags)
        elif planned.given_up:
            yield dg.SkipReason(f"{given_up[today]}; see the newest one and start it again")
        elif planned.on_their_way:
            yield dg.SkipReason(f"{known.lag:,} messages wait, and a run is in progress")
        else:
            gaps = sorted({entry.gap for entry in known.partitions if entry.gap})
            yield dg.SkipReason("; ".join(gaps) or "no new message")

    return sense


def _cause(lake: Lake, source: str, known: TopicStatus) -> str:
    """The cause of a run: readable messages, or an unrecorded gap; empty without one."""
    recorded = {entry.text for entry in gap_log.open_gaps(lake, source)}
    waiting = [entry for entry in known.partitions if (entry.gap not in recorded if entry.gap else entry.lag)]
    if not waiting:
        return ""
    places = "|".join(f"{entry.partition}@{entry.next_offset}{entry.gap or ''}" for entry in waiting)
    return f"{source}:{short_hash(f'{known.state.topic_id}|{places}')}"
