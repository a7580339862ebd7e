"""Following silver with gold: which days of a metric silver's changes concern, and restating exactly these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.domain.days import reach_ahead
from lakehouse.ledger import restatements, store
from lakehouse.ledger.restatements import Restatement
from lakehouse.tables import changes, delta, gold, silver
from lakehouse.tables.apply import recomputed_on_conflict

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class PendingRestatement:
    """What silver has changed since the metric last followed: the causes by silver day, the metric's days, the version."""

    causes: dict[date, Counter[str]]
    days: frozenset[date]
    silver_version: int


def pending(settings: Settings, metric: MetricContract) -> PendingRestatement:
    """Read silver's change feed since the last restatement; no JVM."""
    table = store.open_table(silver.path(settings, metric.source), settings.storage_options)
    if table is None:
        return PendingRestatement({}, frozenset(), -1)
    done = restatements.silver_version(settings, metric.metric)
    version = table.version()
    causes = changes.describe(table, done + 1 if done <= version else 0, version)
    return PendingRestatement(causes, frozenset(reach_ahead(causes, metric.window)), version)


def restate(
    settings: Settings,
    metric: MetricContract,
    session: Callable[[], SparkSession],
    days: Collection[date],
    run_id: str,
    follows: PendingRestatement | None = None,
) -> set[date]:
    """Compute ``days`` anew and write those that differ.

    :param follows: what the run answers; when it covers all of that, the metric is recorded as following silver so far.
    :returns: the days written.
    """
    why = {"run_id": run_id, "as_of": settings.clock().isoformat(), "silver_version": follows.silver_version if follows else None}
    written = recomputed_on_conflict(gold.restate)(session(), settings, metric, days, why)
    complete = follows is not None and follows.days <= set(days)
    if written or complete:
        causes = {day.isoformat(): dict(what) for day, what in follows.causes.items()} if follows else {}
        entry = Restatement(
            metric=metric.metric,
            run_id=run_id,
            as_of=settings.clock(),
            silver_version=follows.silver_version if follows and complete else -1,
            gold_version=delta.version(settings, gold.path(settings, metric.metric)),
            days=sorted(written),
            causes=causes,
        )
        restatements.record(settings, entry)
    return written
