"""What a process with its own Spark needs for a small write and a MERGE, with and without the archive of Java classes.

    python benchmarks/spark_start.py [--runs 3]

Prints one JSON object: the medians in seconds, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.spark.jars import delta_jars

_WORK = """
import sys
from pyspark.sql import SparkSession
from lakehouse.lake import Lake
from lakehouse.spark.session import spark_options
builder = SparkSession.builder
for name, value in spark_options(Lake.open()).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
table = sys.argv[1] + "/table"
spark.range(10).write.format("delta").mode("overwrite").save(table)
spark.range(5, 15).createOrReplaceTempView("source")
spark.sql(f"MERGE INTO delta.`{table}` t USING source s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
assert spark.read.format("delta").load(table).count() == 15
"""


def seconds(cache: Path, jars: Path) -> float:
    """The time of one process that uses a cache folder."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "LAKEHOUSE_JARS": str(jars)}
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", _WORK, folder], env=environment, check=True, stderr=subprocess.DEVNULL)
        return time.perf_counter() - begin


def main() -> None:
    """Run both in turn, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    jars = delta_jars(Lake(Settings()))[0].parent
    with tempfile.TemporaryDirectory() as scratch:
        without, with_archive = Path(scratch, "without"), Path(scratch, "with")
        seconds(with_archive, jars)  # writes the archive
        for folder in (without, with_archive):
            (folder / "lakehouse" / "classes").mkdir(parents=True, exist_ok=True)
        time.sleep(20)  # Java writes it behind the end of the Python process
        (claim,) = (with_archive / "lakehouse" / "classes").glob("*.claim")
        (without / "lakehouse" / "classes" / claim.name).touch()
        times: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(runs):
            times["without"].append(seconds(without, jars))
            times["with"].append(seconds(with_archive, jars))
        medians = {name: round(median(values), 1) for name, values in times.items()}
        print(json.dumps({**medians, "ratio": round(medians["with"] / medians["without"], 2)}))


if __name__ == "__main__":
    main()
