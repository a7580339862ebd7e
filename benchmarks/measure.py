"""What Spark and the tables did between two moments: jobs, files read, files and bytes written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Work:
    """Counts since the start of the session or of the folder."""

    jobs: int
    files_read: int
    files_written: int
    bytes_written: int

    def since(self, earlier: Work) -> Work:
        """What was done between ``earlier`` and this."""
        return Work(*(now - then for now, then in zip(vars(self).values(), vars(earlier).values())))


class Meter:
    """Reads the counters of one session and of one folder of tables."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._root = root
        self._read_until = -1
        self._files_read = 0

    def now(self) -> Work:
        """The counters as they are."""
        written = [file for file in self._root.rglob("*.parquet") if "_delta_log" not in file.parts]
        jobs = self._spark.sparkContext._jsc.sc().dagScheduler().nextJobId()
        return Work(jobs, self._count_files_read(), len(written), sum(file.stat().st_size for file in written))

    def _count_files_read(self) -> int:
        """Sum the plan metric 'number of files read' over the queries that have come since the last look."""
        store = self._spark._jsparkSession.sharedState().statusStore()
        executions = store.executionsList()
        for index in range(executions.size()):
            execution = executions.apply(index)
            number = execution.executionId()
            if number <= self._read_until:
                continue
            self._read_until = number
            values = store.executionMetrics(number)
            metrics = execution.metrics()
            for position in range(metrics.size()):
                metric = metrics.apply(position)
                if metric.name() == "number of files read" and values.contains(metric.accumulatorId()):
                    self._files_read += int(values.apply(metric.accumulatorId()).replace(",", ""))
        return self._files_read
