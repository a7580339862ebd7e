"""The Dagster instance of runs in this process: the deployment's own, except that it does not capture what a run prints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._utils.error import serializable_error_info_from_exc_info

from lakehouse.bronze.file_formats import FileProblem
from lakehouse.contracts import Catalog, load_catalog
from lakehouse.orchestration.execution.in_process import InProcess, _reason, local_instance
from lakehouse.orchestration.resources import LakeSpark

if TYPE_CHECKING:
    from lakehouse.lake import Lake

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(CHECKOUT / "dagster_home" / "dagster.yaml", tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


def test_its_runs_are_in_the_deployments_storage(home: Path) -> None:
    with local_instance() as instance:
        run = instance.add_run(dg.DagsterRun(job_name="job"))
    with dg.DagsterInstance.get() as theirs:
        assert theirs.has_run(run.run_id)


def test_a_missing_home_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(home / "nowhere"))
    with pytest.raises(dg.DagsterInvariantViolationError, match="nowhere"):
        local_instance()


@pytest.mark.merge
def test_nothing_outlives_a_run_that_was_started_with_interrupts_ignored(home: Path) -> None:
    """As a shell does with what a script starts in the background; whoever reads its output waits for all who hold it open."""
    program = """
        import signal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from concurrent.futures import ThreadPoolExecutor
        import dagster as dg
        from lakehouse.orchestration.execution.in_process import local_instance

        @dg.asset
        def one():
            print("printed")

        with local_instance() as instance:
            assert dg.materialize([one], instance=instance).success
            with ThreadPoolExecutor() as threads:  # as a backfill does; what the first left of the signals is theirs
                assert threads.submit(dg.materialize, [one], instance=instance).result().success
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=60, check=True)
    assert "printed" in done.stdout


def test_the_reason_of_a_failed_run_names_no_class_of_ours() -> None:
    def reason(problem: Exception) -> str:
        try:
            raise problem
        except type(problem):
            return _reason(serializable_error_info_from_exc_info(sys.exc_info()))

    assert reason(FileProblem("a.csv: the file breaks off\nmore")) == "a.csv: the file breaks off"
    assert reason(ValueError("unexpected")) == "ValueError: unexpected"


@pytest.mark.parametrize(("measure", "is_begun"), [("sum(amount)", False), ("avg(amount)", True)])
def test_spark_begins_to_start_where_the_numbers_of_a_source_need_it(
    deployment: Lake, monkeypatch: pytest.MonkeyPatch, measure: str, *, is_begun: bool
) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(LakeSpark, "begin", lambda spark: begun.append(spark.long_lived))
    catalog = load_catalog(None)
    sales, revenue = catalog.sources["sales"], catalog.metrics["revenue"]
    own = revenue.model_copy(update={"measures": [revenue.measures[0].model_copy(update={"sql": measure})]})
    with local_instance() as instance:
        InProcess(deployment, Catalog({"sales": sales}, {"revenue": own}), instance).expect_spark("sales")
    assert begun == [False] * is_begun
