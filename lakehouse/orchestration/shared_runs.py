"""Runs that several tables share: each takes everything that waits for it, layer after layer, in one process.

A sensor requests such a run for what is ready of several sources: Bronze, Silver, gold and its roll-ups follow each other without
a process, a JVM and a tick for each. Every asset is a step of its own, with its pool, its partition events and its checks. A step
that fails stops only the steps that depend on it. What it left waits in the tables, and sensors request it again.

Dagster gives a run one partition or one range, which would have to exist in every asset of the run, so a shared run has none: the
first assets find their days in the configuration, the others in the tables. Belongs here: the tag, the configuration and the
executor. Which runs are requested is decided in ``automation.ready``.
"""

from __future__ import annotations

import os
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from lakehouse.orchestration.dagster_internals import (
    DagsterEvent,
    EngineEventData,
    ExecuteRunWithPlanIterable,
    InProcessExecutor,
    PlanExecutionContextManager,
    StepOutputHandle,
    in_process_steps,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lakehouse.orchestration.dagster_internals import (
        ExecutionPlan,
        ExecutionStep,
        KnownExecutionState,
        PlanExecutionContext,
        PlanOrchestrationContext,
        StepExecutionContext,
    )

#: Set on shared runs.
SHARED_TAG = "lakehouse/shared"
SHARED = {SHARED_TAG: "every asset takes what waits for it"}
#: Bronze and Silver of a source are not connected within a run, because ``arrivals`` is an external asset: higher is earlier.
EARLIEST, EARLY = {"dagster/priority": "2"}, {"dagster/priority": "1"}


class RequestedDays(dg.Config):
    """The days for which a sensor requests a shared run; other runs omit them."""

    days: list[str] | None = Field(None, description="In a shared run: the days for which a sensor requested it.")


def is_shared(run: dg.DagsterRun) -> bool:
    """Whether each asset of a run takes what waits for it."""
    return SHARED_TAG in run.tags


def requested(config: RequestedDays) -> list[date]:
    """The days for which a shared run was requested; empty for an asset that follows another one."""
    return [date.fromisoformat(day) for day in config.days or ()]


def days_in(run: dg.DagsterRun, key: dg.AssetKey) -> list[str]:
    """The days of an asset in a shared run's configuration; empty for an asset that follows another one."""
    of_assets: Mapping[str, Any] = run.run_config.get("ops", {})  # type: ignore[assignment]
    return list(of_assets.get(key.to_python_identifier(), {}).get("config", {}).get("days") or ())


def config_of(key: dg.AssetKey, days: Collection[date], more: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The part of a run's configuration that names the days of an asset."""
    return {key.to_python_identifier(): {"config": {"days": [f"{day}" for day in sorted(days)], **(more or {})}}}


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
        if not is_shared(plan_context.dagster_run):
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
