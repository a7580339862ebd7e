"""Runs and evaluations of checks as Dagster records them, for tests of what is read from its records; nothing is executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import dagster as dg


@dataclass
class DagsterRecords:
    """Writes records of an instance."""

    instance: dg.DagsterInstance

    def run(self, key: dg.AssetKey | None, tags: dict[str, str], *, failed: bool = True, **changes: Any) -> str:
        """Record a run that started, and how it ended."""
        run_id = str(uuid4())
        known: dict[str, Any] = {"run_id": run_id, "job_name": "__ASSET_JOB", "tags": tags}
        known |= {"asset_selection": frozenset({key}) if key else None, "status": dg.DagsterRunStatus.STARTED}
        run = self.instance.add_run(dg.DagsterRun(**known | changes))
        kind = dg.DagsterEventType.RUN_FAILURE if failed else dg.DagsterEventType.RUN_SUCCESS
        self.instance.report_dagster_event(dg.DagsterEvent(kind.value, run.job_name), run_id)
        return run_id

    def materialize(self, key: dg.AssetKey, *partitions: str) -> None:
        """Record materializations of partitions."""
        for partition in partitions:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition))

    def succeed(self, key: dg.AssetKey, *partitions: str) -> None:
        """Record a run that materialized partitions."""
        self.materialize(key, *partitions)
        self.run(key, {}, failed=False)

    def check(self, key: dg.AssetKey, name: str, partition: str | None, *, passed: bool, **more: Any) -> None:
        """Record an evaluation of a check, in a run of its own."""
        evaluation = dg.AssetCheckEvaluation(
            asset_key=key, check_name=name, passed=passed, partition=partition, metadata={}, **more
        )
        event = dg.DagsterEvent("ASSET_CHECK_EVALUATION", "__ASSET_JOB", event_specific_data=evaluation)
        self.instance.report_dagster_event(event, str(uuid4()))
