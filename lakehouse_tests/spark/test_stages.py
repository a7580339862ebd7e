"""The progress of Spark's jobs is told to those who listen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse import pieces
from lakehouse.spark import commits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import time  # noqa: PLC0415 (the function runs in Spark's worker)

    for batch in batches:
        time.sleep(0.5)
        yield batch


@pytest.mark.own_spark  # a client does not see the stages of the server
@pytest.mark.merge
def test_the_tasks_of_a_running_stage_are_counted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_SECONDS", 0.1)
    reports: list[tuple[str, int, int | None]] = []
    with pieces.listened_to_by(lambda *one_report: reports.append(one_report), every=0), commits.watched(spark, "waiting"):
        assert spark.range(0, 6, 1, 6).mapInArrow(waits, "id long").count() == 6
    assert {what for what, *_ in reports} == {"waiting, tasks of Spark"}
    assert (0, 6) in {(done, total) for _, done, total in reports}
    assert any(0 < done < 6 for _, done, _ in reports)


def test_nothing_is_watched_where_nobody_listens(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_watch", lambda *_: pytest.fail("nobody listens"))
    with commits.watched(spark, "counting"):
        assert spark.range(3).count() == 3
