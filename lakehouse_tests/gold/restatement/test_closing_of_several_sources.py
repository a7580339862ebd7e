"""A number of several sources becomes final with the slowest required one, and says which one it waits for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse import locations
from lakehouse.contracts.loader import completed
from lakehouse.contracts.series import Series
from lakehouse.delta import row_writer
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.restatement import closing, lineage
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse_tests.support.numbers_without_spark import day
from lakehouse_tests.support.united_lake import SOURCES, metric, source

if TYPE_CHECKING:
    from lakehouse.gold.restatement.closing import Limit
    from lakehouse.lake import Lake


HOUR = timedelta(hours=1)
CLOCKS = {"event": "at", "arrival": "arrived_at", "watermark": {"strategy": "bounded", "max_lateness": "PT6H"}}
WATCHED = {name: source(name, clocks=CLOCKS) for name in ("web", "mobile", "partner")}


def midnight(number: int) -> datetime:
    return datetime.fromisoformat(f"{day(number)}T00:00:00+00:00")


def deliver(lake: Lake, name: str, newest: datetime, status: str = "ingested") -> None:
    """A file that arrives on the 10th, and its newest event."""
    arrived, file = midnight(11) - HOUR, f"{name} {newest:%d %H}"
    entry = Ingestion(
        *(name, file, file, day(10), f"{file}.csv", 1, None, status, "run", arrived),  # type: ignore[arg-type]
        newest_arrival=arrived,
        newest_event=newest,
    )
    ingestions.record(lake, entry)


def limit_of(lake: Lake, **changes: Any) -> Limit | None:
    """What the first day waits for; the clock plays no part."""
    series = Series(completed(metric(publication={"final_after": 2}, **changes), WATCHED))
    period = series.period(day(1))
    return closing.limits(lake, WATCHED["web"], series, [period]).get(period.start)


def test_a_period_waits_for_the_slowest_required_source(lake: Lake) -> None:
    deliver(lake, "web", midnight(4))
    deliver(lake, "mobile", midnight(2))
    limit = limit_of(lake)
    assert limit is not None
    assert limit.at_most is State.LIVE
    [reason] = limit.waits_for
    assert reason == (
        "the watermark of mobile stands at 2024-01-01 18:00 UTC and has to pass 2024-01-02 00:00 UTC; "
        "nothing newer than 2024-01-10 23:00 UTC has arrived"
    )
    deliver(lake, "mobile", midnight(2) + 7 * HOUR)
    assert limit_of(lake) is None, "the partner, which has delivered nothing, is not required"


def test_a_source_that_is_required_by_default_holds_the_period(lake: Lake) -> None:
    for name in ("web", "mobile"):
        deliver(lake, name, midnight(4))
    assert limit_of(lake) is None
    every = [entry if isinstance(entry, str) else {**entry, "required": True} for entry in SOURCES]
    limit = limit_of(lake, sources=every)
    assert limit is not None
    assert [text.partition(" has ")[0] for text in limit.waits_for] == ["the watermark of partner"]


@pytest.mark.parametrize("name", ["web", "mobile", "partner"])
def test_a_held_file_of_a_required_source_is_told_with_its_name(lake: Lake, name: str) -> None:
    for of in ("web", "mobile"):
        deliver(lake, of, midnight(4))
    deliver(lake, name, midnight(5), "held")
    limit = limit_of(lake)
    told = [] if limit is None else list(limit.waits_for)
    assert told == ([] if name == "partner" else [f"{name}: held: {name} 05 00.csv"])


@pytest.mark.parametrize("name", ["web", "mobile", "partner"])
def test_rows_of_required_sources_that_wait_for_a_steward_count_as_undecided(lake: Lake, name: str) -> None:
    for of in ("web", "mobile"):
        deliver(lake, of, midnight(4))
    rows = pa.table({"event_date": [day(1), day(1), day(2)], "quarantine_status": ["open"] * 3})
    row_writer.append(locations.quarantine(lake, name), rows)
    is_required = name != "partner"
    limit = limit_of(lake)
    assert (limit is not None and list(limit.waits_for)) == (is_required and [f"{name}: 2 rows wait for a steward"])
    counted = lineage.undecided_of_metric(lake, completed(metric(), WATCHED), [day(1)])
    assert counted[day(1)] == (2 if is_required else 0)
