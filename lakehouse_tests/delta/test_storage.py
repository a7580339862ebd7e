"""The files below a table: found under every name, deleted with their checksums, and looked into before compaction."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction

from lakehouse.delta import partition_writer
from lakehouse.delta.data_files import Storage
from lakehouse.operations import maintain
from lakehouse_tests.support.maintained_lake import maintain_table

if TYPE_CHECKING:
    from lakehouse.lake import Lake


class ThroughDeltaRs(Storage):
    """As an object store is looked at."""

    _local = None


@pytest.mark.parametrize("kind", [Storage, ThroughDeltaRs])
def test_checksums_go_with_their_files_and_files_with_odd_names_are_found(tmp_path: Path, kind: type[Storage]) -> None:
    for name in ("x", "y'z", "w w/%", "ü"):
        for number in range(2):
            rows = pa.table({"number": [number], "name": [name]})
            write_deltalake(tmp_path, rows, mode="append", partition_by=["name"])
    table = DeltaTable(tmp_path)
    table.optimize.compact()
    live, all_of_them = set(table.file_uris()), list(tmp_path.rglob("*.parquet"))
    for path in all_of_them:
        path.with_name(f".{path.name}.crc").write_bytes(b"checksum")
    (tmp_path / "name=x" / ".gone.parquet.crc").write_bytes(b"of a file that is gone")
    storage = kind(f"{tmp_path}", {})
    going = storage.with_checksums(maintain._unused(table, 0))
    assert len(going) == 8 + 8 + 1
    assert all(storage.sizes[path] > 0 for path in going)
    storage.delete([*going, "name=x/nothing.parquet"])
    left = {f"{path}" for path in tmp_path.rglob("*") if path.is_file() and "_delta_log" not in path.parts}
    checksums = {f"{Path(path).with_name(f'.{Path(path).name}.crc')}" for path in live}
    assert left == live | checksums
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["number"].to_pylist()) == [0] * 4 + [1] * 4


def test_the_log_is_told_apart_into_commits_and_checkpoints(tmp_path: Path) -> None:
    told = CommitProperties(app_transactions=[Transaction("one", 1)])
    for _ in range(3):
        write_deltalake(tmp_path, pa.table({"number": [1]}), mode="append", commit_properties=told if _ == 0 else None)
    DeltaTable(tmp_path).create_checkpoint()
    log = Storage(f"{tmp_path}", {}).log
    assert sorted((entry.version, entry.is_checkpoint) for entry in log) == [(0, False), (1, False), (2, False), (2, True)]
    assert all(abs(datetime.now(timezone.utc) - entry.written) < timedelta(minutes=10) for entry in log)


def test_times_that_delta_rs_would_change_are_left_alone(no_retention: Lake) -> None:
    """Spark's INT96: compacted by delta-rs, the year 1500 would become 2084."""
    stored = no_retention.table("bronze", "events")
    wanted = datetime(1500, 1, 1, tzinfo=timezone.utc)
    day = pa.array([date(2024, 2, 1)], pa.date32())
    rows = pa.table({"event_ts": pa.array([wanted], pa.timestamp("us", "UTC")), "arrival_date": day})
    table = partition_writer.create(stored, rows.schema, ["arrival_date"])
    for number in range(10):
        name = f"arrival_date=2024-02-01/part-{number}.parquet"
        file = Path(stored.address, name)
        file.parent.mkdir(exist_ok=True)
        pq.write_table(rows.drop_columns(["arrival_date"]), file, use_deprecated_int96_timestamps=True)
        added = AddAction(
            name, file.stat().st_size, {"arrival_date": "2024-02-01"}, int(time.time() * 1000), True, '{"numRecords": 1}'
        )
        table.create_write_transaction([added], "append", table.schema(), ["arrival_date"])
    for _ in range(10):
        write_deltalake(
            stored.address, rows.set_column(1, "arrival_date", pa.array([date(2024, 2, 2)], pa.date32())), mode="append"
        )
    done = maintain_table(no_retention, "bronze/events")
    assert done.kept == ("1 crowded partitions have times as INT96, which delta-rs would change: use Spark's OPTIMIZE",)
    assert (done.files_after, done.partitions_compacted) == (11, 1)
    assert set(stored.read()["event_ts"].to_pylist()) == {wanted}
