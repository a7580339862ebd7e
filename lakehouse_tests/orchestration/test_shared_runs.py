"""The executor of shared runs, with assets as ours are: they log the events of their days, and yield no output."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.context.system import PlanExecutionContext, StepExecutionContext

from lakehouse.orchestration import dagster_internals, run_events
from lakehouse.orchestration.automation import ready
from lakehouse_tests.support.empty_deployment import instance_on_disk  # noqa: F401 (a fixture)
from lakehouse_tests.support.shared_runs import execute

DAILY, EARLIER = dg.DailyPartitionsDefinition("2024-01-01"), dg.DailyPartitionsDefinition("2023-01-01")
WEEKLY = dg.WeeklyPartitionsDefinition("2023-01-02", day_offset=1)


def chain(done: list[str], broken: str = "") -> list[dg.AssetsDefinition]:
    """Bronze and silver of two sources, and gold of both with its weeks. Silver is not connected to bronze."""

    def asset(name: str, partitions: dg.PartitionsDefinition, deps: list[dg.AssetKey], tags: dict[str, str] | None = None) -> Any:
        @dg.asset(
            key=name.split("/"),
            deps=deps,
            partitions_def=partitions,
            backfill_policy=dg.BackfillPolicy.single_run(),
            output_required=False,
            pool=name.replace("/", "_"),
            op_tags=tags,
        )
        def of_days(context: dg.AssetExecutionContext, config: run_events.RequestedDays) -> Iterator[dg.MaterializeResult[None]]:
            if name == broken:
                msg = "broken"
                raise ValueError(msg)
            done.append(f"{name} {run_events.requested(config)}" if config.days else name)
            context.log_event(dg.AssetMaterialization(context.asset_key, partition="2024-02-05"))
            return
            yield

        return of_days

    a, b = dg.AssetKey(["silver", "a"]), dg.AssetKey(["silver", "b"])
    return [
        asset("silver/a", EARLIER, [], run_events.EARLY),
        asset("silver/b", DAILY, [], run_events.EARLY),
        asset("bronze/a", DAILY, [], run_events.EARLIEST),
        asset("bronze/b", EARLIER, [], run_events.EARLIEST),
        asset("gold/weeks", WEEKLY, [dg.AssetKey(["gold", "total"])]),
        asset("gold/total", EARLIER, [a, b]),
        asset("gold/of_a", EARLIER, [a]),
    ]


def run(instance: dg.DagsterInstance, assets: list[dg.AssetsDefinition]) -> dg.DagsterRun:
    config = run_events.config_of(dg.AssetKey(["bronze", "a"]), [])
    definitions = dg.Definitions(assets=assets, executor=dagster_internals.executor)
    request = dg.RunRequest(
        "key", {"ops": config}, dict(run_events.SHARED), asset_selection=[asset.key for asset in assets], asset_check_keys=[]
    )
    return execute(instance, definitions, request)


def test_assets_of_different_partitions_follow_each_other_without_outputs(instance: dg.DagsterInstance) -> None:
    for _ in range(2):  # the second time, Dagster knows versions of inputs
        done: list[str] = []
        finished = run(instance, chain(done))
        assert finished.is_success
        assert sorted(done[:2]) == ["bronze/a", "bronze/b"], "bronze before silver, with which it is not connected"
        assert sorted(done[2:4]) == ["silver/a", "silver/b"]
        assert done.index("gold/total") < done.index("gold/weeks")
        assert len(done) == 7
    planned = instance.all_logs(finished.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    assert {entry.get_dagster_event().partition for entry in planned} == {None}, "no day that nothing is done for"
    assert instance.get_materialized_partitions(dg.AssetKey(["gold", "weeks"])) == {"2024-02-05"}


def test_a_failure_stops_only_what_depends_on_it(instance: dg.DagsterInstance) -> None:
    done: list[str] = []
    finished = run(instance, chain(done, broken="silver/b"))
    assert finished.is_failure
    assert sorted(done) == ["bronze/a", "bronze/b", "gold/of_a", "silver/a"]
    assert ready.suspects(instance) == {dg.AssetKey(["silver", "b"])}


def test_runs_that_are_not_shared_are_run_as_by_dagster(instance: dg.DagsterInstance) -> None:
    done: list[str] = []
    assets = chain(done)
    definitions = dg.Definitions(assets=assets, executor=dagster_internals.executor)
    silver, of_a = dg.AssetKey(["silver", "a"]), dg.AssetKey(["gold", "of_a"])
    request = dg.RunRequest("key", {}, {}, asset_selection=[silver, of_a], partition_key="2024-02-05", asset_check_keys=[])
    assert execute(instance, definitions, request).is_success
    assert done == ["silver/a"], "Dagster skips what follows a step without an output"


@pytest.mark.parametrize("owner", [PlanExecutionContext, StepExecutionContext])
def test_what_the_executor_replaces_is_there(owner: type) -> None:
    name = "for_step" if owner is PlanExecutionContext else "fetch_external_input_asset_version_info"
    missing = f"Dagster has no {owner.__name__}.{name} any more: see the executor in orchestration.dagster_internals"
    assert callable(getattr(owner, name, None)), missing
