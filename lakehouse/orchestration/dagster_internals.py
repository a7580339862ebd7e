"""The names of Dagster internals that the project uses. Dagster is pinned, and an upgrade is checked against this list.

No other module imports from ``dagster._core``. These names have no public counterpart: the tags that Dagster sets on runs or
reads from them, the launcher's health check, the target and the records of a check's evaluations, and the parts of an instance
with their storage.
"""

from __future__ import annotations

from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.events import DagsterEvent, EngineEventData
from dagster._core.execution.api import ExecuteRunWithPlanIterable
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._core.execution.context.system import PlanExecutionContext, PlanOrchestrationContext, StepExecutionContext
from dagster._core.execution.context_creation_job import PlanExecutionContextManager
from dagster._core.execution.plan.outputs import StepOutputHandle
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.plan.state import KnownExecutionState
from dagster._core.execution.plan.step import ExecutionStep
from dagster._core.execution.stats import StepEventStatus
from dagster._core.executor.in_process import InProcessExecutor
from dagster._core.executor.in_process import inprocess_execution_iterator as in_process_steps
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.scheduler.instigation import InstigatorStatus
from dagster._core.storage.asset_check_execution_record import (
    COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES as COMPLETED_CHECKS,
)
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)
from dagster._core.storage.event_log import InMemoryEventLogStorage, SqlEventLogStorage, SqliteEventLogStorage
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
    SENSOR_NAME_TAG,
    USER_TAG,
    WILL_RETRY_TAG,
)
from dagster._utils.concurrency import ConcurrencyClaimStatus, ConcurrencyKeyInfo

__all__ = [
    "ASSET_PARTITION_RANGE_END_TAG",
    "ASSET_PARTITION_RANGE_START_TAG",
    "BACKFILL_ID_TAG",
    "COMPLETED_CHECKS",
    "IMPLICIT_ASSET_JOB_NAME",
    "MAX_RETRIES_TAG",
    "PARTITION_NAME_TAG",
    "RETRY_NUMBER_TAG",
    "SENSOR_NAME_TAG",
    "SQLITE_BUSY_TIMEOUT_SECONDS",
    "USER_TAG",
    "WILL_RETRY_TAG",
    "AssetCheckEvaluationTargetMaterializationData",
    "AssetCheckExecutionRecord",
    "AssetCheckExecutionRecordStatus",
    "BulkActionStatus",
    "BulkActionsFilter",
    "CheckRunHealthResult",
    "ConcurrencyClaimStatus",
    "ConcurrencyKeyInfo",
    "DagsterEvent",
    "DagsterSqliteStorage",
    "EngineEventData",
    "ExecuteRunWithPlanIterable",
    "ExecutionPlan",
    "ExecutionStep",
    "InMemoryEventLogStorage",
    "InProcessExecutor",
    "InstanceRef",
    "InstigatorStatus",
    "InstigatorType",
    "KnownExecutionState",
    "NoOpComputeLogManager",
    "PartitionKeyFilter",
    "PlanExecutionContext",
    "PlanExecutionContextManager",
    "PlanOrchestrationContext",
    "SqlEventLogStorage",
    "SqliteEventLogStorage",
    "SqliteRunStorage",
    "SqliteScheduleStorage",
    "StepEventStatus",
    "StepExecutionContext",
    "StepOutputHandle",
    "WorkerStatus",
    "create_db_conn_string",
    "event_logs_directory",
    "in_process_steps",
    "runs_directory",
    "schedule_directory",
]
