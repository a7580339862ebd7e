"""The real history through the API: as of any of the publisher's days it gives what was true then.

Numbers are worked out from the files by plain Python and published by the product day by day; what the API gives for each as-of
date is compared with the truth computed from the publisher's own files.
"""

from __future__ import annotations

from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse.calendar.days import span
from lakehouse.contracts import load_catalog
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_due
from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.earthquakes.history import needs_earthquakes, true_daily
from lakehouse_tests.support.earthquakes.published import EMPTY, Numbers, Published
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.testclient import TestClient

pytestmark = [pytest.mark.merge, pytest.mark.proof, needs_earthquakes]

FIRST, LAST = date(2018, 1, 1), date(2018, 3, 31)
CATALOG = load_catalog(None)
NAMES = ("n_events", "n_with_mag", "sum_mag", "max_mag")
SCHEMA = pa.schema(
    [
        ("n_events", pa.int64()),
        ("n_with_mag", pa.int64()),
        ("sum_mag", pa.decimal128(18, 2)),
        ("max_mag", pa.decimal128(6, 2)),
        ("row_count", pa.int64()),
    ]
)


class Quakes(ScriptedNumbers):
    def table(self, value: Any) -> pa.Table:
        numbers: Numbers = value or EMPTY
        return pa.Table.from_pylist([dict(zip(NAMES, numbers)) | {"row_count": numbers[0]}], schema=SCHEMA)


def test_as_of_answers_are_what_was_true(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    quakes = Quakes(lake.cached(), CATALOG.metrics["earthquakes_daily"])
    published = Published()
    now: dict[date, Numbers] = {}
    with without_spark():
        for arrival in span(FIRST, LAST):
            before, now = now, published.arrive(arrival)
            quakes.lake.settings.now = datetime.combine(arrival, time(12), timezone.utc)
            changed = {day for day in {*before, *now} if before.get(day) != now.get(day)}
            for day in changed:
                if day in now:
                    quakes.by_day[day] = quakes.table(now[day])
                else:
                    del quakes.by_day[day]
            days = {*changed, *find_due(quakes.lake, contract(), quakes.series)}
            restatement_days.restate(quakes.lake, contract(), quakes.series, quakes.session, days, Run("run"))
    lake.settings.now = quakes.lake.settings.now
    truth = true_daily()
    with api_client(lake, CATALOG) as client:
        for as_of, true in truth.items():
            assert series(client, f"{as_of}") == true, as_of
        as_of = max(truth)
        for day, numbers in truth[as_of].items():
            found = get_json(client, "/metrics/earthquakes_daily", window=f"{day}", version=f"{as_of}T23:59:59Z")
            assert numbers_in(found) == numbers, day
        assert series(client, "latest") == {day: numbers for day, numbers in now.items() if numbers != EMPTY}


def series(client: TestClient, version: str) -> dict[date, Numbers]:
    """Every day that had events, page by page."""
    start, shown = "1990-01-01", {}
    while start:
        page = get_json(client, "/metrics/earthquakes_daily/series", start=start, end="2030-01-01", version=version, limit=500)
        shown |= {date.fromisoformat(one["window"]): numbers_in(one) for one in page["points"] if one["event_count"]}
        start = page["next_start"]
    return shown


def numbers_in(number: Any) -> Numbers:
    (row,) = number["result"]
    most = row["max_mag"]
    return row["n_events"], row["n_with_mag"], Decimal(row["sum_mag"]), None if most is None else Decimal(most)
