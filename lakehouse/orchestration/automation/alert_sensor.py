"""The sensors ``alerts`` and ``notices``, which send what people should know.

``alerts`` runs ``operations.alerts.outbox`` whenever the inputs of alerts have changed. Alerts depend on the state of the tables,
on runs that ended, and on the clock: within the hour, or when an action is due, such as an escalation. The sensor's cursor stores
the state that was read; without it, everything is read again. A failure according to Dagster is a run whose work no later run has
done, or a check whose newest evaluation failed.

``notices`` runs ``operations.notices.dispatch`` at every tick.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.calendar.days import from_json
from lakehouse.contracts.series import Series
from lakehouse.errors import LakehouseError
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.outbox import dispatch_alerts
from lakehouse.operations.alerts.run_rules import FailedCheck, FailedLook, FailedRun, RunOutcomes
from lakehouse.operations.delivery import directory
from lakehouse.operations.notices.dispatch import dispatch_notices
from lakehouse.orchestration import launcher, plan_runs, run_events
from lakehouse.orchestration.assets.checks import check_names
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.automation import looks
from lakehouse.orchestration.automation.follow_sensors import DECIDED_TAG
from lakehouse.orchestration.automation.landing_sensor import RECONCILES_TAG
from lakehouse.orchestration.automation.live_runs import LIVE_TAG
from lakehouse.orchestration.automation.ready import tag_of
from lakehouse.orchestration.dagster_internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    COMPLETED_CHECKS,
    PARTITION_NAME_TAG,
    RETRY_NUMBER_TAG,
    WILL_RETRY_TAG,
    AssetCheckExecutionRecordStatus,
    PartitionKeyFilter,
)
from lakehouse.orchestration.resources import KeptTables, LakeTables
from lakehouse.orchestration.run_events import DAYS_TAG, periods, table_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.alert import Alert
    from lakehouse.orchestration.dagster_internals import AssetCheckExecutionRecord


_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
_ERRORS = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}
#: The tags of the sensors that start a run up to three times; the alert failed_ingestion covers the sensor for new files.
_CAUSES = (RECONCILES_TAG, DECIDED_TAG, FOLLOWS_TAG)
#: The period of a first look; older failures are history.
_FIRST_LOOK = timedelta(days=7)
#: The greatest number of runs in a look; further runs follow at the next tick.
_RUNS = 500
#: The greatest number of failed evaluations of a check that are read.
_EVALUATIONS = 100
#: A look of a sensor has to fail for so long before people are alerted: the next tick may succeed.
_ALERTS_AFTER = timedelta(minutes=2)
#: The overlap of consecutive looks: of two runs that end at the same time, the later one may be stored first.
_OVERLAP = timedelta(seconds=10)


@dataclass
class RunLook:
    """One look at the runs that ended since the last look.

    :param since: the time of the last look; None for a first look.
    :param looks: all parts of sensors that fail now.
    :param through: afterwards, the time from which the next look continues.
    :param is_complete: afterwards, whether no runs are left for the next look.
    """

    instance: dg.DagsterInstance
    catalog: Catalog
    since: datetime | None
    looks: Sequence[FailedLook] = ()
    through: datetime | None = None
    is_complete: bool = True

    def outcomes(self, open_alerts: Sequence[Alert]) -> RunOutcomes:
        """The failures among the subjects of these runs.

        :param open_alerts: the alerts that are open.
        """
        begin = self.since or datetime.now(timezone.utc) - _FIRST_LOOK
        wanted = dg.RunsFilter(statuses=_ENDED, updated_after=begin)
        ended = self.instance.get_run_records(wanted, limit=_RUNS, order_by="update_timestamp", ascending=True)
        self.is_complete = len(ended) < _RUNS
        newest = max((record.update_timestamp.replace(tzinfo=timezone.utc) for record in ended), default=begin)
        self.through = max(begin, newest - _OVERLAP) if self.is_complete else newest
        subjects = {subject for record in ended for subject in _subjects(record.dagster_run)}
        known = {f"{alert.numbers['run_id']}" for alert in open_alerts if alert.subject in subjects and "run_id" in alert.numbers}
        failed = {record.dagster_run.run_id: record for record in ended if record.dagster_run.is_failure}
        if unread := sorted(known - failed.keys()):
            earlier = self.instance.get_run_records(dg.RunsFilter(run_ids=unread))
            failed |= {record.dagster_run.run_id: record for record in earlier}
        runs = [run for record in failed.values() for run in self._undone(record)]
        names = {key: names for key, names in check_names(self.catalog).items() if table_of(key) in subjects}
        checks = [found for key, of_asset in names.items() for found in self._failed_checks(key, of_asset, open_alerts)]
        return RunOutcomes(runs, checks, subjects, self.looks)

    def _undone(self, record: dg.RunRecord) -> Iterator[FailedRun]:
        """A failed run for each subject with work that no later run has done."""
        run = record.dagster_run
        ended = record.end_time or record.update_timestamp.replace(tzinfo=timezone.utc).timestamp()
        keys = _keys(run) or {subject: dg.AssetKey([subject]) for subject in _subjects(run)}
        if run_events.is_shared(run):
            failed = _failed_assets(self.instance, run)
            keys = {subject: key for subject, key in keys.items() if key in failed}
        errors: dict[str | None, str] | None = None  # read once, and only if something is left undone
        for subject, key in sorted(keys.items()):
            partitions: list[str] = []
            if run.asset_selection:
                partitions = self._partitions(run, key)
                is_done = _are_materialized(self.instance, key, partitions, ended)
            elif run.asset_check_selection:
                is_done = _are_evaluated(self.instance, run)
            else:
                is_done = _succeeded_since(self.instance, run)
            if not is_done:
                errors = _errors(self.instance, run) if errors is None else errors
                at, reason = datetime.fromtimestamp(ended, timezone.utc), _reason(errors, key)
                yield FailedRun(run.run_id, subject, partitions, at, reason, _is_given_up(self.instance, run, key))

    def _partitions(self, run: dg.DagsterRun, key: dg.AssetKey) -> list[str]:
        """The partitions of an asset in a run, as the run's tags name them, or its configuration."""
        tags = run.tags
        if run_events.is_shared(run):
            return run_events.days_in(run, key)
        if DAYS_TAG in tags:
            return [day.isoformat() for day in from_json(tags[DAYS_TAG])]
        if PARTITION_NAME_TAG in tags:
            return [tags[PARTITION_NAME_TAG]]
        first, last = tags.get(ASSET_PARTITION_RANGE_START_TAG), tags.get(ASSET_PARTITION_RANGE_END_TAG)
        if first is None or last is None:
            return []
        if first == last:
            return [first]
        return list(self._definition(key).get_partition_keys_in_range(dg.PartitionKeyRange(first, last)))

    def _definition(self, key: dg.AssetKey) -> dg.PartitionsDefinition:
        """The partitions of an asset between any two of its days; a roll-up's partitions begin with its periods."""
        for metric in self.catalog.metrics.values():
            for rollup in Series(metric).rollups:
                if key == gold_key(rollup.name):
                    return periods(self.catalog.sources_of(metric), rollup)
        return dg.DailyPartitionsDefinition(date.min.replace(year=1900).isoformat(), end_offset=2)

    def _failed_checks(self, key: dg.AssetKey, names: Iterable[str], open_alerts: Iterable[Alert]) -> Iterator[FailedCheck]:
        """The checks of an asset whose newest evaluation failed, recently or when their alert opened."""
        subject, since = table_of(key), (datetime.now(timezone.utc) - _FIRST_LOOK).timestamp()
        alerted = {(alert.numbers.get("check"), alert.period) for alert in open_alerts if alert.subject == subject}
        for name in names:
            check = dg.AssetCheckKey(key, name)
            failed = self._evaluations(check, {AssetCheckExecutionRecordStatus.FAILED}, _EVALUATIONS)
            partitions = {record.partition for record in failed if _evaluated_at(record) >= since}
            for partition in sorted(partitions | {period for of_check, period in alerted if of_check == name}, key=str):
                newest = self._evaluations(check, COMPLETED_CHECKS, 1, PartitionKeyFilter(key=partition))
                yield from (
                    _failed_check(subject, record) for record in newest if record.evaluation and not record.evaluation.passed
                )

    def _evaluations(
        self,
        check: dg.AssetCheckKey,
        status: Collection[AssetCheckExecutionRecordStatus],
        limit: int,
        partition: PartitionKeyFilter | None = None,
    ) -> Sequence[AssetCheckExecutionRecord]:
        """The newest evaluations of a check."""
        storage = self.instance.event_log_storage
        return storage.get_asset_check_execution_history(check, limit, status=set(status), partition_filter=partition)


def _failed_check(subject: str, record: AssetCheckExecutionRecord) -> FailedCheck:
    evaluation, at = record.evaluation, datetime.fromtimestamp(_evaluated_at(record), timezone.utc)
    warns = evaluation is not None and evaluation.severity is dg.AssetCheckSeverity.WARN
    explanation = evaluation.description if evaluation else None
    return FailedCheck(subject, record.key.name, record.partition, "warn" if warns else "error", at, explanation)


def _evaluated_at(record: AssetCheckExecutionRecord) -> float:
    return record.event.timestamp if record.event else record.create_timestamp


def _subjects(run: dg.DagsterRun) -> set[str]:
    """The assets that a run materializes or checks; without any, its job.

    Empty for a run in the process of a command, and for a stream, which has a separate alert.
    """
    if keys := _keys(run):
        return {*keys}
    return set() if run.job_name.startswith("__") or LIVE_TAG in run.tags else {run.job_name}


def _keys(run: dg.DagsterRun) -> dict[str, dg.AssetKey]:
    """The assets that a run materializes, or else checks, by their tables."""
    keys = set(run.asset_selection or ()) or {check.asset_key for check in run.asset_check_selection or ()}
    return {table_of(key): key for key in keys}


def _are_materialized(instance: dg.DagsterInstance, key: dg.AssetKey, partitions: list[str], since: float) -> bool:
    """Whether each partition of an asset was materialized after ``since``."""
    if not partitions:
        event = instance.get_latest_materialization_event(key)
        return event is not None and event.timestamp > since
    newest = run_events.newest(instance, key, partitions)
    return all(partition in newest and newest[partition].timestamp > since for partition in partitions)


def _are_evaluated(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether each check of a run was evaluated by a later run."""
    storage, checks = instance.event_log_storage, sorted(run.asset_check_selection or (), key=str)
    records = storage.get_latest_asset_check_execution_by_key(checks)
    completed = [record for record in records.values() if record.status in COMPLETED_CHECKS and record.run_id != run.run_id]
    return len(completed) == len(checks)


def _succeeded_since(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether the newest ended run of a job succeeded."""
    newest = instance.get_runs(dg.RunsFilter(job_name=run.job_name, statuses=_ENDED), limit=1)
    return bool(newest) and newest[0].is_success


def _failed_assets(instance: dg.DagsterInstance, run: dg.DagsterRun) -> set[dg.AssetKey]:
    """The assets that a failed shared run left undone: steps that failed or did not end, or the first ones if none has begun."""
    statuses = plan_runs.step_statuses(instance, run)
    if not any(statuses.values()):
        return {key for key in statuses if run_events.days_in(run, key)}
    return {key for key, status in statuses.items() if status in plan_runs.UNDONE}


def _is_given_up(instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey) -> bool:
    """Whether a failed run was the last attempt of its sensor, or of Dagster's retries."""
    for kind in _CAUSES:
        tag = tag_of(kind, key.path[-1])
        if tag in run.tags:
            return bool(plan_runs.plan_run_requests(instance, tag, [run.tags[tag]], asset=key).given_up)
    return RETRY_NUMBER_TAG in run.tags and run.tags.get(WILL_RETRY_TAG) != "true"


def _errors(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[str | None, str]:
    """The first error of each step of a run, and of the run itself, without the text that Dagster adds."""
    errors: dict[str | None, str] = {}
    for record in instance.get_records_for_run(run.run_id, of_type=_ERRORS).records:
        event = record.event_log_entry.dagster_event
        error = getattr(event.event_specific_data, "error", None) if event else None
        if event is not None and error is not None:
            errors.setdefault(event.step_key, f"{(error.cause or error).message}")
    return errors


def _reason(errors: Mapping[str | None, str], key: dg.AssetKey) -> str:
    """The error of an asset's step, or else the first one."""
    return errors.get(key.to_python_identifier()) or next(iter(errors.values()), "the error was not recorded")


class UnreadError(LakehouseError):
    """Sources or metrics whose alerts could not be evaluated. The message lists each with the reason."""


@dataclass(frozen=True)
class AlertCursor:
    """The state that the sensor keeps between ticks.

    :param state: the fingerprint at which nothing was left to do.
    :param runs_through: the time up to which ended runs were read.
    :param due_at: the next time at which an action is due without a change.
    """

    state: str | None = None
    runs_through: datetime | None = None
    due_at: datetime | None = None

    @staticmethod
    def read(text: str | None) -> AlertCursor:
        """Parse the cursor stored by an earlier tick; an empty one if the text is not a cursor."""
        try:
            fields = json.loads(text or "{}")
            times = (datetime.fromisoformat(fields[name]) if fields.get(name) else None for name in ("runs_through", "due_at"))
            return AlertCursor(fields.get("state"), *times)
        except (ValueError, TypeError, AttributeError):
            return AlertCursor()

    def __str__(self) -> str:
        return json.dumps({name: f"{value}" for name, value in vars(self).items() if value is not None})


def failed_looks(instance: dg.DagsterInstance, kinds: Iterable[looks.LookKind]) -> list[FailedLook]:
    """The looks of sensors that fail, and have for some minutes."""
    known = {kind.name: {looks.PAUSES, *(look.name for look in kind.looks)} for kind in kinds if kind.cron is None}
    failed: dict[str, FailedLook] = {}
    for kind, data in looks.running_sensors(instance, known).items():
        cursor = looks.LooksCursor.read(getattr(data, "cursor", None))
        if cursor is not None:
            failed |= {name: one for name, one in cursor.failed.items() if name in known[kind]}
    now = datetime.now(timezone.utc)
    return [failed[name] for name in sorted(failed) if now - failed[name].since >= _ALERTS_AFTER]


def alerts_sensor(lake: Lake, catalog: Catalog, kinds: Sequence[looks.LookKind] = ()) -> dg.SensorDefinition:
    """Notifies the targets of ``LAKEHOUSE_ALERT_TARGETS`` when an alert opens and when it is resolved; starts no run.

    :param kinds: the sensors whose failures alert.
    """
    kept = KeptTables(lake)

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=lake.settings.alert_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Owners are notified of what is late, missing, held, overdue or beyond its bounds, and of what failed.",
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.SkipReason:
        launcher.warn_of_missing_settings(context.instance)
        before, failed = AlertCursor.read(context.cursor), failed_looks(context.instance, kinds)
        with kept.reading(tables, context.instance) as reading:
            with reading.step():
                outcomes = [plan_runs.newest_end(context.instance), *(f"{one.look} {one.since}" for one in failed)]
                state = signals.state_of(reading, catalog, " ".join(outcomes))
            if state == before.state and (before.due_at is None or reading.now() < before.due_at):
                return dg.SkipReason("nothing has changed since the last look")
            look = RunLook(context.instance, catalog, before.runs_through, failed)
            result = dispatch_alerts(reading, catalog, directory(lake, context.log), look.outcomes)
        if result.unread:
            raise UnreadError("; ".join(result.unread))
        is_idle = look.is_complete and not result.undelivered
        context.update_cursor(f"{AlertCursor(state if is_idle else None, look.through, result.due_at)}")
        return dg.SkipReason(f"{result}")

    return sense


#: The time spent on messages to a target in one tick: an unresponsive target must not use up the tick.
_SECONDS = 10.0


def notices_sensor(lake: Lake, catalog: Catalog) -> dg.SensorDefinition:
    """Notifies the consumers of all metrics; starts no run."""
    kept = KeptTables(lake)

    @dg.sensor(
        name="notices",
        minimum_interval_seconds=max(60, lake.tick_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Consumers named in a contract are notified of restatements and rejected rows, and the audit records it. "
        "The side output of late events is sent to its topics.",
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.SkipReason:
        with kept.reading(tables, context.instance) as reading:
            result = dispatch_notices(reading, catalog, directory(lake, context.log), _SECONDS)
        for problem in result.problems:
            context.log.error(problem)
        return dg.SkipReason("; ".join([f"{result}", *result.problems]))

    return sense
