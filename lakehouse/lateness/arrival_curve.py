"""The arrival curve of a source, by event day and age, from which ``completeness`` estimates.

It is read from the key log. A row counts at the first arrival of its key on its day: a correction makes a day no more complete.
The rows of a backfill plan, and event days before the source was followed, came as ``history``: they are left out.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.days import end_of_day
from lakehouse.lateness import history
from lakehouse.lateness.completeness import Ages, Arrivals

if TYPE_CHECKING:
    from collections.abc import Hashable
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: The number of event days that are read; older days do not show the present behaviour of a source.
_DAYS = 400
_HOUR = 3600
_COLUMNS = ["record_key", "kind", "event_date", "arrival_ts", "arrival_date", "standing"]


def version(lake: Lake, source: str) -> Hashable:
    """The versions that the curve depends on, of the key log and of the history; equal versions give equal curves."""
    claims = locations.key_log(lake, source).version()
    return claims, history.of_source(lake, source).state


def read(lake: Lake, contract: SourceContract) -> Arrivals | None:
    """The arrival curve of the newest event days; None where nothing has arrived."""
    known = history.of_source(lake, contract.dataset)
    columns = [*_COLUMNS, *(["ingestion_id"] if len(known.planned) else [])]
    claims = locations.key_log(lake, contract.dataset).read(columns, None)
    if claims is not None and len(known.planned):
        claims = claims.filter(pc.invert(pc.is_in(claims["ingestion_id"], value_set=known.planned)))
    if claims is None or not len(claims):
        return None
    first, newest = pc.min(claims["arrival_date"]).as_py(), pc.max(claims["arrival_ts"]).as_py()
    oldest = max(first, newest.date() - timedelta(days=_DAYS))
    lives = pc.and_(pc.is_in(claims["kind"], pa.array(["insert", "correct"])), pc.equal(claims["standing"], "admitted"))
    recent = pc.greater_equal(claims["event_date"], pa.scalar(oldest, pa.date32()))
    rows = claims.filter(pc.fill_null(pc.and_kleene(lives, recent), False))
    first_arrivals = rows.group_by(["record_key", "event_date"]).aggregate([("arrival_ts", "min")])
    return Arrivals(oldest, newest, _ages(first_arrivals, ZoneInfo(contract.clocks.timezone)))


def _ages(first_arrivals: pa.Table, zone: ZoneInfo) -> dict[date, Ages]:
    """Per event day, how many rows arrived at each age."""
    days = pc.unique(first_arrivals["event_date"])
    ends = pa.array([end_of_day(day, zone) for day in days.to_pylist()], pa.timestamp("us", "UTC"))
    end = ends.cast(pa.int64()).take(pc.index_in(first_arrivals["event_date"], days))
    age = pc.subtract(first_arrivals["arrival_ts_min"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), end)
    hours = pc.ceil(pc.divide(age.cast(pa.float64()), float(_HOUR * 1_000_000))).cast(pa.int64())
    by_age = pa.table({"day": first_arrivals["event_date"], "hour": hours}).group_by(["day", "hour"])
    ages: dict[date, dict[int, int]] = defaultdict(dict)
    for row in by_age.aggregate([([], "count_all")]).to_pylist():
        ages[row["day"]][row["hour"]] = row["count_all"]
    return {day: Ages.counted(rows) for day, rows in ages.items()}
