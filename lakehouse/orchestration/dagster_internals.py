"""The names of Dagster internals that the project uses, and the executor, which is made of them.

No other module imports from ``dagster._core``. Dagster is pinned, and an upgrade is checked against this list. These names have
no public counterpart: the tags that Dagster sets on runs or reads from them, the launcher's health check, the target and the
records of a check's evaluations, the steps of a run, and the parts of an instance with their storage.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.events import DagsterEvent, DagsterEventType, EngineEventData
from dagster._core.execution.api import ExecuteRunWithPlanIterable
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._core.execution.context_creation_job import PlanExecutionContextManager
from dagster._core.execution.plan.outputs import StepOutputHandle
from dagster._core.execution.stats import StepEventStatus
from dagster._core.executor.in_process import InProcessExecutor
from dagster._core.executor.in_process import inprocess_execution_iterator as in_process_steps
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.scheduler.instigation import InstigatorData, InstigatorStatus
from dagster._core.storage.asset_check_execution_record import (
    COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES as COMPLETED_CHECKS,
)
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)
from dagster._core.storage.event_log import InMemoryEventLogStorage, SqlEventLogStorage, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.schedules import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._core.storage.sqlite_storage import _event_logs_directory as event_logs_directory
from dagster._core.storage.sqlite_storage import _runs_directory as runs_directory
from dagster._core.storage.sqlite_storage import _schedule_directory as schedule_directory
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    BACKFILL_ID_TAG,
    MAX_RETRIES_TAG,
    PARTITION_NAME_TAG,
    RETRY_NUMBER_TAG,
    USER_TAG,
    WILL_RETRY_TAG,
)
from dagster._grpc.types import ExecuteExternalJobArgs
from dagster._serdes import deserialize_value
from dagster._utils.concurrency import ConcurrencyClaimStatus, ConcurrencyKeyInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dagster._core.execution.context.system import PlanExecutionContext, PlanOrchestrationContext, StepExecutionContext
    from dagster._core.execution.plan.plan import ExecutionPlan
    from dagster._core.execution.plan.state import KnownExecutionState
    from dagster._core.execution.plan.step import ExecutionStep

__all__ = [
    "ASSET_PARTITION_RANGE_END_TAG",
    "ASSET_PARTITION_RANGE_START_TAG",
    "BACKFILL_ID_TAG",
    "COMPLETED_CHECKS",
    "IMPLICIT_ASSET_JOB_NAME",
    "MAX_RETRIES_TAG",
    "PARTITION_NAME_TAG",
    "RETRY_NUMBER_TAG",
    "SHARED_TAG",
    "SQLITE_BUSY_TIMEOUT_SECONDS",
    "USER_TAG",
    "WILL_RETRY_TAG",
    "AssetCheckEvaluationTargetMaterializationData",
    "AssetCheckExecutionRecord",
    "AssetCheckExecutionRecordStatus",
    "AssetCheckExecutionsTable",
    "BulkActionStatus",
    "BulkActionsFilter",
    "CheckRunHealthResult",
    "ConcurrencyClaimStatus",
    "ConcurrencyKeyInfo",
    "DagsterEventType",
    "DagsterSqliteStorage",
    "InMemoryEventLogStorage",
    "InstanceRef",
    "InstigatorData",
    "InstigatorStatus",
    "InstigatorType",
    "NoOpComputeLogManager",
    "PartitionKeyFilter",
    "SqlEventLogStorage",
    "SqlEventLogStorageTable",
    "SqliteEventLogStorage",
    "SqliteRunStorage",
    "SqliteScheduleStorage",
    "StepEventStatus",
    "WorkerStatus",
    "create_db_conn_string",
    "event_logs_directory",
    "executor",
    "run_of_process",
    "runs_directory",
    "schedule_directory",
]

_LOG = logging.getLogger(__name__)


def run_of_process(module: str) -> dg.DagsterRun | None:
    """The run for which Dagster's launcher has started this process, if the run's code location is a module.

    None in every other process. A process learns its run from the arguments with which Dagster's code server has started it; the
    definitions are loaded before Dagster passes the run on.
    """
    process = multiprocessing.current_process()
    target, arguments = getattr(process, "_target", None), getattr(process, "_args", ())
    if getattr(target, "__name__", None) != _RUN_PROCESS or not arguments:
        return None
    try:
        about = deserialize_value(arguments[0], ExecuteExternalJobArgs)
        with dg.DagsterInstance.from_ref(about.instance_ref) as instance:  # type: ignore[arg-type]
            run = instance.get_run_by_id(about.run_id)
        pointer = run.job_code_origin.repository_origin.code_pointer  # type: ignore[union-attr]
        return run if isinstance(pointer, ModuleCodePointer) and pointer.module == module else None
    except Exception as problem:  # noqa: BLE001 (without it, all is loaded)
        _LOG.warning("All definitions are loaded, because the run of this process is not known: %s", problem)
        return None


#: The function that is the whole work of a run's process.
_RUN_PROCESS = "start_run_in_subprocess"

#: Set on shared runs, see ``run_events``.
SHARED_TAG = "lakehouse/shared"


@dg.executor(name="in_process", config_schema=dg.in_process_executor.config_schema.as_field())
def executor(context: dg.InitExecutorContext) -> InProcessExecutor:
    """Dagster's in-process executor, which also runs shared runs.

    In process, because a step in a separate process would continue when its run is killed.
    """
    usual: InProcessExecutor = dg.in_process_executor.executor_creation_fn(context)  # type: ignore[misc, assignment]
    return _Executor(usual.retries, usual.step_dependency_config)


class _Executor(InProcessExecutor):
    """Runs the steps of a shared run one after the other, whether or not the steps before had anything to do."""

    def execute(self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan) -> Iterator[DagsterEvent]:
        if SHARED_TAG not in plan_context.dagster_run.tags:
            yield from super().execute(plan_context, execution_plan)
            return
        pid, plan = os.getpid(), _with_outputs(plan_context.execution_plan)
        about = EngineEventData.in_process(pid, execution_plan.step_keys_to_execute)
        yield DagsterEvent.engine_event(plan_context, f"Executing steps in process (pid: {pid})", about)
        manager = PlanExecutionContextManager(
            job=plan_context.job,
            retry_mode=plan_context.retry_mode,
            execution_plan=plan,
            run_config=plan_context.run_config,
            dagster_run=plan_context.dagster_run,
            instance=plan_context.instance,
            raise_on_error=plan_context.raise_on_error,
            output_capture=plan_context.output_capture,
            step_dependency_config=self.step_dependency_config,
        )
        yield from iter(ExecuteRunWithPlanIterable(plan, _steps, manager))
        yield DagsterEvent.engine_event(plan_context, f"Finished steps in process (pid: {pid})", about)


def _with_outputs(plan: ExecutionPlan) -> ExecutionPlan:
    """The same plan, in which all outputs are there already.

    A step that logs events for scattered days yields no output, and Dagster skips the steps after a step without an output. The
    assets of this project exchange tables, not outputs.
    """
    outputs = {StepOutputHandle(step.key, output.name) for step in plan.steps for output in step.step_outputs}
    known = plan.known_state
    return plan._replace(known_state=known._replace(ready_outputs={*known.ready_outputs, *outputs}))


def _steps(job_context: PlanExecutionContext, execution_plan: ExecutionPlan) -> Iterator[DagsterEvent]:
    """The steps of a shared run. Dagster would look up the versions of their inputs, for which a run needs a partition."""
    usual = job_context.for_step

    def for_step(step: ExecutionStep, known_state: KnownExecutionState | None = None) -> StepExecutionContext:
        of_step = usual(step, known_state)
        of_step.fetch_external_input_asset_version_info = lambda: None  # type: ignore[method-assign]
        return of_step

    job_context.for_step = for_step  # type: ignore[method-assign]
    yield from in_process_steps(job_context, execution_plan)
