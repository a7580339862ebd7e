"""Runs as sensors request them, in this process, with the executor of the deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import create_execution_plan, execute_run
from dagster._core.snap.execution_plan_snapshot import snapshot_from_execution_plan

if TYPE_CHECKING:
    import dagster as dg


def execute(
    instance: dg.DagsterInstance, definitions: dg.Definitions, request: dg.RunRequest, *, stop: bool = False
) -> dg.DagsterRun:
    """Run a request to its end, and return its run.

    :param stop: stop at the first failure, and raise it.
    """
    selected, checks = frozenset(request.asset_selection or ()), frozenset(request.asset_check_keys or ())
    job = definitions.resolve_implicit_global_asset_job_def().get_subset(
        asset_selection=set(selected), asset_check_selection=set(checks)
    )
    tags = dict(request.tags) | ({"dagster/partition": request.partition_key} if request.partition_key else {})
    config = dict(request.run_config or {})
    plan = create_execution_plan(job, config, tags=tags)
    snapshot = job.get_job_snapshot()
    run = instance.create_run(
        job_name=job.name,
        run_id=None,
        run_config=config,
        status=None,
        tags=tags,
        root_run_id=None,
        parent_run_id=None,
        step_keys_to_execute=None,
        execution_plan_snapshot=snapshot_from_execution_plan(plan, job.get_job_snapshot_id()),
        job_snapshot=snapshot,
        parent_job_snapshot=job.get_parent_job_snapshot(),
        asset_selection=selected,
        asset_check_selection=checks,
        resolved_op_selection=None,
        op_selection=None,
        remote_job_origin=None,
        job_code_origin=None,
        asset_graph=job.asset_layer.asset_graph,
    )
    execute_run(InMemoryJob(job), run, instance, raise_on_error=stop)
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    return ended
