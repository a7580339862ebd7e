"""Ticks of a sensor as the daemon runs them, each with the cursor of the one before, and time that passes between them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.orchestration.automation.looks import sensor_of
from lakehouse.orchestration.build import build_definitions, kinds
from lakehouse.orchestration.resources import LakeTables

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake


@dataclass
class SensorTicks:
    """One sensor of a deployment, or one look of a sensor, tick after tick."""

    lake: Lake
    catalog: Catalog
    name: str
    instance: dg.DagsterInstance
    cursor: str | None = None

    def __post_init__(self) -> None:
        self.definitions = build_definitions(self.lake.settings, self.catalog)
        by_look = {look.name: kind for kind in kinds(self.lake, self.catalog) for look in kind.looks}
        kind = by_look.get(self.name)
        self.sensor = sensor_of(self.lake, kind.of(self.name)) if kind else self.definitions.resolve_sensor_def(self.name)

    def tick(self) -> dg.SensorExecutionData:
        """One tick in a new context: only the cursor is remembered."""
        resources = {"tables": LakeTables()}
        context = dg.build_sensor_context(self.instance, cursor=self.cursor, definitions=self.definitions, resources=resources)
        data = self.sensor.evaluate_tick(context)
        self.cursor = data.cursor
        return data

    def run_requests(self) -> list[dg.RunRequest]:
        """The run requests of one tick."""
        return list(self.tick().run_requests or [])

    def skip_message(self) -> str:
        """The skip message of a tick that requests no run."""
        data = self.tick()
        assert not data.run_requests
        return str(data.skip_message)

    def wait(self, seconds: float) -> None:
        """Let time pass: date the observations in the cursor back."""
        cursor = json.loads(self.cursor or '{"idle": ""}')
        back = timedelta(seconds=seconds)
        for kept in cursor.get("looks", {}).values():
            seen = {(datetime.fromisoformat(at) - back).isoformat(): tokens for at, tokens in kept.get("seen", {}).items()}
            kept.update({"seen": seen} if seen else {})
        self.cursor = json.dumps(cursor)

    def add_run(self, request: dg.RunRequest, status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE) -> None:
        """Add the run of a request to the instance, with its status."""
        selected = frozenset(request.asset_selection or ())
        run = dg.DagsterRun("__ASSET_JOB", run_config=request.run_config, tags=dict(request.tags), asset_selection=selected)
        self.instance.add_run(run.with_status(status))


def days_of(request: dg.RunRequest) -> list[str]:
    """The days for which a shared run is requested, of its first table."""
    key = (request.asset_selection or [])[0]
    days: list[str] = request.run_config["ops"][key.to_python_identifier()]["config"]["days"]
    return days
