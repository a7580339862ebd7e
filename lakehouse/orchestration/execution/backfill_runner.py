"""Runs a planned backfill through Dagster, layer by layer and wave by wave, and resumes it after a stop.

The remaining work is read from the tables: a wave that was completed before the process ended is skipped, and then recorded. One
or several waves run at a time, with retries after failures, and their events are recorded. Printing progress belongs to
``lakehouse backfill``, the definition of a plan to ``operations.backfills.plan``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow.compute as pc
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

from lakehouse.errors import LakehouseError
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs, ingestions, late_decisions, rebuild_requests
from lakehouse.operations.backfills import entity_scope, planner
from lakehouse.operations.backfills import log as backfill_log
from lakehouse.operations.backfills import verification as backfill_verification
from lakehouse.operations.backfills.log import BackfillEvent
from lakehouse.operations.backfills.plan import BackfillPlan, BackfillStatus, Layer, cut_into_waves
from lakehouse.operations.backfills.planner import PlanProblemError
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.assets.source_assets import keys as keys_of
from lakehouse.orchestration.execution.in_process import RunFailedError, together
from lakehouse.orchestration.execution.webserver import WebserverError
from lakehouse.orchestration.plan_runs import backfill_lock, tags_of
from lakehouse.orchestration.run_events import asset_key, table_of
from lakehouse.silver import rebuild as silver_rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import dagster as dg
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import Wave
    from lakehouse.operations.backfills.verification import BackfillVerification
    from lakehouse.silver.rebuild import PlannedRebuild


#: The pause after the first failure, in seconds; it doubles with each further failure.
_FIRST_PAUSE, _LONGEST_PAUSE = 2, 300


class Layers(Protocol):
    """Materializes partitions of one asset: in this process, or in the deployment of a webserver.

    ``in_parallel``: whether several threads may call it at the same time; a table is written by one run at a time.
    """

    in_parallel: bool

    def run(self, key: dg.AssetKey, days: Sequence[date], tags: Mapping[str, str] | None = None) -> object:
        """Materialize the partitions, and return when they are complete.

        :raises RunFailedError: with the reason.
        """


class CancelledError(LakehouseError):
    """The backfill was cancelled."""


class Waves:
    """The waves of one run of a plan.

    :param wave_done: called after each wave with its layer, its table and the number of its partitions.
    """

    def __init__(self, lake: Lake, plan: BackfillPlan, layers: Layers, wave_done: Callable[[Layer, str, int], None]) -> None:
        self._lake = lake
        self._plan = plan
        self._layers = layers
        self._told = wave_done

    def of_tables(self, process: Callable[[Any], None], about: Iterable[Any]) -> None:
        """Process different tables, as many at a time as the plan allows; a failed run does not stop other tables.

        :raises RunFailedError: names every run that failed.
        """
        with ThreadPoolExecutor(self._plan.max_parallel) as threads:
            problems = [done.exception() for done in [threads.submit(process, one) for one in about]]
        failed = [problem for problem in problems if isinstance(problem, RunFailedError)]
        for problem in problems:
            if problem is not None and problem not in failed:
                raise problem
        if failed:
            raise together(failed)

    def of_table(self, layer: Layer, process: Callable[[Any], None], waves: Sequence[Any]) -> None:
        """Process the waves of one table in their order; several run at a time if the plan and the layers allow it.

        The first wave runs alone, because it creates what the others need. After a failure, no further wave starts.
        """
        may = self._layers.in_parallel and any(wave.parallel for wave in self._plan.waves if wave.layer is layer)
        together = waves[1:] if may else []
        for wave in waves[: len(waves) - len(together)]:
            process(wave)
        failed = Event()

        def unless_failed(wave: Any) -> None:
            if failed.is_set():
                return
            try:
                process(wave)
            except BaseException:
                failed.set()
                raise

        self.of_tables(unless_failed, together)

    def run(
        self,
        layer: Layer,
        key: dg.AssetKey,
        whole: Collection[date],
        left: Sequence[date],
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Materialize the remaining partitions of a wave, and record the wave as a whole.

        :raises RunFailedError: if it failed as often as the plan allows, or a further attempt cannot succeed.
        :raises CancelledError: if the backfill was cancelled, also between two attempts.
        """
        table, name = table_of(key), name_of(layer, key, whole)
        details: dict[str, Any] = {"layer": layer.value, "table": table, "partitions": sorted(f"{day}" for day in whole)}

        def attempt() -> None:
            self.stop_if_cancelled()
            try:
                self._layers.run(key, left, {**tags_of(self._plan), **(tags or {})})
            except RunFailedError as problem:
                self._failed_attempt(name, details, problem)
                raise

        self.stop_if_cancelled()
        if left:
            again = Retrying(
                retry=retry_if_exception(lambda problem: isinstance(problem, RunFailedError) and problem.may_pass),
                stop=stop_after_attempt(1 + self._plan.retries),
                wait=wait_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE) + wait_random(0, 1),
                reraise=True,
            )
            again(attempt)
        self.record(name, "wave", details)
        self._told(layer, table, len(whole))

    def _failed_attempt(self, name: str, details: Mapping[str, Any], problem: RunFailedError) -> None:
        """Record a failed attempt; numbering continues after an earlier, stopped run of the plan."""
        begins = f"attempt:{name}:"
        events = backfill_log.events(self._lake, self._plan.plan_id)
        number = sum(entry.event.startswith(begins) for entry in events) + 1
        about = {"attempt": number, "problem": f"{problem}", "may_pass": problem.may_pass}
        self.record(f"{begins}{number}", "attempt", {**details, **about})

    def stop_if_cancelled(self) -> None:
        """:raises CancelledError: if the backfill was cancelled."""
        if self.has("cancelled"):
            msg = f"{self._plan.plan_id} was cancelled; completed waves are kept and are correct"
            raise CancelledError(msg)

    def has(self, event: str) -> bool:
        """Whether an event of the plan is recorded."""
        return any(entry.event == event for entry in backfill_log.events(self._lake, self._plan.plan_id))

    def record(self, event: str, kind: str, details: Mapping[str, Any]) -> None:
        """Record an event of the plan once."""
        entry = BackfillEvent(self._plan.plan_id, event, kind, datetime.now(timezone.utc), said=details)
        backfill_log.record(self._lake, entry)


def name_of(layer: Layer, key: dg.AssetKey, partitions: Collection[date]) -> str:
    """The name of a wave within its plan."""
    return f"{layer.value}:{table_of(key)}:{min(partitions)}:{max(partitions)}:{len(partitions)}"


class Backfill:
    """One run of a plan.

    :param session: returns a Spark session; called only if days are overwritten.
    :param wave_done: called after each wave with its layer, its table and the number of its partitions.
    """

    def __init__(
        self,
        lake: Lake,
        catalog: Catalog,
        plan: BackfillPlan,
        layers: Layers,
        session: Callable[[], SparkSession],
        wave_done: Callable[[Layer, str, int], None] = lambda _layer, _table, _count: None,
    ) -> None:
        self._lake = lake
        self._catalog = catalog
        self._plan = plan
        self._session = session
        self._waves = Waves(lake, plan, layers, wave_done)

    def run(self) -> BackfillVerification | None:
        """Do the remaining work, then verify every partition.

        :returns: the checklist; None if the backfill had been finished before.
        :raises PlanProblemError: if the state differs from the plan; nothing was done.
        :raises BackfillRunningError: if another backfill is running on the same source.
        :raises RunFailedError: if a wave failed after its retries; the same command continues once the cause is fixed.
        :raises WebserverError: if the webserver was unreachable for too long; the same command continues.
        :raises CancelledError: if the backfill was cancelled.
        """
        plan = self._plan
        with backfill_lock(self._lake, plan.source):
            events = backfill_log.events(self._lake, plan.plan_id)
            status = backfill_log.status(events)
            if status is BackfillStatus.FINISHED:
                return None
            if status is BackfillStatus.CANCELLED:
                msg = f"{plan.plan_id} was cancelled; make a new plan"
                raise PlanProblemError(msg)
            planner.still_as_planned(self._lake, self._catalog, plan)
            attempt = sum(entry.kind == "started" for entry in events) + 1
            self._waves.record(f"started:{attempt}", "started", {"runner": plan.runner_id})
            try:
                self._through_the_layers()
            except (RunFailedError, WebserverError) as problem:
                self._waves.stop_if_cancelled()  # its runs end like failed ones
                self._waves.record(f"failed:{attempt}", "failed", {"problem": f"{problem}"})
                raise
            verdict = backfill_verification.verify(self._lake, self._catalog, plan)
            kind = "failed" if verdict.problems else "finished"
            summary = backfill_verification.summary(self._lake, self._catalog, plan)
            name = f"failed:{attempt}" if verdict.problems else "finished"
            self._waves.record(name, kind, {"verdict": verdict.as_json(), "summary": summary})
            return verdict

    def _through_the_layers(self) -> None:
        plan = self._plan
        if plan.metric is None:
            if plan.admit_history:
                self._record_admissions()
            self._bronze()
            if plan.admit_history:
                self._judge_history_again()
            self._silver()
        failed = []
        for publish in (self._gold_behind_silver if plan.metric is None else self._gold_of_the_range, self._rollups):
            try:
                publish()
            except RunFailedError as problem:  # noqa: PERF203 (the longer periods of other metrics follow all the same)
                failed.append(problem)
        if failed:
            raise together(failed)

    def _record_admissions(self) -> None:
        """Record that the runner admits the rows of the plan's files, before Bronze assesses them."""
        plan = self._plan
        ids = {file.ingestion_id for file in plan.files}
        late_decisions.record_history(self._lake, plan.source, plan.plan_id, ids, plan.runner_id, plan.reason)

    def _judge_history_again(self) -> None:
        """Request a reassessment of the rows of the plan's files that Bronze already had, and that the watermark has held."""
        lake, plan = self._lake, self._plan
        held = entity_scope.held_rows_of_files(lake, plan.source, {file.ingestion_id for file in plan.files})
        days = pc.unique(held["event_date"].drop_null()).to_pylist()
        if days:
            self._waves.stop_if_cancelled()
            self._rebuild(min(days), max(days), pc.unique(held["record_key"]))

    def _bronze(self) -> None:
        key, _, _ = keys_of(self._plan.source)

        def ingest(part: Sequence[date]) -> None:
            taken = {entry.content_hash for entry in self._ingested()}
            left = {file.arrival_date for file in self._plan.new_files if file.sha256 not in taken}
            self._waves.run(Layer.BRONZE, key, part, [day for day in part if day in left])

        parts = list(cut_into_waves(self._plan.arrival_days, self._plan.order, self._plan.wave_size))
        self._waves.of_table(Layer.BRONZE, ingest, parts)

    def _silver(self) -> None:
        lake, plan = self._lake, self._plan
        _, _, silver_key = keys_of(plan.source)
        if plan.write_mode == "overwrite" and not self._waves.has("asked"):
            self._waves.stop_if_cancelled()
            contract, keys = self._catalog.sources[plan.source], None
            if plan.where is not None:
                wanted = entity_scope.parse(contract, plan.where)
                keys = entity_scope.of_source(lake, contract, wanted, plan.first_day, plan.last_day).keys
            made_again = self._rebuild(plan.first_day, plan.last_day, keys)
            self._waves.record(
                "asked", "asked", {"days": len(made_again.days), "judged_otherwise": made_again.rows_judged_otherwise}
            )
        for found in self._found_waiting(silver_key, self._pending_in_silver()):
            for part in cut_into_waves(found, plan.order, plan.wave_size):
                waiting = self._pending_in_silver()
                self._waves.run(Layer.SILVER, silver_key, part, [day for day in part if day in waiting])

    def _rebuild(self, first: date, last: date, keys: pa.Array | None) -> PlannedRebuild:
        """Request a rebuild of event days, for the plan's reason; see ``silver.rebuild.plan_rebuild``."""
        return silver_rebuild.plan_rebuild(
            self._lake,
            self._catalog.sources[self._plan.source],
            self._session,
            silver_rebuild.RebuildRange(first, last, keys),
            reason=self._request_reason,
            runner_id=self._plan.runner_id,
            operation=rebuild_requests.BACKFILL,
        )

    @property
    def _request_reason(self) -> str:
        """The reason of the plan's rebuild request, by which the request can be identified later."""
        return f"{self._plan.reason} ({self._plan.plan_id})"

    def _pending_in_silver(self) -> set[date]:
        """The event days that wait for silver; for an entity, only those named in its rebuild request."""
        source = self._plan.source
        waiting = set(applied_inputs.pending(self._lake, source))
        if self._plan.where is None:
            return waiting
        requests = [entry for entry in rebuild_requests.all_of(self._lake, source) if entry.reason == self._request_reason]
        return waiting & set().union(*(entry.touched_days for entry in requests))

    def _gold_behind_silver(self) -> None:
        def follow(daily: Series) -> None:
            pending = find_pending(self._lake, daily)
            self._follow(Layer.GOLD, gold_key(daily.name), pending.starts, pending.upstream_version)

        self._waves.of_tables(follow, backfill_verification.series_of(self._lake, self._catalog, self._plan))

    def _gold_of_the_range(self) -> None:
        [daily] = backfill_verification.series_of(self._lake, self._catalog, self._plan)

        def compute(wave: Wave) -> None:
            key = asset_key(*wave.table.split("/"))
            done = self._waves.has(name_of(wave.layer, key, wave.partitions))
            pending = find_pending(self._lake, daily).starts if done else set(wave.partitions)
            self._waves.run(wave.layer, key, wave.partitions, [day for day in wave.partitions if day in pending])

        self._waves.of_table(Layer.GOLD, compute, [wave for wave in self._plan.waves if wave.layer is Layer.GOLD])

    def _rollups(self) -> None:
        rollups = [
            rollup for daily in backfill_verification.series_of(self._lake, self._catalog, self._plan) for rollup in daily.rollups
        ]

        def follow(rollup: Series) -> None:
            pending = find_pending(self._lake, rollup)
            self._follow(Layer.ROLLUPS, gold_key(rollup.name), pending.starts, pending.upstream_version)

        self._waves.of_tables(follow, rollups)

    def _follow(self, layer: Layer, key: dg.AssetKey, waiting: Collection[date], version: int) -> None:
        """Materialize everything pending of a table in one run: only such a run is recorded as following the layer below."""
        # A separate cause: the sensors count the runs of each cause, and would give up because of these.
        tags = {FOLLOWS_TAG: f"{self._plan.plan_id}:{table_of(key)}:{version}"}
        left = sorted(waiting)
        for found in self._found_waiting(key, waiting):
            self._waves.run(layer, key, found, left, tags)
            left = []

    def _found_waiting(self, key: dg.AssetKey, waiting: Iterable[date]) -> list[list[date]]:
        """The partitions of a table that this backfill has detected as pending, one list per search.

        New partitions are recorded before they are materialized, so that a resumed run has the same waves and adds new ones.
        """
        table = table_of(key)
        events = backfill_log.events(self._lake, self._plan.plan_id)
        finds = [entry.said["partitions"] for entry in events if entry.kind == "asked" and entry.said.get("table") == table]
        new = sorted({f"{day}" for day in waiting}.difference(*finds))
        if new:
            finds.append(new)
            self._waves.record(f"asked:{table}:{len(finds)}", "asked", {"table": table, "partitions": new})
        return [[date.fromisoformat(day) for day in find] for find in finds]

    def _ingested(self) -> Collection[ingestions.Ingestion]:
        return ingestions.ingested(ingestions.all_of(self._lake, self._plan.source)).values()


def cancel(lake: Lake, plan: BackfillPlan, by: str) -> bool:
    """Record that a backfill is cancelled: it stops before its next wave and never starts again.

    :returns: False if the backfill had already ended.
    """
    if backfill_log.status(backfill_log.events(lake, plan.plan_id)) in {BackfillStatus.FINISHED, BackfillStatus.CANCELLED}:
        return False
    return backfill_log.record(
        lake, BackfillEvent(plan.plan_id, "cancelled", "cancelled", datetime.now(timezone.utc), said={"by": by})
    )
