"""The sensor ``notices``: runs ``operations.notices.dispatch`` at every tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.operations.delivery import directory
from lakehouse.operations.notices.dispatch import dispatch_notices
from lakehouse.orchestration.common.resources import LakeTables  # noqa: TC001 (Dagster reads the annotations of a sensor)

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake

#: The time spent on messages to a target in one tick: an unresponsive target must not use up the tick.
_SECONDS = 10.0


def notices_sensor(lake: Lake, catalog: Catalog) -> dg.SensorDefinition:
    """Notifies the consumers of all metrics; starts no run."""

    @dg.sensor(
        name="notices",
        minimum_interval_seconds=max(60, lake.settings.sensor_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Consumers named in a contract are notified of restatements and rejected rows, and the audit records it. "
        "The side output of late events is sent to its topics.",
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.SkipReason:
        result = dispatch_notices(tables.reading(lake), catalog, directory(lake, context.log), _SECONDS)
        for problem in result.problems:
            context.log.error(problem)
        return dg.SkipReason("; ".join([f"{result}", *result.problems]))

    return sense
