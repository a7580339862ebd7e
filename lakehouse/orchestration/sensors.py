"""What starts runs by itself: files start bronze, decisions silver, changed silver gold, published days roll-ups; and again.

What was left behind is announced again; what is due by the calendar is started in ``closing``.

All read through delta-rs and start no JVM. Silver needs no sensor: its policy follows ``arrivals`` (see
``source_assets``).
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone

import dagster as dg
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from lakehouse.contracts import Catalog, MetricContract, SourceContract
from lakehouse.ledger import ingestions, progress
from lakehouse.orchestration import events
from lakehouse.orchestration.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.partitions import tags_for
from lakehouse.orchestration.source_assets import keys
from lakehouse.settings import Settings
from lakehouse.tables import landing, publish, rollups, served
from lakehouse.tables.ingest import news
from lakehouse.tables.landing import LandingFile
from lakehouse.tables.series import Series

_RUNNING = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
_ATTEMPTS = 3
#: Set on runs for new files: the source, arrival day and the files' state.
LANDS_TAG = "lakehouse/lands"
#: Set on runs that pick up what was left behind: the source, arrival day and ingestions.
RECONCILES_TAG = "lakehouse/reconciles"
#: Set on runs that follow decisions and redactions: the source and which.
DECIDED_TAG = "lakehouse/decided"


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
        known = ingestions.all_of(settings, source)
        held = {(entry.source_file, entry.bytes, entry.modified) for entry in ingestions.still_held(known)}
        settled_before = datetime.now(timezone.utc) - timedelta(seconds=settings.settle_seconds)
        days: dict[date, list[LandingFile]] = defaultdict(list)
        for file in news(files, known):
            unchanged = (file.name, file.size, file.modified) in held
            if not unchanged and (file.modified is None or file.modified < settled_before):
                days[file.arrival_date].append(file)
        requests, reasons = [], list(complaints)
        for day, new in sorted(days.items()):
            tag = {LANDS_TAG: _run_key(source, day, new)}
            given_up = f"{{}} runs for the files of {day} have failed; look at the newest and start it again"
            run_key, reason = _next_attempt(context.instance, tag, given_up)
            if reason:
                reasons.append(reason)
            else:
                requests.append(dg.RunRequest(run_key=run_key, partition_key=day.isoformat(), asset_selection=[key], tags=tag))
        if not requests and not reasons:
            reasons.append("no new file has settled")
        yield from _requests_or_reasons(context, requests, reasons)

    return sense


def reconciling_sensor(settings: Settings, contract: SourceContract) -> dg.SensorDefinition:
    """Runs bronze again for arrival days whose event days wait for silver while nobody works on them.

    Bronze then announces them anew: a run that was killed between its commit and its events loses nothing (R11).
    """
    source = contract.dataset
    bronze_key, arrivals_key, silver_key = keys(source)

    @dg.sensor(
        name=f"reconcile_{source}",
        target=dg.AssetSelection.assets(bronze_key),
        minimum_interval_seconds=max(60, settings.sensor_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Days of {source} that were left waiting for silver are announced again.",
    )
    def sense(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        waiting = progress.pending_entries(settings, source)
        if not waiting:
            yield dg.SkipReason("nothing waits for silver")
            return
        if _at_work(context.instance, {bronze_key, silver_key}):
            yield dg.SkipReason(f"{len(waiting)} days wait for silver, and a run is at work")
            return
        announced = events.newest(context.instance, arrivals_key, [day.isoformat() for day in waiting])
        recent = (datetime.now(timezone.utc) - timedelta(seconds=settings.reconcile_seconds)).timestamp()
        left_behind: dict[date, set[str]] = defaultdict(set)
        for event_day, entries in waiting.items():
            told = announced.get(event_day.isoformat())
            if told is None or told.timestamp < recent:
                for entry in entries:
                    left_behind[entry.arrival_date].add(entry.ingestion_id)
        reasons = [] if left_behind else [f"{len(waiting)} days wait for silver, all announced a short while ago"]
        requests = []
        for day, ids in sorted(left_behind.items()):
            tag = {RECONCILES_TAG: f"{source}:{day}:{_short_hash('|'.join(sorted(ids)))}"}
            given_up = f"arrivals of {day} were announced {{}} times more; look why silver does not follow"
            run_key, reason = _next_attempt(context.instance, tag, given_up)
            if reason:
                reasons.append(reason)
                continue
            requests.append(dg.RunRequest(run_key=run_key, partition_key=day.isoformat(), asset_selection=[bronze_key], tags=tag))
        yield from _requests_or_reasons(context, requests, reasons)

    return sense


@dataclass(frozen=True)
class _Waiting:
    """What one run has to be about: the first days of its partitions, the tag that tells what it answers."""

    starts: Collection[date]
    tag: dict[str, str]


def steward_sensor(settings: Settings, contract: SourceContract) -> dg.SensorDefinition:
    """Runs silver for exactly the days that a decision or a redaction concerns."""
    source = contract.dataset

    def look() -> _Waiting:
        waiting = progress.pending_by_hand(settings, source)
        return _Waiting(waiting, {DECIDED_TAG: f"{source}:{_short_hash('|'.join(sorted(set().union(*waiting.values()))))}"})

    return _sensor_of_one_run(
        settings,
        f"stewards_{source}",
        dg.AssetKey(["silver", source]),
        f"Decisions and redactions start silver/{source} for the days they concern.",
        look,
        nothing="no decision waits for silver",
        what="decisions",
    )


def restatement_sensor(settings: Settings, catalog: Catalog, metric: MetricContract) -> dg.SensorDefinition:
    """Runs gold for exactly the days that silver's changes concern, scattered days in one run."""

    def look() -> _Waiting:
        pending = publish.pending(settings, served.daily(settings, catalog, metric))
        return _Waiting(pending.days, {FOLLOWS_TAG: f"{metric.name}:{pending.silver_version}"})

    return _sensor_of_one_run(
        settings,
        f"restate_{metric.name}",
        gold_key(metric.name),
        f"Changed days of silver/{metric.source} start gold/{metric.name} for the days they concern.",
        look,
        nothing="gold follows silver",
        what="days",
    )


def rollup_sensor(settings: Settings, catalog: Catalog, metric: MetricContract, rollup: Series) -> dg.SensorDefinition:
    """Runs a roll-up for exactly the periods whose days were published anew."""

    def look() -> _Waiting:
        pending = rollups.pending(settings, served.daily(settings, catalog, metric), rollup)
        starts = [period.start for period in pending.periods]
        return _Waiting(starts, {FOLLOWS_TAG: f"{rollup.name}:{pending.gold_version}"})

    return _sensor_of_one_run(
        settings,
        f"restate_{rollup.name}",
        gold_key(rollup.name),
        f"Published days of gold/{metric.name} start gold/{rollup.name} for their periods.",
        look,
        nothing=f"{rollup.name} follows its days",
        what="periods",
    )


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
    return f"{source}:{day}:{_short_hash(state)}"


def _next_attempt(instance: dg.DagsterInstance, tag: dict[str, str], given_up: str) -> tuple[str, str | None]:
    """The run key of the next run that carries ``tag``, or beside it why there must be none now.

    The daemon never runs a run key twice, also when its run failed: so the attempt is a part of it.

    :param given_up: what to say when all attempts are used up; their number goes in at ``{}``.
    """
    (cause,) = tag.values()
    earlier = instance.get_runs(dg.RunsFilter(tags=tag))
    reason = None
    if any(run.status in _RUNNING for run in earlier):
        reason = f"a run for {cause} is on its way"
    elif len(earlier) >= _ATTEMPTS:
        reason = given_up.format(len(earlier))
    return f"{cause}:{len(earlier)}", reason


def _sensor_of_one_run(
    settings: Settings, name: str, key: dg.AssetKey, description: str, look: Callable[[], _Waiting], *, nothing: str, what: str
) -> dg.SensorDefinition:
    """A sensor that asks for one run of an asset about all that waits, however scattered.

    :param nothing: what it says where nothing waits.
    :param what: a word for what the runs are about.
    """

    @dg.sensor(
        name=name,
        target=dg.AssetSelection.assets(key),
        minimum_interval_seconds=settings.sensor_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=description,
    )
    def sense(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        waiting = look()
        if not waiting.starts:
            return dg.SkipReason(nothing)
        given_up = f"{{}} runs have failed for these {what}; look at the newest and start it again"
        run_key, reason = _next_attempt(context.instance, waiting.tag, given_up)
        if reason:
            return dg.SkipReason(reason)
        tags = {**tags_for(waiting.starts), **waiting.tag}
        return dg.RunRequest(run_key=run_key, asset_selection=[key], asset_check_keys=[], tags=tags)

    return sense


def _requests_or_reasons(
    context: dg.SensorEvaluationContext, requests: list[dg.RunRequest], reasons: list[str]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Dagster takes requests or one reason, never both: beside requests the reasons go to the log."""
    if requests:
        for reason in reasons:
            context.log.error(reason)
        yield from requests
    else:
        yield dg.SkipReason("; ".join(reasons))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _at_work(instance: dg.DagsterInstance, assets: set[dg.AssetKey]) -> bool:
    """Whether a run or a backfill of one of the assets is on its way."""
    runs = instance.get_runs(dg.RunsFilter(statuses=_RUNNING))
    if any(run.asset_selection is None or run.asset_selection & assets for run in runs):
        return True
    backfills = instance.get_backfills(BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED]))
    return any(assets & set(backfill.asset_selection or []) for backfill in backfills)
