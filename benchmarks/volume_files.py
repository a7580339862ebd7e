"""The files of ``volume.py``: a first load of many readings and a file of late ones, generated from a fixed seed."""

from __future__ import annotations

import json
import resource
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST = date(2024, 1, 1)
#: Of Spark's driver, for both sides.
HEAP = "6g"


def generate(folder: Path, rows: int, files: int, days: int, late: int, late_days: int) -> list[date]:
    """Write the files of two arrival days: the first load, and the late rows; returns both days."""
    load, after = FIRST + timedelta(days=days), FIRST + timedelta(days=days + 1)
    rng = np.random.default_rng(7)
    per_file = rows // files
    for number in range(files):
        write_readings(folder / f"{load}" / f"readings_{number:03}.csv", rng, number * per_file, per_file, np.arange(days), load)
    scattered = np.sort(rng.choice(days, size=late_days, replace=False))
    write_readings(folder / f"{after}" / "late.csv", rng, rows, late, scattered, after)
    return [load, after]


def write_readings(path: Path, rng: Any, first: int, rows: int, event_days: Any, arrival: date, meters: int = 20_000) -> None:
    """Write a file of new readings, numbered from ``first``, on random ``event_days`` (counted from ``FIRST``)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    start = np.datetime64(FIRST, "s")
    measured = start + rng.choice(event_days, size=rows) * np.timedelta64(86_400, "s") + rng.integers(0, 86_400, size=rows)
    received = np.datetime64(arrival, "s") + np.sort(rng.integers(0, 80_000, size=rows))
    text = pa.table(
        {
            "reading_id": pa.array([f"r{first + row:010}" for row in range(rows)]),
            "meter": pa.array([f"m{meter:05}" for meter in rng.integers(0, meters, size=rows)]),
            "region": pa.array(np.array(["north", "east", "south", "west"])[rng.integers(0, 4, size=rows)]),
            "kwh": pa.array(rng.integers(0, 90_000, size=rows) / 1000).cast(pa.string()),
            "price": pa.array(rng.integers(1_000, 5_000, size=rows) / 10_000).cast(pa.string()),
            "measured_at": pa.array([f"{moment}Z" for moment in np.datetime_as_string(measured)]),
            "received_at": pa.array([f"{moment}Z" for moment in np.datetime_as_string(received)]),
        }
    )
    pa_csv.write_csv(text, path, pa_csv.WriteOptions(quoting_style="none"))


def seconds_of(work: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return round(time.perf_counter() - start, 1)


def timed(arrival_day: Callable[[date], Any], arrival_days: list[date]) -> str:
    """Process both days; gives the seconds of each, and the largest resident memory of this Python process, as JSON."""
    seconds = []
    for day in arrival_days:
        start = time.perf_counter()
        arrival_day(day)
        seconds.append(round(time.perf_counter() - start, 1))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return json.dumps({"first load": seconds[0], "late rows": seconds[1], "python_mb": megabytes})
