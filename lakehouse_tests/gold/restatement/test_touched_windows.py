"""Windows that changed, computed from their own rows and put among the published ones, against whole days computed anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given

from lakehouse.contracts.series import Series
from lakehouse.gold.publication import write_audit_publish
from lakehouse.gold.restatement import metric_query, patched_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import CORNERS, FIRST, SESSIONS, SLIDING, TUMBLING, Event, WindowedLake, sendings

if TYPE_CHECKING:
    from datetime import date

    import pyarrow as pa

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

KINDS = [TUMBLING, SLIDING, SESSIONS]


def spliced(sample: WindowedLake, series: Series) -> tuple[dict[date, pa.Table], dict[date, pa.Table]]:
    """The numbers of the pending days that are made of published windows, and the same days computed from all of their rows."""
    follows = find_pending(sample.lake, series)
    before = write_audit_publish.read(sample.lake, series, sorted(follows.starts), to_publish=False)
    found = patched_days.numbers_of_windows(sample.session, sample.lake, before, sorted(follows.starts), follows)
    return found, metric_query.numbers(sample.session, sample.lake, series.metric, sorted(found)) if found else {}


@pytest.mark.merge
@law(25)
@example(files=CORNERS)
@given(files=sendings())
def test_they_are_those_of_days_computed_from_all_rows(tmp_path_factory, spark, files) -> None:
    sample = WindowedLake(lake_in(tmp_path_factory.mktemp("lake")), spark, [metric(kind) for kind in KINDS])
    for events in files:
        sample.land_events(*events)
        sample.update("orders")
        for series in map(Series, sample.metrics):
            found, whole = spliced(sample, series)
            assert {day: rows.to_pylist() for day, rows in found.items() if len(rows)} == {
                day: rows.to_pylist() for day, rows in whole.items()
            }
        sample.publish()


@pytest.mark.proof
def test_only_rows_of_touched_windows_are_read(lake: Lake, spark: Any) -> None:
    sample = WindowedLake(lake, spark, [metric(kind) for kind in KINDS])
    sample.send(*[Event(f"{hour}", hour * 60, user=f"{hour % 7}") for hour in range(48)])
    sample.land_events(Event("late", 30 * 60 + 10, user="2"))
    sample.update("orders")
    second = FIRST + timedelta(days=1)
    read = {}
    for series in map(Series, sample.metrics):
        follows = find_pending(lake, series)
        before = write_audit_publish.read(lake, series, sorted(follows.starts), to_publish=False)
        found, whole = spliced(sample, series)
        assert second in found
        assert {day: rows.to_pylist() for day, rows in whole.items()} == {day: rows.to_pylist() for day, rows in found.items()}
        touched = patched_days.find_touched(spark, lake, series.metric, sorted(before.latest), follows)
        assert touched is not None
        read[series.name] = touched.rows(patched_days.rows_read.silver_rows(spark, lake, series.metric, [second])).count()
    # The rows of an hour; from 04:30 to 08:00, in the four windows that cover the late one; and all of one of seven users.
    assert read == {"hourly": 2, "sliding": 4, "sessions": 8}


@pytest.mark.merge
def test_days_that_are_not_as_silver_said_are_computed_from_all_rows(lake: Lake, spark: Any, monkeypatch: Any) -> None:
    sample = WindowedLake(lake, spark, [metric(TUMBLING)])
    series = Series(sample.metrics[0])
    sample.send(Event("a", 10))
    sample.land_events(Event("b", 70))
    sample.update("orders")
    assert set(spliced(sample, series)[0]) == {FIRST}
    other = Series(metric({**TUMBLING, "measures": [*TUMBLING["measures"], {"name": "n", "sql": "count(*)", "type": "bigint"}]}))
    before = write_audit_publish.read(lake, other, [FIRST], to_publish=False)
    pending = find_pending(lake, series)
    assert patched_days.numbers_of_windows(lambda: spark, lake, before, [FIRST], pending) == {}, (
        "it was published under another contract"
    )
    assert patched_days.numbers_of_windows(lambda: spark, lake, before, [FIRST], None) == {}, "what changed is not known"
    of_series = write_audit_publish.read(lake, series, [FIRST], to_publish=False)
    assert set(patched_days.numbers_of_windows(lambda: spark, lake, of_series, [FIRST], pending)) == {FIRST}
    unchanged = replace(pending, starts=frozenset())
    assert patched_days.numbers_of_windows(lambda: spark, lake, of_series, [FIRST], unchanged) == {}, "it is materialized anew"
    monkeypatch.setattr(patched_days.provenance, "code", lambda: "other")
    assert patched_days.numbers_of_windows(lambda: spark, lake, of_series, [FIRST], pending) == {}, (
        "it was computed by other code"
    )
