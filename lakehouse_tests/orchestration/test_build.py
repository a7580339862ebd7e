"""What the process of a run constructs: the assets of the run and those that they are made from, and nothing else."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.execution.api import create_execution_plan
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._grpc.impl import start_run_in_subprocess
from dagster._grpc.types import ExecuteExternalJobArgs
from dagster._serdes import serialize_value

from lakehouse.contracts import load_catalog
from lakehouse.orchestration import build, dagster_internals
from lakehouse.orchestration.dagster_internals import IMPLICIT_ASSET_JOB_NAME
from lakehouse.orchestration.run_events import asset_key
from lakehouse.settings import Settings
from lakehouse_tests.support.empty_deployment import instance_on_disk  # noqa: F401 (a fixture)

CATALOG = load_catalog(None)
LOCATION = "lakehouse_tests.support.run_location"
CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize(("module", "is_known"), [(LOCATION, True), ("another.module", False)])
def test_a_process_knows_the_run_that_it_was_started_for(
    module: str, is_known: bool, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Dagster's code server starts it. If this fails after an upgrade, a run loads all contracts again, and nothing else."""
    written = tmp_path / "written"
    monkeypatch.setenv("RUN_LOCATION_WRITES", str(written))
    repository = ReconstructableRepository(ModuleCodePointer(LOCATION, "defs", str(CHECKOUT)))
    origin = ReconstructableRepository(ModuleCodePointer(module, "defs")).get_reconstructable_job(IMPLICIT_ASSET_JOB_NAME)
    run = dg.DagsterRun(IMPLICIT_ASSET_JOB_NAME, job_code_origin=origin.get_python_origin(), status=dg.DagsterRunStatus.CANCELED)
    instance.add_run(run)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name=LOCATION), "location")
    job = RemoteJobOrigin(RemoteRepositoryOrigin(location, "__repository__"), IMPLICIT_ASSET_JOB_NAME)
    arguments = serialize_value(ExecuteExternalJobArgs(job_origin=job, run_id=run.run_id, instance_ref=instance.get_ref()))
    spawn = multiprocessing.get_context("spawn")
    events, termination = spawn.Queue(), spawn.Event()
    process = spawn.Process(
        target=start_run_in_subprocess,
        args=[arguments, repository.get_reconstructable_job(IMPLICIT_ASSET_JOB_NAME), events, termination],
    )
    process.start()
    process.join(60)
    assert written.read_text() == (run.run_id if is_known else "no run")


def test_any_other_process_has_no_run() -> None:
    assert dagster_internals.run_of_process("lakehouse.definitions") is None


@pytest.mark.parametrize(
    ("tables", "sources", "metrics"),
    [
        (["bronze/sales", "arrivals/sales"], ["sales"], []),
        (["gold/revenue_weekly", "bronze/earthquakes"], ["earthquakes", "sales"], ["revenue"]),
    ],
)
def test_a_part_has_the_contracts_of_tables_and_of_what_they_are_made_from(
    tables: list[str], sources: list[str], metrics: list[str]
) -> None:
    part = build.part_of(CATALOG, tables)
    assert part is not None
    assert (sorted(part.sources), sorted(part.metrics)) == (sources, metrics)


@pytest.mark.parametrize("tables", [[], ["gold/unknown"], ["bronze/sales", "models/fraud"]])
def test_there_is_no_part_of_other_tables(tables: list[str]) -> None:
    assert build.part_of(CATALOG, tables) is None


def test_a_runs_process_constructs_no_more_than_the_run_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    selected = frozenset({asset_key("gold", "revenue_weekly")})
    run = dg.DagsterRun(IMPLICIT_ASSET_JOB_NAME, asset_selection=selected)
    monkeypatch.setattr(dagster_internals, "run_of_process", lambda _: run)
    of_run = build.code_location(Settings(root=str(tmp_path)), CATALOG, "module")
    graph = of_run.resolve_asset_graph()
    assert {key.to_user_string() for key in graph.materializable_asset_keys} == {
        *(f"{layer}/sales" for layer in ("bronze", "silver")),
        *(f"gold/{series}" for series in ("revenue", "revenue_weekly", "revenue_monthly")),
    }
    assert {check.asset_key for check in graph.asset_check_keys} == {
        *graph.materializable_asset_keys,
        asset_key("arrivals", "sales"),
    }
    assert not list(of_run.sensors or ())
    everything = build.code_location(Settings(root=str(tmp_path), load_selected=False), CATALOG, "module")
    assert graph.materializable_asset_keys < everything.resolve_asset_graph().materializable_asset_keys
    job = of_run.get_repository_def().get_maybe_subset_job_def(IMPLICIT_ASSET_JOB_NAME, asset_selection=selected)
    whole = everything.get_repository_def().get_maybe_subset_job_def(IMPLICIT_ASSET_JOB_NAME, asset_selection=selected)
    steps = [create_execution_plan(one).step_keys_to_execute for one in (job, whole)]
    assert steps[0] == steps[1], "a run's plan was made by the code server, from everything"
