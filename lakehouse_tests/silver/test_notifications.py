"""``ops/audit_notifications``: each audit row is recorded once, whoever records it and however often."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.serving.sql_views import PREAMBLE, Dialect, statements
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.audit_of_earlier_release import audit_of_earlier_release
from lakehouse_tests.support.audit_reader import audit_rows, follow_audit
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

    from lakehouse.lake import Lake

LOAD = f"LOAD '{next(Path(duckdb_extension_delta.__file__).parent.rglob('delta.duckdb_extension'))}'"
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def tell(lake: Lake, *versions: int, notice: str = "m1") -> int:
    """Record that consumers were notified of what silver got in some versions."""
    rows = log.untold(lake, "events", versions)
    return record(lake, rows, notice)


def record(lake: Lake, rows: pa.Table, notice: str = "m1") -> int:
    notices = pa.repeat(pa.scalar(json.dumps([notice])), len(rows))
    return log.record_notified(lake, "events", rows.append_column("notices", notices))


def recorded_notices(lake: Lake) -> list[tuple[int, str]]:
    rows = locations.audit_notifications(lake).read()
    return sorted((row["silver_version"], row["notices"]) for row in rows.to_pylist()) if rows is not None else []


def test_each_audit_row_is_recorded_once_with_its_notices(lake) -> None:
    for key in ("a", "b", "c"):
        append_to_silver(lake, (key, 1, 1))
    follow_audit(lake)
    rows = log.untold(lake, "events", [0, 1])
    audit = DeltaTable(locations.audit_log(lake).address).version()
    assert tell(lake, 0) == 1
    assert record(lake, rows, "m2") == 1, "one of the two is recorded"
    assert record(lake, rows, "m3") == 0
    assert recorded_notices(lake) == [(0, '["m1"]'), (1, '["m2"]')]
    assert [row["notification_sent"] for row in audit_rows(lake)] == [True, True, False]
    assert log.untold(lake, "events", range(3))["silver_version"].to_pylist() == [2]
    assert DeltaTable(locations.audit_log(lake).address).version() == audit
    (at,) = {row["notified_at"] for row in locations.audit_notifications(lake).read().to_pylist()}
    assert at == lake.settings.now


def test_no_notification_can_be_taken_back(lake) -> None:
    append_to_silver(lake, ("a", 1, 1))
    follow_audit(lake)
    tell(lake, 0)
    with pytest.raises(CommitFailedError, match="append-only"):
        DeltaTable(locations.audit_notifications(lake).address).delete()


def test_silver_that_is_created_again_has_rows_of_its_own(lake) -> None:
    """Its versions, and so the ids of its audit rows, are those of the earlier table."""
    append_to_silver(lake, ("a", 1, 1))
    follow_audit(lake)
    tell(lake, 0)
    Path(locations.silver(lake, "events").address).rename(lake.table("silver", "before").address)
    append_to_silver(lake, ("a", 1, 1))
    lake.settings.now = lake.settings.now.replace(day=2)
    follow_audit(lake)
    assert len({row["audit_id"] for row in audit_rows(lake)}) == 1
    assert [row["notification_sent"] for row in audit_rows(lake)] == [True, False]
    assert (tell(lake, 0), tell(lake, 0)) == (1, 0)


def test_what_an_earlier_release_notified_stays_notified(lake) -> None:
    append_to_silver(lake, ("a", 1, 1), ("b", 1, 1))
    audit_of_earlier_release(lake, ["a"])
    assert [row["notification_sent"] for row in audit_rows(lake)] == [True, False]
    assert tell(lake, 0) == 1, "only b"
    assert [row["notification_sent"] for row in audit_rows(lake)] == [True, True]
    assert len(recorded_notices(lake)) == 1


def telling(lake: Lake, rows: pa.Table, start: Barrier) -> None:
    """One process: records the same rows as the others."""
    start.wait(120)
    record(lake, rows)


def test_processes_that_record_the_same_rows_record_them_once(lake) -> None:
    append_to_silver(lake, *((f"{number}", 1, 1) for number in range(50)))
    follow_audit(lake)
    rows = log.untold(lake, "events", [0])
    start = PROCESSES.Barrier(3)
    processes = [PROCESSES.Process(target=telling, args=(lake, rows, start)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(180)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(recorded_notices(lake)) == 50


def view(lake: Lake, dialect: Dialect) -> str:
    """The statement that creates the view of the audit."""
    (statement,) = [one for one in statements(lake, Catalog({}, {}), dialect) if "late_arrival_audit AS" in one]
    return statement


@pytest.mark.merge
@pytest.mark.parametrize("recorded", [True, False])
def test_the_view_of_the_audit_says_who_was_notified(lake, recorded: bool) -> None:
    append_to_silver(lake, ("a", 1, 1), ("b", 1, 1))
    audit_of_earlier_release(lake, ["a"])
    append_to_silver(lake, ("c", 1, 1))
    follow_audit(lake)
    if recorded:
        tell(lake, 1)
    connection = duckdb.connect()
    connection.execute(LOAD)
    connection.execute(PREAMBLE[Dialect.duckdb][-1])
    connection.execute(view(lake, Dialect.duckdb))
    rows = connection.sql("SELECT event_id, notification_sent, notified_at FROM late_arrival_audit ORDER BY event_id").fetchall()
    assert rows == [("a", True, None), ("b", False, None), ("c", recorded, lake.settings.now if recorded else None)]
    columns = [column for column, *_ in connection.sql("DESCRIBE late_arrival_audit").fetchall()]
    assert sorted(columns) == sorted([*log.SCHEMA.names, "notified_at"])


@pytest.mark.merge
@pytest.mark.spark
def test_the_view_is_the_same_in_spark(lake, spark) -> None:
    append_to_silver(lake, ("a", 1, 1), ("b", 1, 1))
    audit_of_earlier_release(lake, ["a"])
    append_to_silver(lake, ("c", 1, 1))
    follow_audit(lake)
    tell(lake, 1)
    spark.sql(view(lake, Dialect.spark).replace("VIEW", "TEMPORARY VIEW").rstrip(";"))
    rows = spark.sql(
        "SELECT event_id, notification_sent, notified_at IS NULL FROM late_arrival_audit ORDER BY event_id"
    ).collect()
    assert [tuple(row) for row in rows] == [("a", True, True), ("b", False, True), ("c", True, False)]
