"""The sensor ``alerts``: runs ``operations.alerts.dispatch`` whenever the state that alerts depend on has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.errors import LakehouseError
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.dispatch import dispatch_alerts
from lakehouse.operations.channels import targets
from lakehouse.orchestration.common.resources import LakeTables  # noqa: TC001 (Dagster reads the annotations of a sensor)

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.settings import Settings


class UnreadError(LakehouseError):
    """Sources or metrics whose alerts could not be evaluated. The message lists each with the reason."""


def alerts_sensor(settings: Settings, catalog: Catalog) -> dg.SensorDefinition:
    """Notifies the targets of ``LAKEHOUSE_ALERT_TARGETS`` when an alert opens and when it is resolved; starts no run."""

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=settings.alert_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Late rows, restatements, held and overdue numbers, values beyond their bounds: owners are notified.",
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.SkipReason:
        reading = tables.reading(settings)
        state = signals.state_of(reading, catalog)
        if state == context.cursor:
            return dg.SkipReason("nothing has changed since the last look")
        result = dispatch_alerts(reading, catalog, targets(settings, context.log))
        if result.unread:
            raise UnreadError("; ".join(result.unread))
        if not result.undelivered:
            context.update_cursor(state)
        return dg.SkipReason(f"{result}")

    return sense
