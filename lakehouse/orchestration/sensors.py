"""What starts runs by itself: files in landing start bronze, changes of silver start gold.

Both read through delta-rs and start no JVM. Silver needs no sensor: its policy follows ``arrivals`` (see
``source_assets``).
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone

import dagster as dg

from lakehouse.contracts import Catalog, MetricContract, SourceContract
from lakehouse.ledger import ingestions
from lakehouse.orchestration.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.partitions import tags_for
from lakehouse.settings import Settings
from lakehouse.tables import landing, publish
from lakehouse.tables.ingest import news
from lakehouse.tables.landing import LandingFile

_RUNNING = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
_ATTEMPTS = 3


def landing_sensor(settings: Settings, contract: SourceContract) -> dg.SensorDefinition:
    """Runs bronze for each arrival day with a new or changed file that has been left alone for a while."""
    source = contract.dataset
    key = dg.AssetKey(["bronze", source])

    @dg.sensor(
        name=f"landing_{source}",
        target=dg.AssetSelection.assets(key),
        minimum_interval_seconds=settings.sensor_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"New or changed files of {source} start bronze for their arrival days.",
    )
    def sense(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        files, complaints = landing.landing_files(settings, contract)
        for complaint in complaints:
            context.log.error(complaint)
        known = ingestions.all_of(settings, source)
        held = {(entry.source_file, entry.bytes, entry.modified) for entry in ingestions.still_held(known)}
        settled_before = datetime.now(timezone.utc) - timedelta(seconds=settings.settle_seconds)
        days: dict[date, list[LandingFile]] = defaultdict(list)
        for file in news(files, known):
            unchanged = (file.name, file.size, file.modified) in held
            if not unchanged and (file.modified is None or file.modified < settled_before):
                days[file.arrival_date].append(file)
        if not days:
            yield dg.SkipReason("; ".join(complaints) or "no new file has settled")
        for day, new in sorted(days.items()):
            yield dg.RunRequest(run_key=_run_key(source, day, new), partition_key=day.isoformat(), asset_selection=[key])

    return sense


def restatement_sensor(settings: Settings, metric: MetricContract) -> dg.SensorDefinition:
    """Runs gold for exactly the days that silver's changes concern, scattered days in one run."""
    key = gold_key(metric.metric)

    @dg.sensor(
        name=f"restate_{metric.metric}",
        target=dg.AssetSelection.assets(key),
        minimum_interval_seconds=settings.sensor_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Changed days of silver/{metric.source} start gold/{metric.metric} for the days they concern.",
    )
    def sense(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        pending = publish.pending(settings, metric)
        if not pending.days:
            return dg.SkipReason("gold follows silver")
        tag = {FOLLOWS_TAG: f"{metric.metric}:{pending.silver_version}"}
        earlier = context.instance.get_runs(dg.RunsFilter(tags=tag))
        if any(run.status in _RUNNING for run in earlier):
            return dg.SkipReason("a run for these days is on its way")
        if len(earlier) >= _ATTEMPTS:
            return dg.SkipReason(f"{len(earlier)} runs have failed for these days; look at the newest and start it again")
        run_key = f"{metric.metric}:{pending.silver_version}:{len(earlier)}"
        return dg.RunRequest(run_key=run_key, asset_selection=[key], asset_check_keys=[], tags={**tags_for(pending.days), **tag})

    return sense


def automation(catalog: Catalog) -> dg.AutomationConditionSensorDefinition:
    """Evaluates the policies of late partitions."""
    targets = [dg.AssetKey(["silver", source]) for source in catalog.sources]
    return dg.AutomationConditionSensorDefinition(
        "late_partitions",
        target=dg.AssetSelection.assets(*targets),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=30,
    )


def _run_key(source: str, day: date, files: list[LandingFile]) -> str:
    """The same files as they are now make the same key, so that a repeated tick starts nothing twice."""
    state = "|".join(f"{file.name}:{file.size}:{file.modified}" for file in files)
    return f"{source}:{day}:{hashlib.sha256(state.encode()).hexdigest()[:16]}"
