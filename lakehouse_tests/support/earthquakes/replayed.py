"""The first days of the real history, replayed one by one: silver, its audit and gold are held against the truth every day.

A replay takes minutes. Each number of days is replayed once a process; every test gets a copy of the lake.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.calendar.days import span
from lakehouse.contracts import load_catalog
from lakehouse.orchestration.execution.replay import Replay
from lakehouse_tests.support import tried
from lakehouse_tests.support.earthquakes.audit import AuditModel
from lakehouse_tests.support.earthquakes.history import gold_daily, silver_digest, true_daily, true_digests
from lakehouse_tests.support.earthquakes.published import Published
from lakehouse_tests.support.prepared_lake import prepare

if TYPE_CHECKING:
    from lakehouse.lake import Lake

FIRST = date(2018, 1, 1)
CATALOG = load_catalog(None)


@dataclass
class Replayed:
    """The models after the last day, and how many event days silver recomputed for each arrival day."""

    audited: AuditModel = field(default_factory=lambda: AuditModel(CATALOG))
    published: Published = field(default_factory=Published)
    recomputed: dict[date, int] = field(default_factory=dict)


def replayed(lake: Lake, days: int) -> Replayed:
    """Fill the empty lake of ``settings`` with the first days of the history."""
    tried.count("days", days)  # also where another test of the process has replayed them: each looks at the result
    return prepare(lake, ("earthquakes", days), lambda template: _replay(template, days))  # type: ignore[no-any-return]


def _replay(lake: Lake, days: int) -> Replayed:
    models = Replayed()
    truth, daily = true_digests(), true_daily()
    with dg.DagsterInstance.ephemeral() as instance:
        replay = Replay(lake, CATALOG, "earthquakes", instance)
        for result in replay.days(list(span(FIRST, FIRST + timedelta(days=days - 1)))):
            arrival = result.arrival_date
            assert result.rows > 0, arrival
            assert result.malformed == 0, arrival
            assert silver_digest(lake) == truth[arrival], arrival
            models.audited.check(lake, arrival)
            if arrival in daily:
                assert gold_daily(lake) == daily[arrival], arrival
            models.published.arrive(arrival)
            models.recomputed[arrival] = len(result.touched)
    return models
