"""A commit that another writer makes in the middle of a MERGE makes it compute everything again."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import delta.exceptions
import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.delta import commit_log
from lakehouse.silver import local_merge
from lakehouse.silver import merge as silver_merge
from lakehouse.spark.commits import CONFLICTS
from lakehouse_tests.support.lake import HEADER, SampleLake, contract, csv_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame


def test_every_kind_of_conflict_is_known() -> None:
    assert {one.__name__ for one in CONFLICTS} == {*delta.exceptions.__all__, "AppendedMeanwhileError", "CommitFailedError"}


def line(key: str, amount: int, arrived: int) -> str:
    said = dict.fromkeys(HEADER.split(","), "")
    said |= {"id": key, "amount": f"{amount}", "event_time": "2024-02-01T06:00:00Z", "op": "insert"}
    return ",".join((said | {"arrived_at": f"2024-02-{arrived:02}T12:00:00Z"}).values())


@pytest.mark.spark
@pytest.mark.parametrize("local_rows", [pytest.param(0, marks=pytest.mark.merge), 20_000], ids=["by Spark", "by delta-rs"])
def test_a_compaction_in_the_middle_of_a_merge_fails_nobody(
    lake, spark, local_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.settings.local_rows = local_rows
    lake.settings.file_bytes = 1  # several files, for the compaction
    sample = SampleLake(lake, contract(), spark)
    for arrived in (1, 2, 3):
        sample.deliver(date(2024, 2, arrived), csv_file([line(f"k{arrived}", arrived, arrived)]))
        sample.ingest(date(2024, 2, arrived))
        if arrived < 3:
            sample.update()
    table, done = locations.silver(lake, "events"), Path(lake.root, "compacted")
    source_of_merge, rows_of_merge = silver_merge._merge_source, local_merge._merge_rows

    def compacting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In a task of the MERGE, so that its transaction has begun."""
        with suppress(FileExistsError):  # by one task alone: delta-rs lets two compactions repeat rows
            done.touch(exist_ok=False)
            DeltaTable(table).optimize.compact()
        yield from batches

    def disturbed(*arguments: object, **more: bool) -> DataFrame:
        source = source_of_merge(*arguments, **more)
        return source.mapInArrow(compacting, source.schema)

    def disturbed_here(*arguments: object) -> pa.Table:
        """After the table was opened."""
        with suppress(FileExistsError):
            done.touch(exist_ok=False)
            DeltaTable(table).optimize.compact()
        return rows_of_merge(*arguments)

    monkeypatch.setattr(silver_merge, "_merge_source", disturbed)
    monkeypatch.setattr(local_merge, "_merge_rows", disturbed_here)
    sample.update()
    assert done.exists()
    commits = commit_log.history(DeltaTable(table), -1)
    told = [commit["operation"] for commit in commits if commit_log.commit_metadata(commit).get("method") != "layout"]
    assert told[:2] == ["MERGE", "OPTIMIZE"]
    assert sample.silver() == sample.rebuilt([date(2024, 2, 1)])
    assert {row[0] for row in sample.silver()} == {"k1", "k2", "k3"}
    assert sample.pending() == []
