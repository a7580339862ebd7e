"""Runs assets in this process, as Dagster's daemon runs them in others; for replays, backfills and commands."""

from __future__ import annotations

import logging
import os
import sys
from datetime import date
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakehouse.errors import LakehouseError
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.restatement import local_measures
from lakehouse.ledger.failures import COMPUTED
from lakehouse.orchestration import launcher
from lakehouse.orchestration.assets.source_assets import keys
from lakehouse.orchestration.build import assets_of
from lakehouse.orchestration.dagster_internals import InstanceRef, NoOpComputeLogManager
from lakehouse.orchestration.event_storage import ephemeral_instance, store_together
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.orchestration.run_events import pool_of, table_of, tags_for
from lakehouse.settings import dagster_home

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from dagster_shared.error import SerializableErrorInfo

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake

#: Dagster does not record the asset that a run in this process materializes.
TABLE_TAG = "lakehouse/table"
#: The output of runs is not captured. To capture it, Dagster would start four processes for each run, which outlive this one and
#: hold its output open if it was started with interrupts ignored ('nohup lakehouse ... &' in a script).
_OUTPUT_STAYS_HERE = {"compute_logs": {"module": NoOpComputeLogManager.__module__, "class": NoOpComputeLogManager.__name__}}
#: The events are in Dagster's storage; a terminal has the progress bar.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class RunFailedError(LakehouseError):
    """A run failed; the message names the asset, the days and the reason.

    :param may_pass: whether the same run may succeed later without any change.
    :ivar done: the result of what has not failed, where the rest went on.
    """

    def __init__(self, message: str, *, may_pass: bool = True) -> None:
        super().__init__(message)
        self.may_pass = may_pass
        self.done: Any = None


def together(problems: Sequence[RunFailedError]) -> RunFailedError:
    """Several failures as one error, which names each of them."""
    if len(problems) == 1:
        return problems[0]
    return RunFailedError("; ".join(f"{problem}" for problem in problems), may_pass=any(one.may_pass for one in problems))


class InProcess:
    """Runs assets of a catalog, one at a time: Dagster configures logging for each run, in which threads would block.

    :param instance: the Dagster instance that stores the runs; see :func:`local_instance`.

    ``failed_checks`` describes the checks with severity ERROR that failed in the runs so far, by check and partition.
    """

    in_parallel = False

    def __init__(self, lake: Lake, catalog: Catalog, instance: dg.DagsterInstance) -> None:
        self._job = assets_of(lake, catalog).resolve_implicit_global_asset_job_def()
        self._job_of_asset = cache(self._of_asset)
        self._lake, self._catalog, self._instance = lake, catalog, instance
        store_together(instance)
        self._one_at_a_time = Lock()
        self.failed_checks: dict[tuple[str, str], str] = {}

    def run(
        self,
        key: dg.AssetKey,
        days: Sequence[date],
        tags: Mapping[str, str] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> list[date]:
        """Materialize days of one asset.

        :param config: the configuration of the asset.
        :returns: the days whose content changed, for assets that record it.
        :raises RunFailedError: with the asset, the days and the reason.
        :raises SystemExit: if the run was interrupted.
        """
        launcher.warn_of_missing_settings(self._instance)
        launcher.limit_pools(self._instance, [pool_of(key)])
        with self._one_at_a_time:
            result = self._job_of_asset(key).execute_in_process(
                instance=self._instance,
                tags={**tags_for(days), TABLE_TAG: table_of(key), **(tags or {})},
                run_config=_QUIET | ({} if config is None else {"ops": {key.to_python_identifier(): {"config": dict(config)}}}),
                raise_on_error=False,
            )
        self._note_checks(result.all_events)
        if not result.success:
            failure = next(event for event in result.all_events if event.is_step_failure)
            error = failure.step_failure_data.error
            cause = error.cause if error and error.cause else error
            reason = _reason(cause) if cause else "unknown"
            about = f"{days[0]}" if len(days) == 1 else f"{len(days)} days from {min(days)} to {max(days)}"
            if cause and cause.cls_name == dg.DagsterExecutionInterruptedError.__name__:
                # By Ctrl-C or SIGTERM, which Dagster makes a failure of the step: nothing else is begun.
                sys.exit(f"{table_of(key)} was stopped at {about}. What was done is kept: the same command goes on from there.")
            msg = f"{table_of(key)} failed for {about}: {reason}"
            raise RunFailedError(msg, may_pass=cause is None or may_pass(cause.cls_name))
        return [
            date.fromisoformat(event.partition or "")
            for event in result.all_events
            if event.is_step_materialization and event.asset_key == key and _has_new_content(event)
        ]

    def expect_spark(self, source: str) -> None:
        """Begin to start Spark if the numbers of a metric that follows a source need it, while this process ingests its files."""
        if not all(local_measures.is_local(metric) for metric in self._catalog.metrics_following(source)):
            LakeSpark(long_lived=self._lake.settings.spark_long_lived).begin()

    def check_again(self, source: str, days: Collection[date]) -> None:
        """Evaluate the checks of arrival days, whose files are in Bronze, again; no file is ingested.

        :raises RunFailedError: as :meth:`run`.
        """
        key, _, _ = keys(source)
        if days:
            self.run(key, sorted(days), config={"files": {}})

    def _note_checks(self, events: Iterable[dg.DagsterEvent]) -> None:
        """Note failed checks, and forget checks that failed in an earlier run and pass now."""
        for event in events:
            if event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
                continue
            evaluation = event.asset_check_evaluation_data
            place = f"{table_of(evaluation.asset_key)} {evaluation.check_name}", evaluation.partition or ""
            if evaluation.passed:
                self.failed_checks.pop(place, None)
            elif evaluation.severity is dg.AssetCheckSeverity.ERROR:
                self.failed_checks[place] = held_numbers.failure_sentence(*place, evaluation.description)

    def note_failures(self, source: str) -> None:
        """Note the checks of a source that fail and the numbers that are held, including those that no run has tried."""
        known = held_numbers.failures_of_source(self._lake, self._catalog, source)
        for place in self.failed_checks.keys() - known.keys():
            if place[0].endswith(f" {COMPUTED}"):  # it has been computed since
                del self.failed_checks[place]
        self.failed_checks |= known

    def _of_asset(self, key: dg.AssetKey) -> dg.JobDefinition:
        # The asset evaluates its checks itself: a check step would be skipped because there is no output.
        return self._job.get_subset(asset_selection={key}, asset_check_selection=set())


def local_instance(home: Path | None = None) -> dg.DagsterInstance:
    """The instance of DAGSTER_HOME, else of ``dagster_home`` in the current folder, else one that ends with the process."""
    logging.getLogger("dagster").setLevel(logging.ERROR)
    home = home or dagster_home()
    if "DAGSTER_HOME" not in os.environ and home is not None:
        os.environ["DAGSTER_HOME"] = str(home)
    if "DAGSTER_HOME" not in os.environ:
        return ephemeral_instance()
    place = Path(os.path.expanduser(os.environ["DAGSTER_HOME"]))  # noqa: PTH111 (an unknown user stays, for Dagster to report)
    if not (place.is_absolute() and place.is_dir()):
        return dg.DagsterInstance.get()  # raises, and says why
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(f"{place}", overrides=_OUTPUT_STAYS_HERE))


def _reason(error: SerializableErrorInfo) -> str:
    """The first line of an error, without the class name for errors of this project, which are sentences."""
    line = error.message.strip().splitlines()[0]
    return line.partition(": ")[2] if error.cls_name in _own_errors() else line


def may_pass(error: str | None) -> bool:
    """Whether a run that failed with an error, given by its class name, may succeed later without any change.

    Errors of this project name a remedy, so most of them need a person to apply it.
    """
    own = _own_errors().get(error or "")
    return own is None or own.passes_by_itself


def _own_errors() -> dict[str, type[LakehouseError]]:
    return {cls.__name__: cls for cls in _subclasses(LakehouseError)}


def _subclasses(cls: type[LakehouseError]) -> Iterator[type[LakehouseError]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _has_new_content(event: dg.DagsterEvent) -> bool:
    changed = event.materialization.metadata.get("content_changed")
    return changed is not None and bool(changed.value)
