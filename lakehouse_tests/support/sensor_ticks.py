"""Ticks of sensors as the daemon takes them, with the cursor that the tick before has left; and time that passes between."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.common.resources import LakeTables

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.settings import Settings


@dataclass
class Ticking:
    """One sensor of a deployment, tick after tick."""

    lake: Settings
    catalog: Catalog
    name: str
    instance: dg.DagsterInstance
    cursor: str | None = None

    def __post_init__(self) -> None:
        self.definitions = build_definitions(self.lake, self.catalog)

    def tick(self) -> dg.SensorExecutionData:
        """One look, by somebody who knows nothing but the cursor."""
        resources = {"tables": LakeTables()}
        context = dg.build_sensor_context(self.instance, cursor=self.cursor, definitions=self.definitions, resources=resources)
        data = self.definitions.resolve_sensor_def(self.name).evaluate_tick(context)
        self.cursor = data.cursor
        return data

    def asks(self) -> list[dg.RunRequest]:
        """The runs that a tick asks for."""
        return list(self.tick().run_requests or [])

    def says(self) -> str:
        """Why a tick asks for none."""
        data = self.tick()
        assert not data.run_requests
        return str(data.skip_message)

    def wait(self, seconds: float) -> None:
        """Let time pass, as far as the sensor remembers it."""
        said = json.loads(self.cursor or "{}")
        back = timedelta(seconds=seconds)
        seen = {(datetime.fromisoformat(at) - back).isoformat(): tokens for at, tokens in said.get("seen", {}).items()}
        self.cursor = json.dumps(said | ({"seen": seen} if seen else {}))

    def ran(self, request: dg.RunRequest, status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE) -> None:
        """A run as it was asked for, and how it went."""
        self.instance.add_run(dg.DagsterRun(job_name="__ASSET_JOB", tags=dict(request.tags), status=status))
