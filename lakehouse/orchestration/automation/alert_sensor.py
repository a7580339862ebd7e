"""The sensor ``alerts``: runs ``operations.alerts.dispatch`` whenever the inputs of alerts have changed.

Alerts depend on the state of the tables, on runs that ended, and on the clock: within the hour, or when an action is due, such as
an escalation. The sensor's cursor stores the state that was read; without it, everything is read again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.errors import LakehouseError
from lakehouse.operations.addresses import directory
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.dispatch import dispatch_alerts
from lakehouse.orchestration.automation import run_outcomes
from lakehouse.orchestration.automation.run_outcomes import RunLook
from lakehouse.orchestration.common.resources import LakeTables  # noqa: TC001 (Dagster reads the annotations of a sensor)

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.settings import Settings


class UnreadError(LakehouseError):
    """Sources or metrics whose alerts could not be evaluated. The message lists each with the reason."""


@dataclass(frozen=True)
class AlertCursor:
    """The state that the sensor keeps between ticks.

    :param state: the fingerprint at which nothing was left to do.
    :param runs_through: the time up to which ended runs were read.
    :param due_at: the next time at which an action is due without a change.
    """

    state: str | None = None
    runs_through: datetime | None = None
    due_at: datetime | None = None

    @staticmethod
    def read(text: str | None) -> AlertCursor:
        """Parse the cursor stored by an earlier tick; an empty one if the text is not a cursor."""
        try:
            fields = json.loads(text or "{}")
            times = (datetime.fromisoformat(fields[name]) if fields.get(name) else None for name in ("runs_through", "due_at"))
            return AlertCursor(fields.get("state"), *times)
        except (ValueError, TypeError, AttributeError):
            return AlertCursor()

    def __str__(self) -> str:
        return json.dumps({name: f"{value}" for name, value in vars(self).items() if value is not None})


def alerts_sensor(settings: Settings, catalog: Catalog) -> dg.SensorDefinition:
    """Notifies the targets of ``LAKEHOUSE_ALERT_TARGETS`` when an alert opens and when it is resolved; starts no run."""

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=settings.alert_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Owners are notified of what is late, missing, held, overdue or beyond its bounds, and of what failed.",
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.SkipReason:
        before, reading = AlertCursor.read(context.cursor), tables.reading(settings)
        state = signals.state_of(reading, catalog, run_outcomes.newest_end(context.instance))
        if state == before.state and (before.due_at is None or reading.clock() < before.due_at):
            return dg.SkipReason("nothing has changed since the last look")
        look = RunLook(context.instance, catalog, before.runs_through)
        result = dispatch_alerts(reading, catalog, directory(settings, context.log), look.outcomes)
        if result.unread:
            raise UnreadError("; ".join(result.unread))
        is_idle = look.is_complete and not result.undelivered
        context.update_cursor(f"{AlertCursor(state if is_idle else None, look.through, result.due_at)}")
        return dg.SkipReason(f"{result}")

    return sense
