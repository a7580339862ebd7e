"""The maintenance job and its schedule: what a run reports, and that only one runs at a time. None starts Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa
import pytest

from lakehouse.contracts import load_catalog
from lakehouse.delta import row_writer
from lakehouse.orchestration.automation import schedules
from lakehouse.orchestration.build import build_definitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.lake import Lake, Table

CATALOG = load_catalog(None)


@pytest.fixture(name="instance")
def _instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    home = tmp_path / "dagster"
    home.mkdir()
    with dg.DagsterInstance.local_temp(f"{home}") as instance:
        yield instance


def many_files(lake: Lake) -> Table:
    table = lake.table("ops", "sales_keys")
    for number in range(12):
        row_writer.append(table, pa.table({"record_key": [f"{number}"]}))
    return table


def run(lake: Lake, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    return schedules.job(lake, CATALOG).execute_in_process(instance=instance, raise_on_error=False)


@pytest.mark.merge
def test_a_run_reports_what_it_did(lake: Lake, instance: dg.DagsterInstance) -> None:
    path = many_files(lake)
    result = run(lake, instance)
    assert result.success
    (output,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_OUTPUT]
    said = output.step_output_data.metadata
    assert (said["tables"].value, said["partitions_compacted"].value, said["bytes_freed"].value) == (1, 1, 0)
    assert "| ops/sales_keys | 12 → 1 | 0 | 0 | 0 | 12 unused files stay: " in said["done"].value
    assert len(path.read()) == 12


@pytest.mark.merge
def test_a_broken_table_fails_the_run_after_all_others(lake: Lake, instance: dg.DagsterInstance) -> None:
    path = many_files(lake)
    broken = lake.table("ops", "applications")
    row_writer.append(broken, pa.table({"source": ["sales"]}))
    Path(broken.address, "_delta_log", f"{0:020}.json").write_text("no JSON")
    result = run(lake, instance)
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "ops/applications: " in f"{failure.step_failure_data.error_display_string}"
    opened = path.open()
    assert opened is not None
    assert len(opened.file_uris()) == 1


def test_nothing_is_started_while_a_run_is_on_its_way(lake: Lake, instance: dg.DagsterInstance) -> None:
    schedule = schedules.maintenance_schedule(lake, CATALOG)
    asked = schedule(dg.build_schedule_context(instance))
    assert isinstance(asked, dg.RunRequest)
    started = instance.create_run_for_job(schedules.job(lake, CATALOG), status=dg.DagsterRunStatus.STARTED)
    skipped = schedule(dg.build_schedule_context(instance))
    assert isinstance(skipped, dg.SkipReason)
    assert "in progress" in f"{skipped.skip_message}"
    instance.report_run_canceled(started)
    assert isinstance(schedule(dg.build_schedule_context(instance)), dg.RunRequest)


def test_the_deployment_has_it_at_the_configured_time(lake: Lake) -> None:
    lake.settings.maintenance_cron = "5 4 * * *"
    definitions = build_definitions(lake.settings, CATALOG)
    schedule = definitions.resolve_schedule_def(schedules.NAME)
    assert schedule.cron_schedule == "5 4 * * *"
    job = definitions.resolve_job_def(schedules.NAME)
    assert [node.definition.pool for node in job.nodes] == [schedules.NAME], "one run at a time, however it was started"
    assert job.executor_def is dg.in_process_executor
